//! A reader that goes away is no error to shout about.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::json;

use crate::place::Place;

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

#[test]
fn a_run_whose_events_nobody_reads_is_cancelled() {
    let place = Place::scripted(&json!([
        {"for": "select", "decision": {"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}},
        {"for": "developer", "repeat": true, "delayMs": 5, "tools": [{"name": "Glob", "input": {"pattern": "*"}}]},
    ]));
    let mut command = place.command(&["--yes", "--output", "stream-json", "go on and on"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::with_capacity(1, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("session_started"));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(130), ""));
    place.rawko(&["sessions", "list"]).ends(0).says(&["cancelled"]);
}
