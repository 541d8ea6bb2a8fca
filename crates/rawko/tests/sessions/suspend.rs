//! Runs that stop before their end: what they leave, and when another process may go on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rawko::journal::{JournalError, JournalWriter, SessionStatus};
use rawko::{Error, Note, Run, RunEvent, Snapshot};
use rawko_core::machine::State;
use rawko_core::session::{Event, Status};
use serde_json::{Value, json};

use crate::scripted::{tool, unconfined};
use crate::trial::{Trial, check_replay, complete, events, finish, last_path, report, select, state};

/// A command that hardly lets itself be ended: it ignores being asked.
fn lasting() -> Value {
    json!({"command": "trap '' TERM; echo $$ > pid; sleep 1000"})
}

fn trial(script: Value) -> Trial {
    let trial = Trial::with(script);
    trial.write(".gitignore", "pid\n");
    trial
}

fn start(trial: &Trial) -> Run {
    trial.builder().permissions(unconfined()).build().unwrap().run("do it").unwrap()
}

/// Waits until the command of [`lasting`] runs, and gives its process.
async fn running(trial: &Trial) -> String {
    loop {
        let pid = std::fs::read_to_string(trial.path().join("pid")).unwrap_or_default();
        if let Some(pid) = pid.strip_suffix('\n') {
            return pid.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether the process is there, and not only waits to be reaped.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Takes the session's lock as soon as it is free, and says whether the process still lived then.
fn lives_when_free(journal: &Path, pid: &str, is_tried: &AtomicBool) -> bool {
    loop {
        match JournalWriter::reopen(journal) {
            Ok(_) => return is_alive(pid),
            Err(JournalError::Locked { .. }) => is_tried.store(true, Ordering::SeqCst),
            Err(error) => panic!("{error}"),
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_free_only_after_the_commands_of_a_dropped_run_have_ended() {
    let trial = trial(json!([select("worker"), tool("worker", "Bash", lasting())]));
    let run = start(&trial);
    let journal = run.journal_path().to_owned();
    let mut run = Box::pin(run.finish());
    let pid = tokio::select! {
        pid = running(&trial) => pid,
        outcome = &mut run => panic!("{outcome:?}"),
    };
    assert!(is_alive(&pid));
    let is_tried = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| lives_when_free(&journal, &pid, &is_tried));
        while !is_tried.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        drop(run);
        assert!(!is_alive(&pid), "the run was dropped");
        assert!(!other.join().unwrap(), "the lock was free");
    });
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_suspended_run_leaves_a_session_that_is_resumed() {
    let script = json!([
        select("worker"),
        tool("worker", "Append", json!({"line": "1"})),
        tool("worker", "Bash", lasting()),
        report("worker"),
        complete(),
    ]);
    let trial = trial(script);
    let mut run = start(&trial);
    let (mut events_seen, snapshots, control) = (run.events(), run.snapshots(), run.control());
    let id = run.session_id().to_owned();
    let suspending = async {
        let pid = running(&trial).await;
        control.suspend();
        pid
    };
    let (result, pid) = futures_util::join!(run.finish(), suspending);
    assert!(matches!(&result, Err(Error::Suspended { session }) if *session == id), "{result:?}");
    assert!(!is_alive(&pid));
    let mut last = None;
    while let Some(event) = events_seen.next().await {
        last = Some(event);
    }
    assert_eq!(last, Some(RunEvent::SessionSuspended { session: id.clone() }));
    let snapshot = snapshots.borrow().clone();
    assert_eq!(
        (snapshot.state, snapshot.status, snapshot.agent.as_deref()),
        (State::Executing, None, Some("worker"))
    );

    let journal = trial.journal();
    check_replay(&journal);
    assert_eq!(state(&journal), State::Executing);
    assert!(!events(&journal).any(|event| matches!(event, Event::CancelRequested { .. })));
    assert_eq!(trial.store().list().unwrap()[0].status, SessionStatus::Unfinished);
    assert!(!last_path(&trial).with_file_name("holder.json").exists());

    let rawko = trial.builder().permissions(unconfined()).build().unwrap();
    let (outcome, seen) = finish(rawko.resume(None).unwrap()).await;
    assert_eq!(outcome.status, Status::Claimed, "{outcome:?}");
    check_replay(&trial.journal());
    assert_eq!(trial.logged(), ["Append 1"], "what was done is not done again");
    let lost = seen.iter().any(|event| {
        matches!(event, RunEvent::Note(Note::ToolFinished { tool, outcome, .. }) if tool == "Bash" && outcome.is_error)
    });
    assert!(lost, "the command's outcome is unknown: {seen:?}");
}

#[tokio::test]
async fn a_run_may_be_suspended_before_it_is_awaited() {
    let trial = Trial::new();
    let run = trial.rawko().run("do it").unwrap();
    run.control().suspend();
    let result = run.await;
    assert!(matches!(result, Err(Error::Suspended { .. })), "{result:?}");
    assert!(trial.logged().is_empty());
    let outcome = trial.rawko().resume(None).unwrap().await.unwrap();
    assert_eq!(outcome.status, Status::Claimed);
    check_replay(&trial.journal());
}

#[tokio::test]
async fn a_dry_run_cannot_be_suspended_and_is_cancelled() {
    let trial = Trial::new();
    let run = trial.builder().dry_run(true).build().unwrap().run("do it").unwrap();
    run.control().suspend();
    assert_eq!(run.await.unwrap().status, Status::Cancelled);
}

#[tokio::test]
async fn snapshots_show_where_the_run_is() {
    let trial = Trial::new();
    let run = trial.rawko().run("do it").unwrap();
    let mut snapshots = run.snapshots();
    assert_eq!(snapshots.borrow().state, State::Idle);
    let watching = async {
        let mut seen: Vec<Snapshot> = Vec::new();
        while snapshots.changed().await.is_ok() {
            seen.push(snapshots.borrow_and_update().clone());
        }
        seen
    };
    let (outcome, seen) = futures_util::join!(run.into_future(), watching);
    let outcome = outcome.unwrap();
    let last = seen.last().unwrap();
    assert_eq!((last.state, last.status, last.iteration), (State::Complete, Some(Status::Claimed), 2));
    assert_eq!((last.spend.usage, last.agent.as_deref()), (outcome.usage, Some("checker")));
    assert_eq!(last.plan.as_ref().unwrap().steps[0].description, "work");
    let with_plan = seen.iter().find(|snapshot| snapshot.plan.is_some()).unwrap();
    assert_eq!(with_plan.state, State::Executing, "the draft is shown");
    let text = serde_json::to_string(last).unwrap();
    assert_eq!(&serde_json::from_str::<Snapshot>(&text).unwrap(), last, "{text}");
}

#[tokio::test]
async fn a_panic_inside_the_run_is_an_error_and_no_hang() {
    let trial = Trial::new();
    let is_begun = std::sync::Arc::new(AtomicBool::new(false));
    let breaks = std::sync::Arc::clone(&is_begun);
    // The environment is read again when the configuration has changed.
    let builder = trial.builder().secret("sk-canary-panic-2c8f51").env(move |_| {
        assert!(!breaks.load(Ordering::SeqCst), "no variables with sk-canary-panic-2c8f51");
        None
    });
    let mut run = builder.build().unwrap().run("do it").unwrap();
    let mut events = run.events();
    trial.write(".rawko/config.yaml", "constraints: {maxIterations: 7}\n");
    is_begun.store(true, Ordering::SeqCst);
    let result = tokio::time::timeout(Duration::from_secs(60), run.into_future()).await.expect("it ends");
    let Err(Error::Panicked { message }) = result else { panic!("{result:?}") };
    assert!(message.contains("no variables with") && !message.contains("canary"), "{message}");
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event);
    }
    let last = last.unwrap();
    assert!(last.outcome().is_some_and(|outcome| outcome.status == Status::Failed), "{last:?}");
    assert_eq!(trial.store().list().unwrap()[0].status, SessionStatus::Unfinished);
}

#[test]
fn a_run_without_a_runtime_or_its_timers_says_so() {
    let trial = Trial::new();
    let run = || trial.rawko().run("do it").unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(result) = std::pin::pin!(run().finish()).poll(&mut context) else {
        panic!("it waits without a runtime")
    };
    assert!(result.unwrap_err().to_string().contains("outside of a Tokio runtime"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(run().finish()).unwrap_err();
    assert!(error.to_string().contains("without timers"), "{error}");
    assert!(trial.store().list().unwrap().is_empty(), "nothing is left");
}
