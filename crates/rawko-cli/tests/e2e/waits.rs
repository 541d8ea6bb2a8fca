//! A run that waits says so: what for and until when, in every form of output, and it ends when it is asked to.

use std::time::{Duration, Instant};

use rawko_core::Timestamp;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use crate::answers::{complete, report, select};
use crate::trial::{Ended, Running, Trial};

/// A user who waits as long as the server asks, within the provider's call.
fn patient(trial: Trial) -> Trial {
    trial
        .retry(json!({"maxAttempts": 2, "baseMs": 1, "capMs": 3_600_000, "deadlineMs": 3_600_000}))
        .user_config("/provider/claude/timeouts", json!({"total": "2h"}))
}

/// The server asks for a second once; then all goes well.
fn a_second() -> Trial {
    let answers = [Answer::rate_limited("1"), select("developer"), report("did it"), complete("all done")];
    patient(Trial::new(ModelServer::sequence(answers)))
}

/// The server asks for ten minutes, always.
fn ten_minutes() -> ModelServer {
    ModelServer::start(|_| Answer::rate_limited("600"))
}

/// The run's only wait: for claude, until `after` from now or a little earlier.
#[track_caller]
fn check_wait(ended: &Ended, begun: Timestamp, after: Duration) -> Value {
    let waits = ended.events_of("waiting");
    let [wait] = waits.as_slice() else { panic!("{waits:?}") };
    assert_eq!((&wait["reason"], &wait["provider"]), (&json!("rate_limited"), &json!("claude")));
    assert_eq!((&wait["afterMs"], &wait["attempt"]), (&json!(after.as_millis()), &json!(2)));
    let until = Timestamp::from_rfc3339(wait["until"].as_str().unwrap()).unwrap();
    let after_begin = until.since(begun);
    assert!((after.as_millis()..after.as_millis() + 60_000).contains(&u128::from(after_begin)), "{wait}");
    wait.clone()
}

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp(u64::try_from(since.as_millis()).unwrap())
}

#[test]
fn a_wait_for_a_provider_is_reported_with_its_end() {
    let begun = now();
    let ended = a_second().run("Do it.");
    ended.exits(0);
    let wait = check_wait(&ended, begun, Duration::from_secs(1));
    assert!(wait["message"].as_str().unwrap().contains("Too many requests"), "{wait}");
    assert_eq!(ended.events_of("warned"), Vec::<Value>::new(), "it is reported once");
}

/// Ends with 130, long before the wait would have.
#[track_caller]
fn check_ctrl_c(running: Running) -> Ended {
    let asked = Instant::now();
    running.signal(Signal::INT);
    let ended = running.end();
    ended.exits(130);
    assert!(asked.elapsed() < Duration::from_secs(20), "it took {:?}", asked.elapsed());
    ended
}

#[test]
fn ctrl_c_ends_a_wait_for_a_provider_at_once() {
    let begun = now();
    let running = patient(Trial::new(ten_minutes())).start("Wait.");
    running.wait_for_event("waiting");
    let ended = check_ctrl_c(running);
    check_wait(&ended, begun, Duration::from_secs(600));
    assert_eq!(ended.events_of("error"), Vec::<Value>::new(), "the provider itself waits");
}

#[test]
fn a_wait_that_is_longer_than_the_provider_waits_is_the_machines_and_reported_too() {
    let begun = now();
    let running = Trial::new(ten_minutes()).start("Wait.");
    running.wait_for_event("waiting");
    let ended = check_ctrl_c(running);
    check_wait(&ended, begun, Duration::from_secs(600));
    let error = &ended.events_of("error")[0]["error"];
    assert_eq!(error["code"], "rate_limited");
    assert!(error["message"].as_str().unwrap().contains("asks for a wait of 10m"), "{error}");
    // It is in the journal, so it can be shown again and explained.
    let (_, shown, _) = ended.trial.rawko(&["sessions", "show", "last"]);
    assert!(shown.contains("waiting: for claude until ") && shown.contains("(10 m 00 s)"), "{shown}");
    let records = ended.journal().records.len();
    let explained = (1..=records).any(|record| {
        let (_, out, _) = ended.trial.rawko(&["explain", "last", "--record", &record.to_string()]);
        out.contains("a wait of 10 m 00 s before the next attempt")
    });
    assert!(explained);
}

#[test]
fn the_machines_own_backoff_is_reported() {
    let server = ModelServer::start(|_| Answer::overloaded());
    let trial =
        Trial::new(server).retry(json!({"maxAttempts": 1})).env("RAWKO_MAX_CONSECUTIVE_FAILURES", "2");
    let ended = trial.run("Do it.");
    ended.exits(4);
    let waits = ended.events_of("waiting");
    let [wait] = waits.as_slice() else { panic!("{waits:?}") };
    assert_eq!((&wait["reason"], &wait["afterMs"]), (&json!("overloaded"), &json!(1_000)), "{wait}");
}

/// Whether `text` reports the wait, in the time zone that is five hours and three quarters ahead of UTC.
#[track_caller]
fn check_line(text: &str, begun: Timestamp) {
    let line = text.lines().find(|line| line.starts_with("waiting: ")).unwrap_or_else(|| panic!("{text}"));
    let until = line.split("for claude until ").nth(1).unwrap_or_else(|| panic!("{line}"));
    let expected = (0..60_000).step_by(500).any(|late| {
        let local = Timestamp(begun.0 + 1_000 + late + (5 * 60 + 45) * 60_000).to_rfc3339();
        until.starts_with(&local[11..19]) || until.starts_with(&local[..19].replace('T', " "))
    });
    assert!(expected, "{line}");
    assert!(line.contains("(1.0 s), then attempt 2; rate_limited: Too many requests"), "{line}");
}

#[test]
fn a_wait_is_a_line_of_text_with_the_local_time() {
    let begun = now();
    let ended = a_second().env("TZ", "ABC-5:45").output("text").run("Do it.");
    ended.exits(0);
    check_line(&ended.stderr, begun);
}

#[test]
fn a_wait_is_reported_beside_the_json_and_the_json_stays_one_object() {
    let begun = now();
    let ended = a_second().env("TZ", "ABC-5:45").output("json").run("Do it.");
    ended.exits(0);
    check_line(&ended.stderr, begun);
    assert_eq!(serde_json::from_str::<Value>(&ended.stdout).unwrap()["type"], "session_finished");
}

#[test]
fn quiet_reports_no_wait() {
    for form in ["json", "text"] {
        let ended = a_second().output(form).args(&["--quiet"]).run("Do it.");
        ended.exits(0);
        assert_eq!(ended.stderr, "");
    }
}

#[test]
fn a_wait_is_reported_when_it_begins_and_not_when_it_is_over() {
    let running = patient(Trial::new(ten_minutes())).output("text").start("Wait.");
    running.wait_until("the line", || running.err().contains("waiting: for claude until "));
    check_ctrl_c(running);
}
