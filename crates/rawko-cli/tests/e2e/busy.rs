//! A second run in a folder where one works already.

use rawko_core::session::Event;
use rustix::process::Signal;
use serde_json::Value;
use testkit::{Answer, Asked, ModelServer};

use crate::answers::{complete, report, select};
use crate::journal;
use crate::trial::{Running, Trial};

/// The first run's developer gets no answer; all later requests succeed.
pub(crate) fn stuck() -> ModelServer {
    let mut asked = 0;
    ModelServer::start(move |_: &Asked| {
        asked += 1;
        match asked {
            1 | 3 => select("developer"),
            2 => Answer::Silence,
            4 => report("did it"),
            _ => complete("all done"),
        }
    })
}

fn first() -> Running {
    let running = Trial::new(stuck()).start("Hold the folder.");
    running.wait_for_event("agent_started");
    running.wait_for_request(2);
    running
}

#[test]
fn a_second_run_waits_for_the_end_of_the_first() {
    let first = first();
    let second = first.trial.spawn(&["--output", "stream-json", "come", "second"]);
    second.wait_to_hear(&["waiting: for session", "Hold the folder.", "--anyway"]);
    // A command that only reads does not wait.
    let (code, out, err) = first.trial.rawko(&["sessions", "list"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(out.matches("Hold the folder.").count(), 1, "{out}");
    assert!(!out.contains("come second"), "it has not begun: {out}");
    let first = first.end_after(Signal::INT);
    let (code, out, err) = second.end().parts();
    assert_eq!(code, Some(0), "{out}{err}");
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!((&last["status"], last.get("beside")), (&"claimed".into(), None));
    first.exits(130);
}

#[test]
fn a_run_whose_process_was_killed_holds_nothing() {
    let killed = first().end_after(Signal::KILL);
    let (code, out, err) = killed.trial.ask(&["do it now"]);
    assert_eq!((code, err.contains("waiting: for session")), (Some(0), false), "{out}{err}");
}

#[test]
fn waiting_ends_with_ctrl_c_and_leaves_nothing() {
    let first = first();
    let second = first.trial.spawn(&["come", "second"]);
    second.wait_to_hear(&["waiting: for session"]);
    second.signal(Signal::INT);
    let (code, _, err) = second.end().parts();
    assert_eq!((code, err.contains("nothing was started")), (Some(130), true), "{err}");
    let first = first.end_after(Signal::INT);
    journal::only(&first.trial);
}

#[test]
fn two_runs_side_by_side_both_say_so() {
    let first = first();
    let (code, out, err) = first.trial.ask(&["--anyway", "--output", "stream-json", "come", "second"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let session = |line: &Value| line["session"].as_str().unwrap().to_owned();
    let (second, end) = (session(&lines[0]), lines.last().unwrap());
    let warned = lines.iter().filter(|line| line["type"] == "warned").map(|line| line["message"].to_string());
    assert!(warned.clone().any(|text| text.contains("runs in the same folder")), "{out}");
    let ended = first.end_after(Signal::INT);
    ended.exits(130);
    let held = session(&ended.events()[0]);
    assert_eq!(
        (&end["beside"], &ended.finish()["beside"]),
        (&serde_json::json!([held]), &serde_json::json!([second]))
    );
    // Both journals have it.
    let store = rawko::journal::SessionStore::of_project(&ended.trial.project());
    for id in [held, second] {
        let journal = rawko::journal::read(&store.find(&id).unwrap()).unwrap();
        let says = journal::events(&journal).any(|event| matches!(event, Event::RanBeside { .. }));
        assert!(says, "{id} does not say it");
        assert_eq!(rawko::replay(&journal).difference, None);
        let left = store.folder().join(&id).join("beside");
        assert!(!left.exists(), "{} is left", left.display());
    }
}

#[test]
fn a_dry_run_does_not_wait() {
    let first = first();
    let (code, out, err) = first.trial.ask(&["--dry-run", "come", "second"]);
    assert_eq!((code, err.contains("waiting:")), (Some(0), false), "{out}{err}");
    first.end_after(Signal::INT);
}
