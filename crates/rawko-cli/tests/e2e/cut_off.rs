//! The end of a run that was cut off says what the run changed before, including what commands wrote.

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use crate::answers::{bash, complete, report, select};
use crate::trial::{Ended, Trial};

const WRITE: &str =
    "echo a > a.txt; mkdir -p deep; echo b > deep/b.txt; sed -i s/old/new/ tracked; echo x > x.tmp";

/// A repository with a file, in which the developer runs a command, and then the server says `more`.
fn trial(more: impl IntoIterator<Item = Answer>) -> Trial {
    let begin = [select("developer"), bash(WRITE)];
    let trial = Trial::new(ModelServer::sequence(begin.into_iter().chain(more)))
        .file("tracked", "old\n")
        .file(".gitignore", "*.tmp\n");
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "-m", "first"]);
    trial
}

#[track_caller]
fn check_files(finish: &Value) {
    assert_eq!(finish["filesModified"], json!(["a.txt", "deep/b.txt", "tracked"]), "{finish:#}");
    assert_eq!((finish.get("filesModifiedPartial"), finish.get("moreFilesModified")), (None, None));
}

/// Every reader of the session tells the same files, and it replays.
#[track_caller]
fn check_readers(trial: &Trial, ends: usize) {
    let (_, replayed, err) = trial.rawko(&["replay", "last"]);
    assert!(replayed.contains("everything matches the record"), "{replayed}{err}");
    let (code, shown, err) = trial.rawko(&["sessions", "show", "last"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(shown.contains("a.txt, deep/b.txt, tracked"), "{shown}");
    let (_, shown, _) = trial.rawko(&["sessions", "show", "last", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    check_files(&shown["outcome"]);
    let events = shown["events"].as_array().unwrap();
    let count = |kind| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(count("session_finished"), ends, "each end is reported once");
    let (code, export, err) = trial.rawko(&["sessions", "export", "last"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(export.contains("a.txt, deep/b.txt, tracked"), "{export}");
}

#[track_caller]
fn check(ended: &Ended, code: i32, status: &str) {
    ended.exits(code);
    let finish = ended.finish();
    assert_eq!(finish["status"], status, "{finish:#}");
    check_files(&finish);
    check_readers(&ended.trial, 1);
}

/// Takes the session up again: the agent only reports.
#[track_caller]
fn check_resumed(trial: &Trial, arguments: &[&str]) {
    let (code, out, err) = trial.resume_with(arguments);
    assert_eq!(code, Some(0), "{out}{err}");
    check_files(&serde_json::from_str(out.lines().last().unwrap()).unwrap());
    check_readers(trial, 2);
}

#[test]
fn by_the_time_limit() {
    let more = [Answer::Silence, report("it was done"), complete("all done")];
    let ended = trial(more).args(&["--timeout", "3s"]).run("Do it.");
    check(&ended, 3, "limited");
    check_resumed(&ended.trial, &["--timeout", "1m"]);
}

/// The command is killed in its midst, and the tree is not looked at before it is dead.
#[test]
fn by_the_time_limit_while_a_command_writes() {
    let writes = "trap '' TERM INT HUP; while :; do echo x >> late.txt; done";
    let ended = trial([bash(writes)]).args(&["--timeout", "3s"]).run("Do it.");
    ended.exits(3);
    let finish = ended.finish();
    assert_eq!(finish["filesModified"], json!(["a.txt", "deep/b.txt", "late.txt", "tracked"]), "{finish:#}");
}

#[test]
fn by_ctrl_c() {
    let running = trial([Answer::Silence]).start("Do it.");
    running.wait_for_event("tool_finished");
    running.signal(Signal::INT);
    check(&running.end(), 130, "cancelled");
}

#[test]
fn by_the_provider() {
    let more = [Answer::unauthorized(), report("it was done"), complete("all done")];
    let ended = trial(more).run("Do it.");
    check(&ended, 4, "failed");
    check_resumed(&ended.trial, &[]);
}

/// An execution that fails is not inspected; the one after it changes nothing.
#[test]
fn by_the_time_of_one_execution() {
    let agent = json!({"name": "brief", "systemPrompt": "Be brief.", "tools": {"allowed": ["Bash", "Write"]}, "limits": {"timeout": 2_000}});
    let answers = [
        select("brief"),
        bash(WRITE),
        Answer::Silence,
        select("developer"),
        report("looked"),
        complete("done"),
    ];
    let trial = Trial::new(ModelServer::sequence(answers))
        .agent(&agent)
        .file("tracked", "old\n")
        .file(".gitignore", "*.tmp\n");
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "-m", "first"]);
    check(&trial.args(&["--yes"]).run("Do it."), 0, "claimed");
}

#[test]
fn more_files_than_are_listed_are_counted() {
    let many = "for n in $(seq 1100); do echo $n > $n.txt; done";
    let server =
        ModelServer::sequence([select("developer"), bash(many), report("wrote them"), complete("all done")]);
    let ended = Trial::new(server).run("Write them.");
    ended.exits(0);
    let finish = ended.finish();
    assert_eq!(finish["filesModified"].as_array().unwrap().len(), 1_000);
    assert_eq!(finish["moreFilesModified"], 100, "{finish:#}");
    let (_, shown, _) = ended.trial.rawko(&["sessions", "show", "last"]);
    assert!(shown.contains(" and 100 more\n"), "{shown}");
}
