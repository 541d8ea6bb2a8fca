//! Ending sessions by their id.

use std::time::Duration;

use rawko::{Cancelled, Error, Note, RunEvent, cancel};
use rawko_core::machine::State;
use rawko_core::session::{Event, Status};
use serde_json::json;

use crate::trial::{Trial, check_replay, complete, events as events_of, last_path, select, state};

const PATIENCE: Duration = Duration::from_millis(60);

#[tokio::test]
async fn a_session_without_a_process_is_closed_wherever_it_stopped() {
    let whole = Trial::new();
    whole.run().await;
    let records = whole.journal().records.len();
    // Each waits for the disk, so that they go side by side.
    std::thread::scope(|scope| {
        for at in 1..records - 1 {
            let cut = whole.cut(at);
            scope.spawn(move || closes(&cut));
        }
    });
}

#[track_caller]
fn closes(cut: &Trial) {
    let cancelled = cancel(&cut.store(), "last", PATIENCE).unwrap();
    assert!(matches!(&cancelled, Cancelled::Closed(end) if end.status == Status::Cancelled), "{cancelled:?}");
    let journal = cut.journal();
    assert_eq!(state(&journal), State::Cancelled);
    check_replay(&journal);
    assert!(cut.logged().is_empty(), "nothing is done any more");
    let again = cancel(&cut.store(), "last", PATIENCE).unwrap();
    assert!(matches!(&again, Cancelled::AlreadyEnded(end) if end.status == Status::Cancelled), "{again:?}");
    assert_eq!(cut.journal(), journal);
    assert!(cut.rawko().resume(Some("last")).is_err());
}

#[tokio::test]
async fn what_has_ended_stays_as_it_is() {
    let trial = Trial::new();
    trial.run().await;
    let journal = trial.journal();
    let ended = |trial: &Trial| match cancel(&trial.store(), "last", PATIENCE).unwrap() {
        Cancelled::AlreadyEnded(outcome) => outcome.status,
        other => panic!("{other:?}"),
    };
    assert_eq!(ended(&trial), Status::Claimed);
    assert_eq!(trial.journal(), journal);
    // Its end was decided and not recorded any more: it is recorded now.
    let cut = trial.cut(journal.records.len() - 1);
    assert_eq!(ended(&cut), Status::Claimed);
    assert_eq!(cut.journal().records, journal.records);
    let error = cancel(&trial.cut(0).store(), "last", PATIENCE).unwrap_err().to_string();
    assert!(error.contains("nothing to cancel"), "{error}");
}

#[tokio::test]
async fn a_process_is_not_signalled_on_its_number_alone() {
    let whole = Trial::new();
    whole.run().await;
    let cut = whole.cut(6);
    let held = cut.rawko().resume(Some("last")).unwrap();
    let mark = last_path(&cut).with_file_name("holder.json");
    let text = std::fs::read_to_string(&mark).unwrap();
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&mark).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // The number is this process's own: a signal would end the test.
    let pid = std::process::id();
    for wrong in
        [format!("{{\"pid\":{pid},\"started\":\"1\"}}"), "{}".to_owned(), "x".repeat(5000), String::new()]
    {
        std::fs::write(&mark, wrong).unwrap();
        let error = cancel(&cut.store(), "last", PATIENCE).unwrap_err();
        assert!(matches!(&error, Error::StillHeld { pid: None, .. }), "{error}");
    }
    std::fs::remove_file(&mark).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &mark).unwrap();
    assert!(matches!(cancel(&cut.store(), "last", PATIENCE), Err(Error::StillHeld { pid: None, .. })));
    drop(held);
    assert!(matches!(cancel(&cut.store(), "last", PATIENCE), Ok(Cancelled::Closed(_))));
}

#[tokio::test]
async fn a_run_leaves_no_mark() {
    let trial = Trial::new();
    trial.run().await;
    assert!(!last_path(&trial).with_file_name("holder.json").exists());
}

#[tokio::test]
async fn a_run_that_is_dropped_before_it_begins_leaves_no_session() {
    let trial = Trial::new();
    drop(trial.rawko().run("do it").unwrap());
    assert!(trial.store().list().unwrap().is_empty());
}

#[tokio::test]
async fn a_run_that_is_dropped_in_mid_course_is_closed_as_cancelled() {
    // While the arbiter is asked, and while an agent is.
    for answers in [0, 1] {
        let mut script = vec![select("worker"), complete()];
        script[answers] =
            json!({"for": if answers == 0 { "select" } else { "worker" }, "text": "", "delayMs": 600_000});
        let trial = Trial::with(json!(script));
        let mut run = trial.rawko().run("do it").unwrap();
        let mut events = run.events();
        let reached = if answers == 0 { State::Selecting } else { State::Executing };
        let begun = async {
            while !matches!(events.next().await, Some(RunEvent::Note(Note::StateChanged { to, .. })) if to == reached)
            {
            }
        };
        tokio::select! {
            biased;
            () = begun => {}
            outcome = run.finish() => panic!("{outcome:?}"),
        }
        let journal = trial.journal();
        assert_eq!(state(&journal), State::Cancelled);
        check_replay(&journal);
        let reasons: Vec<&String> = events_of(&journal)
            .filter_map(|event| match event {
                Event::CancelRequested { reason } => Some(reason),
                _ => None,
            })
            .collect();
        assert_eq!(reasons, ["the run was dropped"]);
        assert!(!last_path(&trial).with_file_name("holder.json").exists());
    }
}

#[tokio::test]
async fn a_session_whose_resumption_is_dropped_before_it_begins_can_be_resumed() {
    let whole = Trial::new();
    whole.run().await;
    let cut = whole.cut(6);
    let before = cut.journal();
    drop(cut.rawko().resume(Some("last")).unwrap());
    assert_eq!(cut.journal(), before);
    cut.rawko().resume(Some("last")).unwrap().await.unwrap();
}
