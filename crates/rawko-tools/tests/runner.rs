//! Commands that rawko itself runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::{Duration, Instant};

use common::processes::{processes_with, settled, sleeper, until};
use rawko_tools::CommandRunner;

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn exit_status_and_output_are_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let runner = CommandRunner::new(&root, Vec::new());
    for (command, code, output) in [
        ("true", Some(0), "".to_owned()),
        ("pwd; echo wrong >&2; exit 3", Some(3), format!("{}\nwrong\n", root.display())),
        ("cat", Some(0), String::new()),
        ("echo a; kill -9 $$", None, "a\n[ended by signal 9]".to_owned()),
        (
            "no-such-program-at-all",
            Some(127),
            "/bin/bash: line 1: no-such-program-at-all: command not found\n".to_owned(),
        ),
    ] {
        let run = runner.run(command, LONG).await;
        assert_eq!((run.command.as_str(), run.exit_code, run.output), (command, code, output));
    }
    let long = runner.run("echo begin; head -c 1000000 /dev/zero | tr '\\0' x; echo end; exit 1", LONG).await;
    assert!(long.output.len() < 9_000, "{}", long.output.len());
    assert!(long.output.starts_with("begin\n") && long.output.ends_with("end\n"));
}

#[tokio::test]
async fn nothing_secret_reaches_them() {
    let dir = tempfile::tempdir().unwrap();
    let named = ["CARGO_MANIFEST_DIR", "ANTHROPIC_API_KEY"].map(str::to_owned).to_vec();
    let run = CommandRunner::new(dir.path(), named).run("env", LONG).await;
    assert!(run.output.contains("CARGO_MANIFEST_DIR="), "{}", run.output);
    let bare = CommandRunner::new(dir.path(), Vec::new()).run("env", LONG).await;
    assert!(!bare.output.contains("CARGO_MANIFEST_DIR="), "{}", bare.output);
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_with_all_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let runner = CommandRunner::new(dir.path(), Vec::new());
    let seconds = sleeper(1);
    let begun = Instant::now();
    let command = format!("(setsid sleep {seconds} &); echo on; sleep {seconds}");
    let run = runner.run(&command, Duration::from_millis(300)).await;
    assert_eq!(run.exit_code, None);
    let expected =
        "on\n[timed out: the command did not end within 0.3 s and was killed with everything it started]";
    assert_eq!(run.output, expected);
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
}

#[tokio::test]
async fn an_abandoned_command_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let runner = CommandRunner::new(dir.path(), Vec::new());
    let seconds = sleeper(2);
    let command = format!("sleep {seconds} & touch ready; wait");
    let ready = dir.path().join("ready");
    tokio::select! {
        run = runner.run(&command, LONG) => assert!(run.passed(), "it ended: {run:?}"),
        ready = until(|| ready.exists()) => assert!(ready, "it never started"),
    }
    assert_eq!(settled().await, 0);
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
}
