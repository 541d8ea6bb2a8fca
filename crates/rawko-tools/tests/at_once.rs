//! Kills everything at once. Alone in its file, because this affects every command of the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::time::{Duration, Instant};

use common::Bench;
use common::processes::{processes_with, settled, sleeper, until};
use serde_json::json;

#[tokio::test]
async fn nothing_has_a_grace() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let seconds = sleeper(41);
    let stubborn = format!("trap '' TERM; (setsid sleep {seconds} &) ; sleep {seconds}; touch survived");
    bench.ok("Bash", json!({"command": stubborn, "run_in_background": true})).await;
    let mut cancelled = Box::pin(bench.call("Bash", json!({"command": stubborn})));
    tokio::select! {
        outcome = &mut cancelled => panic!("it ended: {outcome:?}"),
        ready = until(|| processes_with(&seconds).len() >= 4) => assert!(ready, "they never started"),
    }
    drop(cancelled);
    let begun = Instant::now();
    tokio::task::spawn_blocking(rawko_tools::kill_all_now).await.unwrap();
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
    assert_eq!(settled().await, 0);
    assert!(begun.elapsed() < Duration::from_millis(1_500), "{:?}", begun.elapsed());
    // The job's own thread learns of it a moment later.
    let mut report = String::new();
    while !report.contains("[background job 1: ended by signal 9]") {
        assert!(begun.elapsed() < Duration::from_secs(10), "{report}");
        report = bench.ok("Bash", json!({"command": "true"})).await;
    }
}
