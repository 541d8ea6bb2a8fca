//! A command ends quietly when its reader goes away.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::place::{Place, wait_for};

#[track_caller]
fn check(arguments: &[&str], code: i32) {
    let place = Place::new();
    let mut child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(code), ""), "{arguments:?}");
}

#[test]
fn commands_end_quietly() {
    check(&["agents", "list"], 0);
    check(&["config", "schema"], 0);
    check(&["--help"], 0);
    check(&["machine", "export"], 0);
}

/// A run whose reader goes away after a line with `last` is cancelled, whatever `developer` does.
#[track_caller]
fn check_cancelled(last: &str, developer: &Value) {
    let select =
        json!({"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}});
    let place = Place::scripted(&json!([select, developer]));
    let mut command = place.command(&["--yes", "--output", "stream-json", "go on and on"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::with_capacity(1, child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(last)));
    drop(lines);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(130), ""));
    place.rawko(&["sessions", "list"]).ends(0).says(&["cancelled"]);
}

#[test]
fn a_run_whose_events_have_no_reader_is_cancelled() {
    let glob = json!([{"name": "Glob", "input": {"pattern": "*"}}]);
    check_cancelled(
        "session_started",
        &json!({"for": "developer", "repeat": true, "delayMs": 5, "tools": glob}),
    );
}

#[test]
fn a_run_whose_reader_goes_while_the_model_thinks_is_cancelled() {
    check_cancelled("agent_started", &json!({"for": "developer", "delayMs": 3_600_000, "text": "Done."}));
}

/// A pipe with a name has one reader after the other.
#[cfg(target_os = "linux")]
#[test]
fn a_run_waits_for_the_next_reader_of_a_named_pipe() {
    let place = Place::scripted(&json!([
        {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}},
        {"for": "developer", "delayMs": 4_000, "text": "Done."},
        {"for": "evaluate", "decision": {"decision": "COMPLETE", "reason": "done", "summary": "It is done."}},
    ]));
    let pipe = place.project().with_file_name("events");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = place.command(&["--yes", "--output", "stream-json", "think it over"]);
    let to = pipe.clone();
    let run = std::thread::spawn(move || {
        let pipe = std::fs::File::options().write(true).open(to).unwrap();
        command.stdout(pipe).output().unwrap()
    });
    let read_until = |last: &str| {
        let lines = BufReader::with_capacity(1, std::fs::File::open(&pipe).unwrap()).lines();
        lines.map(Result::unwrap).any(|line| line.contains(last))
    };
    assert!(read_until("agent_started"));
    // Longer than the time between two looks.
    std::thread::sleep(std::time::Duration::from_millis(700));
    assert!(read_until("session_finished"));
    assert_eq!(run.join().unwrap().status.code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    for output in ["text", "json", "stream-json"] {
        let place = Place::scripted(&json!([
            {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}},
            {"for": "developer", "text": "Done."},
            {"for": "evaluate", "decision": {"decision": "COMPLETE", "reason": "done", "summary": "It is done."}},
        ]));
        let mut command = place.command(&["--yes", "--output", output, "do it"]);
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = command.stdout(full).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{output}: {said}");
        assert!(said.contains("cannot write to standard output"), "{output}: {said}");
    }
}

#[test]
fn a_reader_that_does_not_read_holds_nothing_back() {
    // Far more than a pipe takes.
    let text = "Words and more words. ".repeat(20_000);
    let place = Place::scripted(&json!([
        {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}},
        {"for": "developer", "text": text},
        {"for": "evaluate", "decision": {"decision": "COMPLETE", "reason": "done", "summary": "It is done."}},
    ]));
    let mut command = place.command(&["--yes", "--output", "stream-json", "talk on"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| place.rawko(&["sessions", "list"]).ends(0).out.contains("claimed").then_some(()));
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(printed.len() > 100_000);
    assert!(
        printed.lines().last().unwrap().starts_with("{\"type\":\"session_finished\",\"status\":\"claimed\"")
    );
}

#[test]
fn a_second_signal_does_not_wait_for_a_reader() {
    let text = "Words and more words. ".repeat(20_000);
    let place = Place::scripted(&json!([
        {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}},
        {"for": "developer", "text": text, "tools": [{"name": "Bash", "input": {"command": "trap '' TERM; echo here > begun; sleep 1000"}}]},
    ]));
    let mut command = place.command(&["--yes", "--output", "stream-json", "talk on"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| place.project().join("begun").exists().then_some(()));
    let begun = std::time::Instant::now();
    let code = wait_for(|| {
        let _ = std::process::Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .stderr(Stdio::null())
            .status();
        child.try_wait().unwrap()
    });
    assert_eq!(code.code(), Some(130));
    assert!(begun.elapsed() < std::time::Duration::from_millis(1_900), "{:?}", begun.elapsed());
    wait_for(|| testkit::processes_in(&place.project()).is_empty().then_some(()));
}
