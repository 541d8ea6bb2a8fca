//! A person is asked for a call that is not granted, and answers from another process.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::answers::{bash, call, developer};
use crate::trial::{Ended, Running, Trial};

/// A command that only `cat` would be on the list for.
const COMMAND: &str = "echo made >> made";

/// A user who is asked, and whose agents may only run `cat`.
pub(crate) fn asking(trial: Trial) -> Trial {
    trial
        .user_config("/permissions/ask", json!(["commands", "paths"]))
        .user_config("/permissions/run", json!(["cat"]))
}

fn waiting() -> Running {
    let running = asking(Trial::new(developer([bash(COMMAND)]))).start("Make it.");
    running.wait_for_event("approval_requested");
    running
}

fn made(trial: &Trial) -> String {
    std::fs::read_to_string(trial.project().join("made")).unwrap_or_default()
}

/// What waits.
#[track_caller]
fn listed(trial: &Trial) -> Vec<Value> {
    let (code, stdout, stderr) = trial.rawko(&["approve", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

#[track_caller]
fn answered(ended: &Ended, answer: &str) {
    let events = ended.events_of("approval_answered");
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["answer"], answer);
}

fn answer_file(trial: &Trial) -> PathBuf {
    let session = listed(trial)[0]["session"].as_str().unwrap().to_owned();
    trial.project().join(".rawko/sessions").join(session).join("approval.json")
}

#[test]
fn a_command_is_allowed_from_another_process() {
    let running = waiting();
    let waits = listed(&running.trial);
    assert_eq!(waits.len(), 1);
    let question = &waits[0]["question"];
    assert_eq!(
        (&question["agent"], &question["call"]["input"]["command"]),
        (&json!("developer"), &json!(COMMAND))
    );
    let (_, list, _) = running.trial.rawko(&["sessions", "list"]);
    assert!(list.contains("needs approval"), "{list}");
    let (_, text, _) = running.trial.rawko(&["approve"]);
    assert!(text.contains(COMMAND) && text.contains("is not listed"), "{text}");
    // An answer for another call is refused, and one without a valid seal is ignored.
    let (code, _, stderr) = running.trial.rawko(&["approve", "last", "--call", "0000"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("waits for an answer to another call"), "{stderr}");
    let digest = question["digest"].as_str().unwrap();
    let forged = json!({"question": digest, "allowed": true, "at": 1, "seal": "0".repeat(64)});
    std::fs::write(answer_file(&running.trial), forged.to_string()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(900));
    assert_eq!((listed(&running.trial).len(), made(&running.trial)), (1, String::new()));
    let (code, stdout, stderr) = running.trial.rawko(&["approve", "last", "--call", &digest[..12]]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("allowed: Bash of developer"), "{stdout}");
    let ended = running.end();
    ended.exits(0);
    answered(&ended, "allowed");
    assert_eq!(made(&ended.trial), "made\n");
    let called = ended.events_of("tool_called").into_iter().find(|event| event["call"]["name"] == "Bash");
    assert_eq!(called.unwrap()["rule"], "approved by the user");
    assert!(listed(&ended.trial).is_empty());
    let (code, _, stderr) = ended.trial.rawko(&["approve", "last"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("does not wait for an answer"), "{stderr}");
    assert_eq!(ended.trial.rawko(&["replay", "last"]).0, Some(0));
}

#[test]
fn a_no_is_a_denial() {
    let running = waiting();
    let (code, _, stderr) = running.trial.rawko(&["approve", "last", "--deny"]);
    assert_eq!(code, Some(0), "{stderr}");
    let ended = running.end();
    answered(&ended, "denied");
    let (result, is_error) = ended.results("Bash").remove(0);
    assert!(is_error && result.contains("is not listed") && result.contains("said no"), "{result}");
    assert_eq!(made(&ended.trial), "");
}

#[test]
fn without_an_answer_the_deadline_denies() {
    let trial = asking(Trial::new(developer([bash(COMMAND)])));
    let ended = trial.user_config("/permissions/askTimeout", json!("1s")).run("Make it.");
    answered(&ended, "expired");
    assert!(ended.results("Bash")[0].0.contains("did not answer in time"));
    assert_eq!(made(&ended.trial), "");
}

#[test]
fn an_answer_counts_that_was_given_while_no_process_ran_the_session() {
    let trial = waiting().end_after(Signal::KILL).trial;
    assert_eq!(listed(&trial)[0]["isRunning"], false);
    let (code, stdout, stderr) = trial.rawko(&["approve", "last"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("rawko resume"), "{stdout}");
    assert_eq!(made(&trial), "");
    let (code, out, err) = trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(made(&trial), "made\n", "it ran once");
    assert_eq!(trial.rawko(&["replay", "last"]).0, Some(0));
}

#[test]
fn a_path_is_allowed_for_one_call_and_deny_wins() {
    let trial =
        asking(Trial::new(developer([]))).user_config("/permissions/deny", json!(["../marks/denied"]));
    let (open, denied) = (trial.marks().join("open"), trial.marks().join("denied"));
    std::fs::write(&open, "the text\n").unwrap();
    std::fs::write(&denied, "the secret\n").unwrap();
    let read = |path: &PathBuf| call("Read", &json!({"file_path": path}));
    let hook = call("Write", &json!({"file_path": "../marks/.git/hooks/x", "content": "x"}));
    let running =
        trial.served_by(developer([read(&denied), hook, read(&open), read(&open)])).start("Read it.");
    running.wait_for_event("approval_requested");
    let first = listed(&running.trial)[0]["question"].clone();
    let needs = first["needs"].clone();
    assert_eq!(needs, json!([{"type": "read", "path": open.canonicalize().unwrap()}]));
    assert_eq!(running.trial.rawko(&["approve", "last"]).0, Some(0));
    let second = question_after(&running, &first);
    assert_eq!(second["needs"], needs, "the second read is another call");
    assert_eq!(running.trial.rawko(&["approve", "last", "--deny"]).0, Some(0));
    let ended = running.end();
    let results = ended.results("Read");
    assert!(results[0].0.contains("is denied to you"), "{results:?}");
    assert!(results[1].0.contains("the text"), "{results:?}");
    assert!(results[2].1 && results[2].0.contains("said no"), "{results:?}");
    assert!(ended.results("Write")[0].1);
    assert!(!ended.trial.marks().join(".git").exists());
}

/// The question that comes after this one.
#[track_caller]
fn question_after(running: &Running, before: &Value) -> Value {
    let next = || {
        let mut questions = listed(&running.trial).into_iter().map(|waiting| waiting["question"].clone());
        questions.find(|question| question["digest"] != before["digest"])
    };
    running.wait_until("the next question", || next().is_some());
    next().unwrap()
}
