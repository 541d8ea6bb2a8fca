//! Keys: which are hidden, what is done with a call that holds one, and which server is sent one.

use serde_json::{Value, json};
use testkit::{Answer, AnswerCall, Asked, Chunking, Delivery, ModelServer, Say, Wire};

use crate::answers::{bash, call, calls, complete, developer, report, select};
use crate::support::files_below;
use crate::trial::{Ended, Trial};

/// Looks like the key of a hosted service.
const KEY: &str = "sk-proj-Zk3v9QeT0aPmW8yLr2Ud";

/// A trial whose provider's key is [`KEY`], which a file of the project may hold.
fn with_key_in_files(server: ModelServer) -> Trial {
    Trial::new(server).wire(Wire::OpenAi).without_key().env("OPENAI_API_KEY", KEY)
}

/// The key is in no output, in no question to a model, and in nothing that rawko keeps.
#[track_caller]
fn hides_the_key(ended: &Ended) {
    assert!(!ended.stdout.contains(KEY), "{}", ended.stdout);
    assert!(!ended.stderr.contains(KEY), "{}", ended.stderr);
    let deltas = ended.events_of("text_delta");
    let spoken: String = deltas.iter().filter_map(|event| event["text"].as_str()).collect();
    assert!(!spoken.contains(KEY), "{spoken}");
    for asked in ended.trial.server.asked() {
        assert!(!String::from_utf8_lossy(&asked.body).contains(KEY), "a model gets the key");
    }
    let kept = [ended.trial.project().join(".rawko"), ended.trial.outside().join("home")];
    for path in kept.iter().flat_map(|folder| files_below(folder)) {
        let bytes = std::fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(KEY), "the key is in {}", path.display());
    }
    for command in [
        &["sessions", "show", "--verbose"][..],
        &["sessions", "show", "--json"],
        &["sessions", "export", "last"],
        &["sessions", "export", "last", "--format", "html"],
        &["sessions", "export", "last", "--format", "json"],
        &["explain", "last"],
        &["explain", "last", "1"],
        &["explain", "last", "--json"],
        &["replay", "last"],
    ] {
        let (code, out, err) = ended.trial.rawko(command);
        assert_eq!(code, Some(0), "{command:?}: {out}{err}");
        assert!(!out.contains(KEY) && !err.contains(KEY), "{command:?} shows the key:\n{out}{err}");
    }
}

#[test]
fn a_key_that_is_a_word_changes_no_prompt_no_path_and_no_id() {
    for key in ["test", "developer", "sk-no-key-required"] {
        let path = "tests/test_developer.txt";
        let content = "api_key = 'sk-no-key-required'  # for the test\n";
        let write = AnswerCall {
            id: Some("call_test_1".into()),
            name: "Write".into(),
            input: json!({"file_path": path, "content": content}).to_string(),
        };
        let server = developer([Say { calls: vec![write], ..Say::default() }.into()]);
        let trial = Trial::new(server).wire(Wire::OpenAi).without_key().env("OPENAI_API_KEY", key);
        let ended = trial.run("Test it.");
        ended.exits(0);
        assert_eq!(std::fs::read_to_string(ended.trial.project().join(path)).unwrap(), content, "{key}");
        let asked = ended.trial.server.asked();
        let bodies: Vec<String> = asked.iter().map(|it| String::from_utf8_lossy(&it.body).into()).collect();
        assert!(bodies.iter().all(|body| !body.contains("[redacted]")), "{key}: {bodies:?}");
        assert!(bodies[0].contains("tester") && bodies[0].contains("developer"), "{key}: {}", bodies[0]);
        assert!(bodies[2].contains("\"tool_call_id\":\"call_test_1\""), "{key}: {}", bodies[2]);
        assert!(!ended.stdout.contains("[redacted]"), "{key}: {}", ended.stdout);
    }
}

#[test]
fn a_key_that_a_model_comes_across_is_hidden_however_it_arrives() {
    let says = Say {
        text: format!("The key is {KEY}, I think."),
        delivery: Delivery { pieces: Chunking::Every(7), ..Delivery::default() },
        ..Say::default()
    };
    let server = developer([
        call("Read", &json!({"file_path": "keys.txt"})),
        bash("cat keys.txt; cat keys.txt >&2; exit 3"),
        says.with_call("Glob", &json!({"pattern": "*"})).into(),
        call("UpdatePlan", &json!({"steps": [{"description": format!("hide {KEY}")}]})),
        report(&format!("the key is {KEY}")),
    ]);
    let trial = with_key_in_files(server).file("keys.txt", &format!("first\nOPENAI_API_KEY={KEY}\n"));
    let ended = trial.args(&["--verbose"]).run(&format!("Look after {KEY}."));
    ended.exits(0);
    hides_the_key(&ended);
    let (read, _) = ended.results("Read").remove(0);
    assert!(read.contains("OPENAI_API_KEY=[redacted]"), "{read}");
    assert!(ended.stdout.contains("the key is [redacted]"), "a report is taken without the key");
}

#[test]
fn a_call_that_holds_the_key_is_refused_and_leaves_nothing() {
    let server = developer([calls(&[
        ("Write", json!({"file_path": "made.txt", "content": format!("KEY={KEY}\n")})),
        ("Bash", json!({"command": format!("touch made.sh; echo {KEY}")})),
        ("Write", json!({"file_path": format!("{KEY}.txt"), "content": "x"})),
        ("Write", json!({"file_path": "other.txt", "content": "other\n"})),
    ])]);
    let ended = with_key_in_files(server).run("Write the key.");
    ended.exits(0);
    hides_the_key(&ended);
    let project = ended.trial.project();
    let files: Vec<String> = std::fs::read_dir(&project)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.'))
        .collect();
    assert_eq!(files, ["other.txt"]);
    let text = String::from_utf8_lossy(&ended.trial.server.asked()[2].body).into_owned();
    for argument in ["`content`", "`command`", "`file_path`"] {
        assert!(text.contains(&format!("{argument} holds the value of `OPENAI_API_KEY`")), "{text}");
    }
    let allowed: Vec<Value> =
        ended.events_of("tool_called").into_iter().map(|event| event["allowed"].clone()).take(4).collect();
    assert_eq!(allowed, [json!(false), json!(false), json!(false), json!(true)]);
    let (code, printed, _) = ended.trial.rawko(&["replay", "last"]);
    assert_eq!(code, Some(0), "{printed}");
}

#[test]
fn a_secret_in_a_file_survives_an_agent_that_was_shown_redacted_in_its_place() {
    let seen = "OPENAI_API_KEY=[redacted]\nPORT=1\n";
    let server = developer([
        call("Read", &json!({"file_path": ".env"})),
        call("Write", &json!({"file_path": ".env", "content": seen.replace("PORT=1", "PORT=2")})),
        call(
            "Edit",
            &json!({"file_path": ".env", "old_string": "KEY=[redacted]\nPORT=2", "new_string": "KEY=[redacted]\nPORT=3"}),
        ),
        call("Edit", &json!({"file_path": ".env", "old_string": "OTHER=[redacted]", "new_string": "PORT=4"})),
    ]);
    let ended =
        with_key_in_files(server).file(".env", &seen.replace("[redacted]", KEY)).run("Change the port.");
    ended.exits(0);
    hides_the_key(&ended);
    let now = std::fs::read_to_string(ended.trial.project().join(".env")).unwrap();
    assert_eq!(now, format!("OPENAI_API_KEY={KEY}\nPORT=3\n"));
    let (written, is_error) = ended.results("Write").remove(0);
    assert!(!is_error, "{written}");
    let edits = ended.results("Edit");
    assert!(!edits[0].1, "{edits:?}");
    assert!(edits[1].1 && edits[1].0.contains("`[redacted]` stands for a secret"), "{edits:?}");
}

#[test]
fn a_configuration_that_holds_the_key_is_refused_with_its_place() {
    let agent = json!({"name": "helper", "systemPrompt": format!("Use {KEY}.")});
    let ended = with_key_in_files(ModelServer::sequence([])).agent(&agent).args(&["--yes"]).run("Do it.");
    ended.exits(2).says(&["agents.helper.config.systemPrompt", "OPENAI_API_KEY", "take it out"]);
    assert!(!ended.stderr.contains(KEY));
    let (code, doctor, _) = ended.trial.ask(&["doctor", "--json"]);
    assert!(code == Some(1) && doctor.contains("agents.helper.config.systemPrompt"), "{doctor}");
    let ended = with_key_in_files(ModelServer::sequence([]))
        .args(&["--verify", &format!("echo {KEY}")])
        .run("Do it.");
    ended.exits(2).says(&["verify.commands[0]", "OPENAI_API_KEY"]);
}

/// Headers by which keys travel.
fn keys_sent(asked: &[Asked]) -> Vec<Option<&str>> {
    asked.iter().map(|asked| asked.header("authorization").or(asked.header("x-api-key"))).collect()
}

/// A run against a server of the user's own, with the keys of the known services in the environment.
#[track_caller]
fn check_sent(settings: Value, expected: Option<&str>) {
    // A list of models is not of the sequence: the server answers it by itself.
    let answers = [select("developer"), report("did it"), complete("all done")];
    let server = ModelServer::sequence(answers);
    let mut settings = settings;
    settings["model"] = json!("m");
    settings["baseUrl"] = json!(match settings["type"].as_str() {
        Some("claude") => server.claude_url(),
        _ => server.openai_url(),
    });
    let trial = Trial::new(server)
        .without_key()
        .user_config("/provider/mine", settings)
        .env("RAWKO_PROVIDER", "mine")
        .env("OPENAI_API_KEY", "sk-of-openai-7c1f93e2")
        .env("ANTHROPIC_API_KEY", "sk-of-anthropic-7c1f93e2")
        .env("MY_KEY", "sk-of-mine-7c1f93e2");
    let (code, list, _) = trial.ask(&["providers", "list", "--json"]);
    assert_eq!(code, Some(0));
    let list: Value = serde_json::from_str(&list).unwrap();
    let mine = list.as_array().unwrap().iter().find(|entry| entry["name"] == "mine").unwrap();
    let (code, doctor, _) = trial.ask(&["doctor", "--json"]);
    assert_eq!(code, Some(0), "{doctor}");
    let doctor: Value = serde_json::from_str(&doctor).unwrap();
    let finding = doctor["findings"].as_array().unwrap().iter().find(|it| it["name"] == "provider").unwrap();
    let (code, checked, text) = trial.ask(&["providers", "check"]);
    assert_eq!(code, Some(0), "{text}");
    match expected {
        Some(_) => {
            assert_eq!((&mine["apiKeyEnv"], &mine["keySet"]), (&json!("MY_KEY"), &json!(true)));
            assert!(finding["detail"].as_str().unwrap().contains("key in MY_KEY"), "{finding}");
            assert!(checked.contains("with the key in MY_KEY"), "{checked}");
        }
        None => {
            assert_eq!((&mine["apiKeyEnv"], &mine["keySet"]), (&Value::Null, &Value::Null));
            assert!(finding["detail"].as_str().unwrap().contains("no key is sent"), "{finding}");
            assert!(checked.contains("without a key"), "{checked}");
        }
    }
    let ended = trial.run("Do it.");
    ended.exits(0);
    let asked = ended.trial.server.asked();
    assert_eq!(asked.len(), 4, "a check and a run");
    for sent in keys_sent(&asked) {
        assert_eq!(sent, expected);
    }
}

#[test]
fn a_server_of_ones_own_is_sent_no_key_of_another_service() {
    check_sent(json!({"type": "openai"}), None);
    check_sent(json!({"type": "claude"}), None);
    check_sent(json!({"preset": "openai"}), None);
    check_sent(json!({"type": "openai", "apiKeyEnv": null}), None);
    check_sent(json!({"type": "openai", "apiKeyEnv": "MY_KEY"}), Some("Bearer sk-of-mine-7c1f93e2"));
    check_sent(json!({"type": "claude", "apiKeyEnv": "MY_KEY"}), Some("sk-of-mine-7c1f93e2"));
}

#[test]
fn api_key_env_null_sends_no_key_where_the_environment_moves_the_server() {
    let answers = [select("developer"), report("did it"), complete("all done")];
    let trial = Trial::new(ModelServer::sequence(answers)).wire(Wire::OpenAi);
    let ended = trial.user_config("/provider/openai/apiKeyEnv", Value::Null).run("Do it.");
    ended.exits(0);
    assert_eq!(keys_sent(&ended.trial.server.asked()), [None; 3]);
}

#[test]
fn a_server_that_wants_a_key_and_was_sent_none_says_which_setting_to_write() {
    let server = ModelServer::start(|_: &Asked| Answer::unauthorized());
    let settings = json!({"type": "openai", "baseUrl": server.openai_url(), "model": "m"});
    let trial = Trial::new(server).user_config("/provider/mine", settings).env("RAWKO_PROVIDER", "mine");
    let ended = trial.run("Do it.");
    ended.exits(4);
    let summary = ended.finish()["summary"].as_str().unwrap().to_owned();
    assert!(summary.contains("provider.mine.apiKeyEnv"), "{summary}");
}
