//! The commands that go on with sessions, derive, explain and end them.

use std::time::{Duration, Instant};

use rawko_core::session::Status;
use serde_json::{Value, json};

use crate::answers::{bash, call, developer, report};
use crate::journal;
use crate::signals::nothing_is_left;
use crate::trial::Trial;

/// What a command prints as JSON, and its exit status.
#[track_caller]
fn parsed(trial: &Trial, arguments: &[&str]) -> (Option<i32>, Value) {
    let (code, stdout, stderr) = trial.rawko(arguments);
    (code, serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}\n{stderr}")))
}

#[test]
fn a_session_is_cancelled_by_its_id_while_it_works() {
    let sleeping = "echo here > child; sleep 300; touch survived";
    let running = Trial::new(developer([bash(sleeping)])).start("Sleep.");
    running.wait_for_line("child");
    // While a process works on it, no other process does.
    let (code, stdout, stderr) = running.trial.rawko(&["resume", "last", "--output", "json"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("another rawko process is writing this session"), "{stderr}");
    assert!(stderr.contains("rawko cancel"), "{stderr}");
    assert!(stdout.contains("\"failed\""), "{stdout}");
    let begun = Instant::now();
    let (code, printed) = parsed(&running.trial, &["cancel", "last", "--json"]);
    assert_eq!(
        (code, &printed["how"], &printed["outcome"]["status"]),
        (Some(0), &json!("stopped"), &json!("cancelled"))
    );
    assert!(begun.elapsed() < Duration::from_secs(20));
    let ended = running.end();
    ended.exits(130);
    assert!(nothing_is_left(&ended.trial) && !ended.trial.project().join("survived").exists());
    assert_eq!(journal::ends(&ended.journal()).1.unwrap().status, Status::Cancelled);
    let (code, printed) = parsed(&ended.trial, &["cancel", "last", "--json"]);
    assert_eq!((code, &printed["how"]), (Some(0), &json!("already_ended")));
    let (code, _, stderr) = ended.trial.rawko(&["resume", "last"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("it has ended") && stderr.contains("rawko fork"), "{stderr}");
}

#[test]
fn a_session_is_replayed_and_a_changed_prompt_reported() {
    let write = call("Write", &json!({"file_path": "a.txt", "content": "x\n"}));
    let trial = Trial::new(developer([write, report("did it")]));
    // The address of the run is not that of the service, so it has no search of its own; the replay names no address.
    let ended = trial.user_config("/web/search/provider/enabled", json!(false)).run("Write.");
    ended.exits(0);
    let (code, printed) = parsed(&ended.trial, &["replay", "--json"]);
    assert_eq!((code, &printed["matches"]), (Some(0), &json!(true)));
    let current = &["replay", "--with-current", "--provider", "claude", "--json"];
    let (code, printed) = parsed(&ended.trial, current);
    assert_eq!((code, &printed["matches"]), (Some(0), &json!(true)), "{printed}");
    let trial = ended.trial.agent(&json!({"name": "developer", "systemPrompt": "You do it otherwise."}));
    let (code, printed) = parsed(&trial, current);
    assert_eq!((code, &printed["matches"]), (Some(1), &json!(false)));
    let (code, stdout, stderr) = trial.rawko(&["replay", "--with-current", "--provider", "claude"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stdout.contains("in the request of `select`") && stdout.contains("effects[1].request."),
        "{stdout}"
    );
    // The records are as they were.
    assert_eq!(trial.rawko(&["replay", "last"]).0, Some(0));
    let (code, _, stderr) = trial.rawko(&["replay", "--model", "m"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("--with-current"), "{stderr}");
}

#[test]
fn decisions_and_records_are_explained() {
    let developer_without =
        json!({"name": "developer", "systemPrompt": "You do it.", "tools": {"blocked": ["Bash"]}});
    let trial = Trial::new(developer([bash("true"), report("did it")])).agent(&developer_without);
    let ended = trial.run("Look it up.");
    let (code, list) = parsed(&ended.trial, &["explain", "--json"]);
    assert_eq!(code, Some(0));
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 2);
    let (_, one) = parsed(&ended.trial, &["explain", "last", "1", "--json"]);
    assert_eq!(one, list[0]);
    let (code, text, _) = ended.trial.rawko(&["explain", "last", "1"]);
    assert_eq!(code, Some(0));
    for part in
        ["Decision 1 of 2: SELECT_MODE developer", "Look it up.", "You are the arbiter", "Answer, after"]
    {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    assert!(text.contains("the rules would have made another decision: SELECT_MODE planner"), "{text}");
    let (code, _, stderr) = ended.trial.rawko(&["explain", "last", "3"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("has 2 decisions"), "{stderr}");
    let records = ended.journal().records.len();
    let texts: Vec<String> = (0..=records)
        .map(|n| ended.trial.rawko(&["explain", "last", "--record", &n.to_string()]))
        .map(|(code, text, stderr)| {
            assert_eq!(code, Some(0), "{stderr}");
            text
        })
        .collect();
    assert!(texts.iter().any(|text| text.contains("denied: Bash by `developer`, by the rule")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("answers e2: a request for `select`")), "{texts:?}");
}

#[test]
fn a_fork_is_made_and_closed() {
    let ended = Trial::new(developer([report("did it")])).run("Report.");
    let fork = ["fork", "last", "--at", "4", "--task", "Report twice.", "--no-run", "--output", "json"];
    let (code, made) = parsed(&ended.trial, &fork);
    assert_eq!((code, &made["from"]["record"]), (Some(0), &json!(1)), "{made}");
    let session = made["session"].as_str().unwrap();
    let (code, printed) = parsed(&ended.trial, &["replay", session, "--json"]);
    assert_eq!((code, &printed["matches"]), (Some(0), &json!(true)));
    let (code, printed) = parsed(&ended.trial, &["cancel", session, "--json"]);
    assert_eq!((code, &printed["how"]), (Some(0), &json!("closed")));
    let (code, _, stderr) = ended.trial.rawko(&["fork", "last", "--at", "999", "--no-run"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("999 are to be shared"), "{stderr}");
}
