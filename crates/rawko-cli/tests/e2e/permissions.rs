//! What an agent may not do does not happen, and the model is told why.

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
    let told = ended.trial.server.asked()[2].last_text();
    assert!(told.contains(words[0]), "the model is told: {told}");
    let secret = std::fs::read_to_string(ended.trial.outside().join("secret.txt")).unwrap();
    assert_eq!(secret, "do not read me\n");
    assert!(!told.contains("do not read me"), "{told}");
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
    let words = ["`planner` may not use the tool `Write`", "tools.allowed"];
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
        let ended = check(Trial::new, "planner", bash(command), "Bash", &["`planner`"]);
        check_untouched(&ended);
    }
}

#[test]
fn nobody_writes_outside_of_the_project() {
    let ended = check(Trial::new, "developer", call("Write", &write("../x")), "Write", &["outside"]);
    check_untouched(&ended);
    assert!(!ended.trial.outside().join("x").exists());
}

#[test]
fn nobody_writes_outside_by_an_absolute_path() {
    let probe = std::env::temp_dir().join(format!("rawko-e2e-{}", std::process::id()));
    let input = write(&probe.display().to_string());
    let ended = check(Trial::new, "developer", call("Write", &input), "Write", &["outside"]);
    assert!(!probe.exists());
    check_untouched(&ended);
}

#[test]
fn nobody_writes_through_a_link() {
    let trial = |server| {
        let trial = Trial::new(server);
        std::os::unix::fs::symlink("..", trial.project().join("up")).unwrap();
        trial
    };
    let ended = check(trial, "developer", call("Write", &write("up/x")), "Write", &["outside"]);
    assert!(!ended.trial.outside().join("x").exists());
}

#[test]
fn nobody_reads_through_a_link() {
    let trial = |server| {
        let trial = Trial::new(server);
        std::os::unix::fs::symlink("../secret.txt", trial.project().join("notes.txt")).unwrap();
        trial
    };
    check(trial, "developer", call("Read", &json!({"file_path": "notes.txt"})), "Read", &["outside"]);
}

#[test]
fn nobody_rewrites_rawkos_own_configuration() {
    let input = write(".rawko/agents/developer.yaml");
    let ended = check(Trial::new, "developer", call("Write", &input), "Write", &[".rawko"]);
    assert!(!ended.trial.project().join(".rawko/agents").exists());
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
    let words = ["more than 10 programs start one another", "`tester_of_env`"];
    let agent = json!({"name": "tester_of_env", "systemPrompt": "Test.", "tools": {
        "allowed": ["Bash"], "bashFilter": {"allowedCommands": ["env", "ls"]},
    }});
    let trial = |server| Trial::new(server).agent(&agent).args(&["--yes"]);
    let ended = check(trial, "tester_of_env", bash(&chain()), "Bash", &words);
    let journal = crate::journal::only(&ended.trial.project());
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
    let journal = crate::journal::only(&project);
    assert!(journal.records.len() > answer, "it went on");
}
