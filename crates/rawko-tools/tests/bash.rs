//! `Bash` with real processes: nothing that a command starts outlives its call, even if it detaches itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::Bench;
use common::processes::{processes_with, settled, sleeper, until};
use rawko_core::agent::Permissions;
use rawko_core::error::ErrorCode;
use serde_json::json;

#[tokio::test]
async fn output_exit_code_and_order() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let outcome = bench.call("Bash", json!({"command": "echo one; echo two >&2; echo three; exit 3"})).await;
    assert_eq!(outcome.content, "one\ntwo\nthree\n[exit code 3]");
    assert_eq!((outcome.exit_code, outcome.is_error), (Some(3), true));
    let outcome = bench.call("Bash", json!({"command": "true"})).await;
    assert_eq!(outcome.content, "(no output)\n[exit code 0]");
    assert!(!outcome.is_error);
    let outcome = bench.call("Bash", json!({"command": "kill -9 $$"})).await;
    assert_eq!((outcome.content.as_str(), outcome.exit_code), ("(no output)\n[ended by signal 9]", None));
}

#[tokio::test]
async fn runs_in_the_project_without_a_terminal_or_stdin() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let real = dir.path().canonicalize().unwrap();
    assert_eq!(
        bench.ok("Bash", json!({"command": "pwd -P"})).await,
        format!("{}\n[exit code 0]", real.display())
    );
    assert_eq!(bench.ok("Bash", json!({"command": "cat; echo $TERM"})).await, "dumb\n[exit code 0]");
}

#[tokio::test]
async fn only_named_variables_reach_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let text = Bench::new(dir.path()).ok("Bash", json!({"command": "env | cut -d= -f1"})).await;
    // Cargo sets these for every test.
    for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "LD_LIBRARY_PATH"] {
        assert!(std::env::var_os(name).is_some(), "{name} is not there to be kept back");
        assert!(!text.lines().any(|line| line == name), "{name} reached the command");
    }
    assert!(text.lines().any(|line| line == "PATH"), "{text}");
    let permissions = Permissions { env: Some(vec!["CARGO_PKG_NAME".into()]), ..Permissions::default() };
    let bench = Bench::with(dir.path(), permissions);
    let text = bench.ok("Bash", json!({"command": "echo $CARGO_PKG_NAME"})).await;
    assert_eq!(text, "rawko-tools\n[exit code 0]");
}

#[tokio::test]
async fn a_command_that_does_not_end_is_killed_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let seconds = sleeper(1);
    let started = Instant::now();
    let command = format!("echo before; (sleep {seconds}; true) & sleep {seconds}");
    let outcome = bench.call("Bash", json!({"command": command, "timeout": 300})).await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!((outcome.error_code, outcome.exit_code), (Some(ErrorCode::Timeout), None));
    assert!(outcome.content.starts_with("before\n[timed out: "), "{}", outcome.content);
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
}

#[tokio::test]
async fn a_command_that_ignores_the_request_to_end_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let seconds = sleeper(2);
    let command = format!("trap '' TERM; sleep {seconds}; sleep {seconds}");
    let outcome = bench.call("Bash", json!({"command": command, "timeout": 100})).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::Timeout));
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
}

/// Runs a command that leaves `sleep` running: once to its end, and once dropped in the middle.
async fn check_left_over(test: u32, hide: impl Fn(&str) -> String) {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let seconds = sleeper(test);
    let hidden = hide(&format!("sleep {seconds}"));
    let started = Instant::now();
    let text = bench.ok("Bash", json!({"command": format!("{hidden}\nsleep 0.05; echo done")})).await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(text.starts_with("done\n[exit code 0]"), "{text}");
    assert_eq!(processes_with(&seconds), Vec::<String>::new(), "after a normal end");

    let seconds = sleeper(test + 1_000);
    let hidden = hide(&format!("sleep {seconds}"));
    let call = bench.call("Bash", json!({"command": format!("{hidden}\nsleep {seconds}")}));
    {
        let mut call = std::pin::pin!(call);
        let two_sleep = until(|| processes_with(&seconds).len() >= 2);
        tokio::select! {
            outcome = &mut call => panic!("it ended: {outcome:?}"),
            started = two_sleep => assert!(started, "it never started"),
        }
    }
    assert_eq!(settled().await, 0);
    assert_eq!(processes_with(&seconds), Vec::<String>::new(), "after the call was dropped");
}

#[tokio::test]
async fn a_background_process_is_ended_and_does_not_hold_the_call() {
    check_left_over(10, |sleep| format!("{sleep} &")).await;
}

#[tokio::test]
async fn nohup_and_disown_do_not_help() {
    check_left_over(11, |sleep| format!("nohup {sleep} >/dev/null 2>&1 & disown")).await;
}

#[tokio::test]
async fn a_session_of_its_own_does_not_help() {
    check_left_over(12, |sleep| format!("setsid {sleep} &")).await;
}

#[tokio::test]
async fn a_double_fork_does_not_help() {
    check_left_over(13, |sleep| format!("(setsid {sleep} >/dev/null 2>&1 &)")).await;
}

#[tokio::test]
async fn an_empty_environment_does_not_help() {
    check_left_over(14, |sleep| {
        format!("(env -i setsid bash -c '(env -i setsid {sleep} </dev/null >/dev/null 2>&1 &)' &)")
    })
    .await;
}

#[tokio::test]
async fn two_commands_do_not_end_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let long = bench.ok("Bash", json!({"command": "(setsid sleep 1; echo kept) & wait"}));
    let short = async {
        for _ in 0..3 {
            bench.ok("Bash", json!({"command": "(setsid sleep 50 &)"})).await;
        }
    };
    let (text, ()) = tokio::join!(long, short);
    assert!(text.starts_with("kept\n"), "{text}");
}

#[tokio::test]
async fn a_flood_is_read_in_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let before = peak_memory();
    let outcome = bench.call("Bash", json!({"command": "yes 0123456789abcdef", "timeout": 1_000})).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::Timeout));
    assert!(outcome.content.len() < 32_000, "{}", outcome.content.len());
    assert!(outcome.content.contains("bytes cut from the middle of the output"));
    let grown = peak_memory().saturating_sub(before);
    assert!(grown < 32 * 1024, "memory grew by {grown} KiB");
}

/// The most memory this process ever had, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_end_of_long_output_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let text = bench.ok("Bash", json!({"command": "echo first; seq 100000; echo last"})).await;
    assert!(text.starts_with("first\n1\n2\n"), "{text}");
    assert!(text.ends_with("100000\nlast\n[exit code 0]"));
}

#[tokio::test]
async fn output_is_reported_as_it_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(dir.path());
    let reported = Arc::new(Mutex::new(String::new()));
    let reporter = Arc::clone(&reported);
    bench.context.progress = Arc::new(move |text| reporter.lock().unwrap().push_str(text));
    let call = bench.call("Bash", json!({"command": "echo here; until [ -e go ]; do sleep 0.01; done"}));
    let go = async {
        assert!(until(|| reported.lock().unwrap().contains("here")).await, "nothing was reported");
        std::fs::write(dir.path().join("go"), "").unwrap();
    };
    let (outcome, ()) = tokio::join!(call, go);
    assert_eq!(outcome.exit_code, Some(0));
}

#[tokio::test]
async fn a_missing_root_is_an_error() {
    let bench = Bench::new(Path::new("/nonexistent/project"));
    let text = bench.fails("Bash", json!({"command": "true"})).await;
    assert!(text.contains("/nonexistent/project"), "{text}");
}

#[tokio::test]
async fn git_starts_nothing_that_a_folder_like_a_bare_repository_names() {
    let dir = tempfile::tempdir().unwrap();
    let evil = dir.path().join("evil");
    for folder in ["objects", "refs"] {
        std::fs::create_dir_all(evil.join(folder)).unwrap();
    }
    std::fs::write(evil.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let config =
        "[core]\n\trepositoryformatversion = 0\n\tworktree = ..\n\tfsmonitor = \"touch PWNED; false\"\n";
    std::fs::write(evil.join("config"), config).unwrap();
    let bench = Bench::new(dir.path());
    for command in ["cd evil && git status", "git -C evil status"] {
        let outcome = bench.call("Bash", json!({"command": command})).await;
        assert!(outcome.is_error, "{command}: {}", outcome.content);
    }
    let started = [dir.path().join("PWNED"), evil.join("PWNED")];
    assert!(started.iter().all(|mark| !mark.exists()));
}
