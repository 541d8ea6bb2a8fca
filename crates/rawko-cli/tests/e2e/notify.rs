//! Programs and addresses that are notified of ends, waits and questions.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use crate::answers::{bash, developer};
use crate::approvals::asking;
use crate::trial::{CANARY, Trial};

/// A command that appends its input to a file.
fn noting(trial: &Trial) -> (Value, PathBuf) {
    let file = trial.outside().join("notices");
    (json!(["sh", "-c", "cat >> \"$0\"", file]), file)
}

#[track_caller]
fn notices(file: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_program_is_notified_of_the_end() {
    let trial = Trial::new(developer([]));
    let (command, file) = noting(&trial);
    let trial = trial.user_config("/notify", json!([{"on": ["end"], "command": command}]));
    let project = trial.project().canonicalize().unwrap();
    let ended = trial.run(&format!("Do it with {CANARY}."));
    ended.exits(0);
    let notices = notices(&file);
    assert_eq!(notices.len(), 1, "{notices:?}");
    for (key, value) in [
        ("event", json!("end")),
        ("status", json!("claimed")),
        ("agentSummary", json!("all done")),
        ("session", ended.finish()["session"].clone()),
        ("project", json!(project)),
    ] {
        assert_eq!(notices[0][key], value, "{key}");
    }
    assert!(notices[0].get("costUsd").is_some() && !notices[0].to_string().contains(CANARY), "{notices:?}");
}

#[test]
fn an_address_is_posted_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook/secret-path", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut buffer) = (String::new(), [0; 4096]);
        while !request.trim_end().ends_with('}') {
            let read = stream.read(&mut buffer).unwrap();
            assert!(read > 0, "it ended in {request}");
            request.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
        stream.write_all(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        request
    });
    let trial = Trial::new(developer([])).user_config("/notify", json!([{"url": url}]));
    let ended = trial.run("Do it.");
    // That it fails is a warning.
    ended.exits(0).says(&["warning:", "500"]);
    assert!(!ended.stderr.contains("secret-path"), "{}", ended.stderr);
    let request = serving.join().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook/secret-path ") && head.contains("application/json"), "{head}");
    assert_eq!(serde_json::from_str::<Value>(body).unwrap()["event"], "end");
}

#[test]
fn a_program_that_fails_or_is_missing_fails_no_run() {
    let notify = json!([{"command": ["false"]}, {"command": ["no-such-program"]}]);
    let ended = Trial::new(developer([])).user_config("/notify", notify).run("Do it.");
    ended.exits(0).says(&["notification by `false` failed", "notification by `no-such-program` failed"]);
}

#[test]
fn a_long_wait_is_notified() {
    let trial = Trial::new(ModelServer::start(|_| Answer::rate_limited("600")));
    let (command, file) = noting(&trial);
    let running = trial
        .retry(json!({"maxAttempts": 2, "baseMs": 1, "capMs": 3_600_000, "deadlineMs": 3_600_000}))
        .user_config("/provider/claude/timeouts", json!({"total": "2h"}))
        .user_config("/notify", json!([{"on": ["wait"], "command": command}]))
        .start("Wait.");
    running.wait_until("the notification", || file.metadata().is_ok_and(|file| file.len() > 0));
    let ended = running.end_after(Signal::INT);
    ended.exits(130);
    let notices = notices(&file);
    assert_eq!(
        (notices.len(), &notices[0]["event"], &notices[0]["provider"]),
        (1, &json!("wait"), &json!("claude"))
    );
}

#[test]
fn a_question_is_notified() {
    let trial = Trial::new(developer([bash("echo made >> made")]));
    let (command, file) = noting(&trial);
    let running = asking(trial)
        .user_config("/notify", json!([{"on": ["question"], "command": command}]))
        .start("Make it.");
    running.wait_until("the notification", || file.metadata().is_ok_and(|file| file.len() > 0));
    let _ended = running.end_after(Signal::INT);
    let notices = notices(&file);
    assert_eq!((&notices[0]["event"], &notices[0]["tool"]), (&json!("question"), &json!("Bash")));
}

#[test]
fn a_folder_that_brings_notifications_needs_trust() {
    let notify =
        json!({"notify": [{"command": ["sh", "-c", "touch ran"]}, {"url": "https://evil.example/x"}]});
    let trial = Trial::new(developer([])).config(&notify);
    let (code, _, err) = trial.ask(&["do it"]);
    assert_eq!(code, Some(5), "{err}");
    assert!(err.contains("touch ran") && err.contains("evil.example"), "{err}");
    assert!(!trial.project().join("ran").exists() && trial.server.asked().is_empty());
}
