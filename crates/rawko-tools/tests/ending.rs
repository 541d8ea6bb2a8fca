//! Cancelled commands are asked to end and have time to clean up.
//!
//! Commands that ignore this are tested in `grace.rs`, because settling waits for every command of the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::time::{Duration, Instant};

use common::Bench;
use common::processes::{cancel, settled};
use serde_json::json;

#[tokio::test]
async fn a_command_may_clean_up() {
    let dir = tempfile::tempdir().unwrap();
    let command =
        "trap 'sleep 0.7; echo bye > farewell; exit' TERM; touch ready; while true; do sleep 0.01; done";
    let took = cancel(dir.path(), command).await;
    let begun = Instant::now();
    assert_eq!(settled().await, 0);
    // Cancelling does not wait for the end, and settling waits no longer than the end takes.
    assert!(took < Duration::from_millis(500), "cancelling took {took:?}");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(std::fs::read_to_string(dir.path().join("farewell")).unwrap(), "bye\n");
}

#[tokio::test]
async fn output_does_not_keep_a_command_from_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let command = "trap 'head -c 1000000 /dev/zero; touch farewell; exit' TERM; touch ready; while true; do sleep 0.01; done";
    cancel(dir.path(), command).await;
    assert_eq!(settled().await, 0);
    assert!(dir.path().join("farewell").exists(), "its last output was not read");
}

#[tokio::test]
async fn calls_that_are_not_cancelled_do_not_delay_settling() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let go = dir.path().join("go");
    let mut call = Box::pin(bench.call("Bash", json!({"command": "until [ -e go ]; do sleep 0.01; done"})));
    let left = tokio::select! {
        outcome = &mut call => panic!("it ended: {outcome:?}"),
        left = settled() => left,
    };
    assert_eq!(left, 0);
    std::fs::write(go, "").unwrap();
    assert_eq!(call.await.exit_code, Some(0));
}
