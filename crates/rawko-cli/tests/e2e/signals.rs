//! Ctrl-C and its kin: the run ends at once and in order, with everything that it started.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rawko_core::session::{Event, Status};
use rustix::process::Signal;
use testkit::{Answer, Delivery, ModelServer};

use crate::answers::{bash, developer, select};
use crate::journal;
use crate::support::files_below;
use crate::trial::{Ended, Running, Trial};

/// How many processes in the project sleep.
pub(crate) fn sleepers(trial: &Trial) -> usize {
    let all = testkit::processes_in(&trial.project());
    all.iter().filter(|(_, line)| line.starts_with("sleep ")).count()
}

/// Whether nothing is left of a run that has ended.
pub(crate) fn nothing_is_left(trial: &Trial) -> bool {
    testkit::processes_in(&trial.project()).is_empty()
}

/// A model that speaks without end once the developer is at work.
fn endless() -> ModelServer {
    let delivery = Delivery { endless: true, ..Delivery::default() };
    ModelServer::sequence([select("developer"), Answer::text("And then ").delivered(delivery)])
}

/// The end of a run that was asked to end.
#[track_caller]
fn check_cancelled(running: Running) -> Ended {
    let ended = running.end();
    ended.exits(130);
    assert_eq!(ended.finish()["status"], "cancelled");
    let journal = ended.journal();
    assert!(journal::events(&journal).any(|event| matches!(event, Event::CancelRequested { .. })));
    assert_eq!(journal::ends(&journal).1.unwrap().status, Status::Cancelled);
    ended
}

fn speaking(signal: Signal) {
    let running = Trial::new(endless()).start("Speak.");
    running.wait_for_event("agent_started");
    running.wait_for_event("text_delta");
    running.signal(signal);
    let ended = check_cancelled(running);
    let left = ended.trial.server.wait_until(Duration::from_secs(10), |exchanges| {
        exchanges.last().is_some_and(|exchange| exchange.client_left)
    });
    assert!(left, "the stream was not closed");
}

#[test]
fn ctrl_c_while_a_model_speaks() {
    speaking(Signal::INT);
}

#[test]
fn sigterm_while_a_model_speaks() {
    speaking(Signal::TERM);
}

/// A command whose child has left session and process group, and ignores what can be ignored.
const FAMILY: &str = "setsid bash -c 'trap \"\" INT TERM HUP; echo here > grandchild; sleep 300; true' & \
                      echo here > child; sleep 300; touch survived";

fn running(signal: Signal) {
    let running = Trial::new(developer([bash(FAMILY)])).start("Sleep.");
    running.wait_until("the family", || sleepers(&running.trial) == 2);
    let begun = Instant::now();
    running.signal(signal);
    let ended = check_cancelled(running);
    assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    assert!(nothing_is_left(&ended.trial), "a process outlived the run");
    assert!(!ended.trial.project().join("survived").exists());
}

#[test]
fn ctrl_c_while_a_command_runs() {
    running(Signal::INT);
}

#[test]
fn sigterm_while_a_command_runs() {
    running(Signal::TERM);
}

#[test]
fn ctrl_c_while_the_machine_waits() {
    // A server that asks for a long wait: longer than the client's own patience, so that the machine waits.
    let server = ModelServer::start(|_| Answer::rate_limited("60"));
    let running = Trial::new(server).start("Wait.");
    running.wait_for_event("error");
    running.signal(Signal::INT);
    check_cancelled(running);
}

#[test]
fn a_second_ctrl_c_does_not_wait() {
    // The command ignores TERM, so that a clean end has to wait for the grace to pass.
    let stubborn = "trap '' TERM INT; echo here > child; while true; do sleep 300; done";
    let running = Trial::new(developer([bash(stubborn)])).start("Sleep.");
    running.wait_for_line("child");
    running.signal(Signal::INT);
    // Signals that wait together count as one.
    let sessions = running.trial.project().join(".rawko/sessions");
    let is_asked =
        |file: &PathBuf| std::fs::read_to_string(file).is_ok_and(|text| text.contains("\"CancelRequested\""));
    running.wait_until("the first signal", || files_below(&sessions).iter().any(is_asked));
    running.signal(Signal::INT);
    let ended = running.end_unchecked();
    ended.exits(130);
    assert!(ended.stdout.contains("Stopped at once by a second SIGINT"), "{}", ended.stdout);
    assert!(ended.stdout.contains("\"iterations\":1"), "{}", ended.stdout);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !nothing_is_left(&ended.trial) {
        assert!(Instant::now() < deadline, "a process outlived the run");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Whatever was written is whole.
    ended.journal();
}
