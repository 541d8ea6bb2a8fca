//! Inspects processes from outside.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Bench;

/// A number of seconds that names one test's sleepers among all processes.
pub(crate) fn sleeper(test: u32) -> String {
    format!("{}.{test:05}", 100_000 + std::process::id())
}

/// Processes whose arguments contain `text`, without the shells that start them.
pub(crate) fn processes_with(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        let is_shell = ["bash -c ", "--norc -c "].iter().any(|shell| arguments.contains(shell));
        if arguments.contains(text) && !is_shell {
            found.push(format!("{pid}: {arguments}"));
        }
    }
    found
}

/// Waits until `done`, for at most ten seconds.
pub(crate) async fn until(done: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        if Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    true
}

/// Waits as the end of a process does, and returns how many commands are left.
pub(crate) async fn settled() -> usize {
    tokio::task::spawn_blocking(rawko_tools::settle).await.unwrap().commands
}

/// Starts a command, cancels it once it has created the file `ready`, and returns how long cancelling took.
pub(crate) async fn cancel(root: &Path, command: &str) -> Duration {
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
