//! A provider that is down for a while: the run waits, and goes on in the same conversation as if nothing had been.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::json;
use testkit::{Answer, Asked, Cut, Delivery, ModelServer, Wire};

use crate::answers::{complete, report, select};
use crate::trial::{Ended, Trial};

fn broken_off(stall: bool) -> Answer {
    let delivery = Delivery { cut: Some(Cut::Events(4)), stall, ..Delivery::default() };
    Answer::text("This sentence will never be finished, whatever it was about to say.").delivered(delivery)
}

fn unavailable() -> Answer {
    Answer::refuse(503, "api_error", "down for maintenance").header("retry-after-ms", "5")
}

/// A trial that waits for a provider that is down; the provider itself asks twice and at once.
fn patient(trial: Trial) -> Trial {
    trial.user_config("/provider/retry/patience", json!("10m"))
}

/// The agent's turn meets these faults. The run ends with one execution, no failure, and one conversation.
#[track_caller]
fn check_lived_through(wire: Wire, faults: Vec<Answer>, idle: &str) -> Ended {
    let faults_met = faults.len();
    let answers =
        std::iter::once(select("developer")).chain(faults).chain([report("did it"), complete("all done")]);
    let provider = if wire == Wire::Claude { "claude" } else { "openai" };
    let trial = patient(Trial::new(ModelServer::sequence(answers)).wire(wire))
        .user_config(&format!("/provider/{provider}/timeouts"), json!({ "idle": idle }));
    let ended = trial.run("Do it.");
    ended.exits(0);
    assert_eq!(ended.finish()["iterations"], 1, "{}", ended.stdout);
    assert_eq!(ended.events_of("error"), Vec::<serde_json::Value>::new());
    let asked = ended.trial.server.asked();
    let turns = &asked[1..=faults_met + 1];
    assert!(turns.iter().all(|turn| turn.json["messages"] == turns[0].json["messages"]), "{turns:#?}");
    let (_, replayed, _) = ended.trial.rawko(&["replay", "last"]);
    assert!(replayed.contains("everything matches the record"), "{replayed}");
    ended
}

#[test]
fn a_stream_that_is_cut_or_stalls_repeats_the_turn() {
    for wire in [Wire::Claude, Wire::OpenAi] {
        for stall in [false, true] {
            let ended = check_lived_through(wire, vec![broken_off(stall)], "300ms");
            let waits = ended.events_of("waiting");
            assert_eq!((waits.len(), &waits[0]["attempt"]), (1, &json!(2)), "{waits:?}");
            assert!(waits[0]["message"].as_str().unwrap().contains("cut off"), "{waits:?}");
        }
    }
}

#[test]
fn a_server_that_is_down_for_a_while_is_waited_for() {
    let ended = check_lived_through(Wire::Claude, (0..7).map(|_| unavailable()).collect(), "10s");
    assert_eq!(ended.trial.server.asked().len(), 10);
}

#[test]
fn patience_ends_and_the_failure_counts() {
    let refused = ModelServer::sequence([]).claude_url();
    let trial = Trial::new(ModelServer::sequence([]))
        .env("ANTHROPIC_BASE_URL", refused)
        .env("RAWKO_MAX_CONSECUTIVE_FAILURES", "1")
        .user_config("/provider/retry/patience", json!("1100ms"));
    let ended = trial.run("Do it.");
    ended.exits(4);
    assert_eq!(ended.events_of("waiting").len(), 1, "{}", ended.stdout);
    assert_eq!(ended.events_of("error").len(), 2, "the arbiter's call, and the agent's: {}", ended.stdout);
}

#[test]
fn a_wait_for_a_provider_that_is_down_is_a_line_of_text() {
    let answers = [
        select("developer"),
        Answer::refuse(503, "api_error", "down for maintenance"),
        Answer::refuse(503, "api_error", "down for maintenance"),
        report("did it"),
        complete("all done"),
    ];
    let ended = patient(Trial::new(ModelServer::sequence(answers))).output("text").run("Do it.");
    ended.exits(0);
    let line = ended.stderr.lines().find(|line| line.starts_with("waiting: for claude until "));
    let line = line.unwrap_or_else(|| panic!("{}", ended.stderr));
    assert!(line.contains("(2.0 s), then attempt 3; overloaded: down for maintenance"), "{line}");
    assert!(!ended.stderr.contains("error:"), "{}", ended.stderr);
}

#[test]
fn ctrl_c_ends_the_wait_and_a_kill_in_the_middle_is_taken_up_again() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let server = ModelServer::start(|_: &Asked| match ASKED.fetch_add(1, Ordering::SeqCst) {
        0 => select("developer"),
        1 => Answer::rate_limited("3"),
        2 => report("did it"),
        3 => complete("all done"),
        _ => Answer::rate_limited("600"),
    });
    let running = patient(Trial::new(server)).start("Wait.");
    running.wait_for_event("waiting");
    running.signal(Signal::KILL);
    let killed = running.end_unchecked();
    assert_eq!(ASKED.load(Ordering::SeqCst), 2, "it was waiting");
    let (code, out, err) = killed.trial.resume();
    assert_eq!(code, Some(0), "{out}\n{err}");
    assert!(out.contains("\"type\":\"waiting\""), "the rest of the wait is reported: {out}");

    let running = killed.trial.start("Wait again.");
    running.wait_for_event("waiting");
    running.signal(Signal::INT);
    running.end_unchecked().exits(130);
}
