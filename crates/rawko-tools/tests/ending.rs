//! How commands end that nobody waits for any more: asked first, killed after a grace, and never left behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::Bench;
use common::processes::{processes_with, settled, sleeper, until};
use serde_json::json;

/// Starts a command, gives it up once it has made the file `ready`, and says how long giving up took.
async fn give_up(root: &Path, command: &str) -> Duration {
    let bench = Bench::new(root);
    let mut call = Box::pin(bench.call("Bash", json!({"command": command})));
    let ready = root.join("ready");
    tokio::select! {
        outcome = &mut call => panic!("it ended: {outcome:?}"),
        ready = until(|| ready.exists()) => assert!(ready, "it never started"),
    }
    let begun = Instant::now();
    drop(call);
    begun.elapsed()
}

#[tokio::test]
async fn a_command_may_clean_up() {
    let dir = tempfile::tempdir().unwrap();
    let seconds = sleeper(31);
    let command =
        format!("trap 'sleep 0.2; echo bye > farewell; exit' TERM; touch ready; sleep {seconds} & wait");
    let begun = Instant::now();
    let held_up = give_up(dir.path(), &command).await;
    assert_eq!(settled().await, 0);
    // It is not waited for by whoever gives it up, and its end is not waited for longer than it takes.
    assert!(held_up < Duration::from_millis(100), "giving up took {held_up:?}");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(std::fs::read_to_string(dir.path().join("farewell")).unwrap(), "bye\n");
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
}

#[tokio::test]
async fn a_command_that_does_not_listen_is_killed_after_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let seconds = sleeper(32);
    let command =
        format!("trap '' TERM; setsid sleep {seconds} & touch ready; sleep {seconds}; touch survived");
    let held_up = give_up(dir.path(), &command).await;
    let begun = Instant::now();
    assert_eq!(settled().await, 0);
    assert!(held_up < Duration::from_millis(100), "giving up took {held_up:?}");
    assert!(begun.elapsed() >= Duration::from_millis(1_500), "it had no grace: {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
    assert!(!dir.path().join("survived").exists());
}

#[tokio::test]
async fn output_does_not_keep_a_command_from_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let command = "trap 'head -c 1000000 /dev/zero; touch farewell; exit' TERM; touch ready; while true; do sleep 0.01; done";
    give_up(dir.path(), command).await;
    assert_eq!(settled().await, 0);
    assert!(dir.path().join("farewell").exists(), "nobody read what it said in the end");
}

#[tokio::test]
async fn what_others_wait_for_does_not_hold_up_settling() {
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
