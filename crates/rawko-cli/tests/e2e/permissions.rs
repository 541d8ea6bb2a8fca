//! A call that an agent may not make does not happen, and the model gets the reason.

use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use crate::answers::{bash, call, complete, report, select};
use crate::trial::{Ended, Trial};

/// The agent makes this call; it fails with these words, which reach the model, and the run goes on.
#[track_caller]
fn check(
    trial: impl FnOnce(ModelServer) -> Trial,
    agent: &str,
    turn: Answer,
    tool: &str,
    words: &[&str],
) -> Ended {
    let server = ModelServer::sequence([select(agent), turn, report("could not"), complete("well")]);
    let trial = trial(server);
    std::fs::write(trial.outside().join("secret.txt"), "do not read me\n").unwrap();
    let ended = trial.run("Try it.");
    ended.exits(0);
    let results = ended.results(tool);
    assert_eq!(results.len(), 1, "{}", ended.stdout);
    let (output, is_error) = &results[0];
    assert!(is_error, "{output}");
    for word in words {
        assert!(output.contains(word), "{word:?} is missing in {output:?}");
    }
    let text = ended.trial.server.asked()[2].last_text();
    assert!(text.contains(words[0]), "the model learns why: {text}");
    let secret = std::fs::read_to_string(ended.trial.outside().join("secret.txt")).unwrap();
    assert_eq!(secret, "do not read me\n");
    assert!(!text.contains("do not read me"), "{text}");
    assert_eq!(ended.finish()["filesModified"], json!([]));
    ended
}

/// Nothing but rawko's own folder is in the project.
#[track_caller]
fn check_untouched(ended: &Ended) {
    let names = std::fs::read_dir(ended.trial.project()).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [".git", ".rawko"]);
}

fn write(path: &str) -> Value {
    json!({"file_path": path, "content": "pwned"})
}

#[test]
fn a_planner_cannot_write() {
    let words = ["`planner` may not use the tool `Write`", "leave it to an agent that has it"];
    let ended = check(Trial::new, "planner", call("Write", &write("x")), "Write", &words);
    check_untouched(&ended);
    let denied = ended.events_of("tool_called").remove(0);
    assert_eq!((&denied["allowed"], &denied["rule"]), (&json!(false), &json!("tools.allowed")));
    assert!(!ended.trial.server.asked()[1].tool_names().contains(&"Write"), "it is not even offered");
}

#[test]
fn a_planner_cannot_write_through_the_shell() {
    for command in
        ["touch x", "ls > x", "find . -name a -exec touch x ;", "cat /dev/null | tee x", "ls; touch x"]
    {
        let ended = check(Trial::new, "planner", bash(command), "Bash", &["The command was not run"]);
        check_untouched(&ended);
    }
}

#[test]
fn no_agent_writes_outside_of_the_project() {
    let ended = check(Trial::new, "developer", call("Write", &write("../x")), "Write", &["outside"]);
    check_untouched(&ended);
    assert!(!ended.trial.outside().join("x").exists());
}

#[test]
fn no_agent_writes_outside_by_an_absolute_path() {
    let probe = std::env::temp_dir().join(format!("rawko-e2e-{}", std::process::id()));
    let input = write(&probe.display().to_string());
    let ended = check(Trial::new, "developer", call("Write", &input), "Write", &["outside"]);
    assert!(!probe.exists());
    check_untouched(&ended);
}

#[test]
fn no_agent_writes_through_a_link() {
    let trial = |server| {
        let trial = Trial::new(server);
        std::os::unix::fs::symlink("..", trial.project().join("up")).unwrap();
        trial
    };
    let ended = check(trial, "developer", call("Write", &write("up/x")), "Write", &["outside"]);
    assert!(!ended.trial.outside().join("x").exists());
}

#[test]
fn no_agent_reads_through_a_link() {
    let trial = |server| {
        let trial = Trial::new(server);
        std::os::unix::fs::symlink("../secret.txt", trial.project().join("notes.txt")).unwrap();
        trial
    };
    check(trial, "developer", call("Read", &json!({"file_path": "notes.txt"})), "Read", &["outside"]);
}

#[test]
fn no_agent_rewrites_rawkos_own_configuration() {
    let input = write(".rawko/agents/developer.yaml");
    let ended = check(Trial::new, "developer", call("Write", &input), "Write", &[".rawko"]);
    assert!(!ended.trial.project().join(".rawko/agents").exists());
}

#[test]
fn a_refusal_says_what_to_do_instead_and_the_end_what_to_change() {
    let turns = || {
        ModelServer::sequence([
            select("planner"),
            bash("make all"),
            bash("make test"),
            bash("ls > list.txt"),
            call("Read", &json!({"file_path": "/etc/hosts"})),
            report("could not"),
            complete("well"),
        ])
    };
    let make = "add `- make` under tools.bashFilter.allowedCommands of agent `planner`";
    let hosts = "add `- /etc/hosts` under permissions.read";
    let ended = Trial::new(turns()).run("Try it.");
    ended.exits(0);
    for (output, instead) in ended.results("Bash").iter().zip([
        "`make` is not listed: you may run ls, cat,",
        "Use these, or another tool.",
        "Leave it out, you get the output anyway",
    ]) {
        assert!(output.0.contains(instead), "{instead:?} is missing in {}", output.0);
    }
    for request in ended.trial.server.asked() {
        let text = request.last_text();
        for key in ["tools.bashFilter", "permissions.", "rawko agents", "To allow it"] {
            assert!(!text.contains(key), "{key} is in {text}");
        }
    }
    // Each change once. Without a sandbox there is one for the redirection, too.
    let end = ended.finish();
    let mut changes: Vec<&str> =
        end["wouldAllow"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    changes.retain(|change| !change.starts_with("remove the list"));
    assert_eq!(changes, [make, hosts]);
    let (status, text, _) = ended.trial.rawko(&["sessions", "show", "last"]);
    assert_eq!((status, text.matches(make).count()), (Some(0), 1), "{text}");
    assert!(text.contains("Denied calls:"), "{text}");
}

#[test]
fn nothing_is_said_of_denials_where_there_were_none() {
    let turns = [select("planner"), bash("ls | sort"), report("read"), complete("well")];
    let ended = Trial::new(ModelServer::sequence(turns)).run("Look.");
    ended.exits(0);
    assert!(ended.finish()["wouldAllow"].is_null(), "{}", ended.finish());
    let (_, text, _) = ended.trial.rawko(&["sessions", "show", "last"]);
    assert!(!text.contains("Denied"), "{text}");
}

#[test]
fn a_tool_that_is_not_there() {
    check(
        Trial::new,
        "developer",
        call("Teleport", &json!({})),
        "Teleport",
        &["There is no tool `Teleport`"],
    );
}

/// Thousands of wrappers: once the judge overflowed the stack, and every resume did so again.
fn chain() -> String {
    format!("{}ls", "env ".repeat(12_000))
}

#[test]
fn twelve_thousand_wrappers_are_denied_and_journaled() {
    let words = ["more than 10 programs start one another"];
    let agent = json!({"name": "tester_of_env", "systemPrompt": "Test.", "tools": {
        "allowed": ["Bash"], "bashFilter": {"allowedCommands": ["env", "ls"]},
    }});
    let trial = |server| Trial::new(server).agent(&agent).args(&["--yes"]);
    let ended = check(trial, "tester_of_env", bash(&chain()), "Bash", &words);
    let journal = crate::journal::only(&ended.trial);
    let denied = journal.records.iter().any(|record| match record {
        rawko::journal::Record::Step(step) => step.notes.iter().any(|note| {
            matches!(note, rawko_core::session::Note::ToolCalled { allowed: false, rule, .. }
                if rule == "tools.bashFilter.allowedCommands")
        }),
        rawko::journal::Record::Event(_) => false,
    });
    assert!(denied, "the denial is in the journal");
}

#[test]
fn a_session_that_ended_at_such_a_command_is_resumed_and_replayed() {
    let agent = json!({"name": "tester_of_env", "systemPrompt": "Test.", "tools": {
        "allowed": ["Bash"], "bashFilter": {"allowedCommands": ["env", "ls"]},
    }});
    let server = ModelServer::sequence([
        select("tester_of_env"),
        bash(&chain()),
        report("could not"),
        complete("well"),
        report("could not"),
        complete("well"),
    ]);
    let ended = Trial::new(server).agent(&agent).args(&["--yes"]).run("Try it.");
    ended.exits(0);
    let project = ended.trial.project();
    let store = rawko::journal::SessionStore::of_project(&project);
    let path = store.find("last").unwrap();
    // The journal as the overflow left it: the answer is there, what follows from it is not.
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let answer =
        lines.iter().position(|line| line.contains("ModelReplied") && line.contains("\"Bash\"")).unwrap();
    std::fs::write(&path, lines[..=answer].concat()).unwrap();
    let (code, out, err) = ended.trial.rawko(&["replay", "last"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, out, err) = ended.trial.resume_with(&["--yes"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let journal = crate::journal::only(&ended.trial);
    assert!(journal.records.len() > answer, "it went on");
}
