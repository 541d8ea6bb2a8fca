//! Commands that ignore the request to end are killed after a grace period. In a process of its own, because settling
//! waits for every command of the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::time::{Duration, Instant};

use common::processes::{cancel, processes_with, settled, sleeper};

#[tokio::test]
async fn a_command_that_does_not_listen_is_killed_after_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let seconds = sleeper(32);
    let command =
        format!("trap '' TERM; setsid sleep {seconds} & touch ready; sleep {seconds}; touch survived");
    let took = cancel(dir.path(), &command).await;
    let begun = Instant::now();
    assert_eq!(settled().await, 0);
    assert!(took < Duration::from_millis(500), "cancelling took {took:?}");
    assert!(begun.elapsed() >= Duration::from_millis(1_500), "it had no grace: {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
    assert!(!dir.path().join("survived").exists());
}
