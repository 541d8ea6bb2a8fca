//! What an agent writes back of what it was shown: the secrets of the file are still in it.

use serde_json::{Value, json};
use testkit::{Asked, ModelServer, Who};

use crate::answers::{bash, call, complete, report, select};
use crate::trial::{Ended, Trial};

const TOKEN: &str = "deploy-canary-2a94c1f0";

/// Put together here, so that no scanner takes this file for a leak.
fn github() -> String {
    ["ghp", "7Kp2mQx9Lw4Zt8Rv3Ns6Hb5Jd1Fg0YcTuEaW"].join("_")
}

fn settings() -> String {
    format!("# keys\nDEPLOY_TOKEN={TOKEN}\nGITHUB={}\nDEBUG=0\n", github())
}

/// The results of tools that a request holds.
fn results(asked: &Asked) -> Vec<String> {
    let blocks = asked.messages().into_iter().filter_map(|message| message["content"].as_array());
    let results = blocks.flatten().filter(|block| block["type"] == "tool_result");
    let text = |block: &Value| match &block["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    results.map(text).collect()
}

/// An agent that makes these calls, where `calls` is given what the Read of `settings.env` said, without line numbers.
fn run(calls: impl Fn(&str) -> Vec<(&'static str, Value)> + Send + Sync + 'static, config: &Value) -> Ended {
    let server = ModelServer::start(move |asked: &Asked| {
        let results = results(asked);
        let read = results.first().cloned().unwrap_or_default();
        let shown: String =
            read.lines().filter_map(|line| Some(line.split_once('\t')?.1.to_owned() + "\n")).collect();
        match asked.who() {
            Who::Select => select("developer"),
            Who::Evaluate => complete("done"),
            Who::Agent => match results.len() {
                0 => call("Read", &json!({"file_path": "settings.env"})),
                n => match calls(&shown).get(n - 1) {
                    Some(("Bash", command)) => bash(command.as_str().unwrap()),
                    Some((tool, input)) => call(tool, input),
                    None => report("did it"),
                },
            },
        }
    });
    Trial::new(server)
        .env("DEPLOY_TOKEN", TOKEN)
        .file("settings.env", &settings())
        .config(config)
        .args(&["--yes"])
        .run("Turn debugging on.")
}

#[track_caller]
fn holds(ended: &Ended, expected: &str) {
    let text = std::fs::read_to_string(ended.trial.project().join("settings.env")).unwrap();
    assert_eq!(text, expected, "{}", ended.stdout);
}

/// Neither requests nor what rawko keeps has the secrets.
#[track_caller]
fn is_secret(ended: &Ended) {
    for secret in [TOKEN.to_owned(), github()] {
        for asked in ended.trial.server.asked() {
            assert!(!String::from_utf8_lossy(&asked.body).contains(&secret), "a request holds {secret}");
        }
        assert!(!ended.stdout.contains(&secret) && !ended.stderr.contains(&secret), "{}", ended.stdout);
        let journal = ended.trial.project().join(".rawko/sessions");
        let found = std::process::Command::new("grep").args(["-rl", &secret]).arg(journal).output().unwrap();
        assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
    }
}

#[test]
fn a_file_that_is_written_back_keeps_its_secrets() {
    let ended = run(
        |shown| {
            let content = shown.replace("DEBUG=0", "DEBUG=1");
            vec![("Write", json!({"file_path": "settings.env", "content": content}))]
        },
        &json!({}),
    );
    ended.exits(0);
    holds(&ended, &settings().replace("DEBUG=0", "DEBUG=1"));
    is_secret(&ended);
    let shown = &ended.results("Read")[0].0;
    assert!(
        shown.contains("DEPLOY_TOKEN=[redacted]") && shown.contains("GITHUB=[redacted:github-token:"),
        "{shown}"
    );
}

#[test]
fn an_edit_may_name_what_it_was_shown() {
    let ended = run(
        |shown| {
            let old = shown.lines().skip(1).take(2).collect::<Vec<_>>().join("\n");
            let new = shown.lines().skip(1).take(2).map(|line| format!("export {line}")).collect::<Vec<_>>();
            let input = json!({"file_path": "settings.env", "old_string": old, "new_string": new.join("\n")});
            vec![("Edit", input)]
        },
        &json!({}),
    );
    ended.exits(0);
    let expected = settings().replace("DEPLOY", "export DEPLOY").replace("GITHUB", "export GITHUB");
    holds(&ended, &expected);
    is_secret(&ended);
}

#[test]
fn a_placeholder_never_takes_the_place_of_a_secret() {
    let ended = run(
        |shown| {
            let placeholder = shown.lines().nth(2).unwrap().split_once('=').unwrap().1.to_owned();
            vec![
                ("Write", json!({"file_path": "copy.env", "content": format!("GITHUB={placeholder}\n")})),
                ("Bash", json!(format!("sed -i 's/^GITHUB=.*/GITHUB={placeholder}/' settings.env"))),
                (
                    "Edit",
                    json!({"file_path": "settings.env", "old_string": "DEBUG=0", "new_string": "GITHUB=[redacted:github-token:00000000]"}),
                ),
            ]
        },
        &json!({}),
    );
    ended.exits(0);
    holds(&ended, &settings());
    assert!(!ended.trial.project().join("copy.env").exists());
    is_secret(&ended);
    let refused: Vec<(String, bool)> =
        ["Write", "Bash", "Edit"].into_iter().flat_map(|tool| ended.results(tool)).collect();
    assert_eq!(refused.len(), 3);
    for (message, is_error) in refused {
        assert!(is_error && message.contains("stands for a secret"), "{message}");
    }
}

#[test]
fn the_mask_can_be_turned_off() {
    let ended = run(|_| Vec::new(), &json!({"secrets": {"maskTokens": false}}));
    ended.exits(0);
    let shown = &ended.results("Read")[0].0;
    assert!(shown.contains(&github()) && shown.contains("DEPLOY_TOKEN=[redacted]"), "{shown}");
}

#[test]
fn a_part_of_a_private_key_is_masked_too() {
    let body = "MIIEowIBAAKCAQEA7Kp2mQx9Lw4Zt8Rv3Ns6Hb5Jd1Fg0YcTuEaWiXoBnMqPzSkZ";
    let key =
        format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n{}=\n-----END RSA PRIVATE KEY-----\n", &body[..40]);
    let server = ModelServer::sequence([
        select("developer"),
        call("Read", &json!({"file_path": "key.pem", "offset": 2})),
        bash("cat key.pem"),
        report("did it"),
        complete("all done"),
    ]);
    let ended = Trial::new(server).file("key.pem", &key).run("Look.");
    ended.exits(0);
    for tool in ["Read", "Bash"] {
        let shown = &ended.results(tool)[0].0;
        assert!(!shown.contains(&body[..20]) && shown.contains("[redacted:private-key:"), "{shown}");
    }
}

#[test]
fn an_edit_shows_no_part_of_a_secret() {
    let edit = |old: &str, new: &str| {
        let all = true;
        json!({"file_path": "settings.env", "old_string": old, "new_string": new, "replace_all": all})
    };
    let ended = run(
        move |shown| {
            let content = shown.replace("GITHUB=", "GITHUB=x");
            vec![
                ("Edit", edit("-", "- ")),
                ("Edit", edit("deploy-canary", "q")),
                ("Edit", edit("ghp_7Kp", "q")),
                ("Edit", edit("redacted", "q")),
                ("Edit", edit("GITHUB=", "GITHUBx")),
                ("Write", json!({"file_path": "settings.env", "content": content})),
            ]
        },
        &json!({}),
    );
    ended.exits(0);
    holds(&ended, &settings());
    is_secret(&ended);
    let refused: Vec<(String, bool)> =
        ["Edit", "Write"].into_iter().flat_map(|tool| ended.results(tool)).collect();
    assert_eq!(refused.len(), 6);
    for (message, is_error) in refused {
        assert!(is_error && message.contains("Nothing was written"), "{message}");
        assert!(!message.contains("2a94") && !message.contains("7Kp2"), "{message}");
    }
}

#[test]
fn a_token_stays_masked_where_a_command_puts_a_letter_before_it() {
    let ended = run(
        |_| vec![("Bash", json!("sed -i s/GITHUB=/GITHUBx/ settings.env; cat settings.env"))],
        &json!({}),
    );
    ended.exits(0);
    is_secret(&ended);
    assert!(ended.results("Bash")[0].0.contains("GITHUBx[redacted:github-token:"), "{}", ended.stdout);
}

#[test]
fn a_word_in_a_placeholders_place_is_never_written() {
    let write = |path: &str| call("Write", &json!({"file_path": path, "content": "k=[redacted]\na=2\n"}));
    let server = ModelServer::sequence([
        select("developer"),
        call("Read", &json!({"file_path": "a.env"})),
        write("a.env"),
        write("new.env"),
        report("did it"),
        complete("all done"),
    ]);
    // The variable is not set in this run, so the secret is not known.
    let ended = Trial::new(server).file("a.env", "k=other-canary-7d20c1ab\n").args(&["--yes"]).run("Look.");
    ended.exits(0);
    let text = std::fs::read_to_string(ended.trial.project().join("a.env")).unwrap();
    assert_eq!(text, "k=other-canary-7d20c1ab\n");
    assert!(!ended.trial.project().join("new.env").exists());
    for (message, is_error) in ended.results("Write") {
        assert!(is_error && message.contains("stands for a secret"), "{message}");
    }
}
