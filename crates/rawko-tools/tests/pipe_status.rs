//! `Bash` records how the members of the last pipeline ended, and changes nothing else about a command.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::Bench;
use serde_json::json;

/// Runs `command` and compares its output, the exit status and the recorded statuses.
async fn check(command: &str, output: &str, exit_code: i32, pipe_status: &[i32]) {
    let dir = tempfile::tempdir().unwrap();
    let outcome = Bench::new(dir.path()).call("Bash", json!({"command": command})).await;
    let text = outcome.content.strip_suffix(&format!("\n[exit code {exit_code}]"));
    assert_eq!(text, Some(output), "{command}: {}", outcome.content);
    assert_eq!(outcome.exit_code, Some(exit_code), "{command}");
    assert_eq!(outcome.pipe_status, pipe_status, "{command}");
}

#[tokio::test]
async fn every_member_of_the_last_pipeline_is_recorded() {
    check("false | true", "(no output)", 0, &[1, 0]).await;
    check("echo a; (echo b; exit 3) 2>&1 | tail -20 | cat", "a\nb", 0, &[3, 0, 0]).await;
    check("set -euo pipefail; (exit 5) | cat", "(no output)", 5, &[5, 0]).await;
    check("cat <<'E' | grep h\nhi\nE", "hi", 0, &[0, 0]).await;
    check("true && false | cat", "(no output)", 0, &[1, 0]).await;
    check("false && a | cat", "(no output)", 1, &[1]).await;
    check("exec 2>/dev/null; yes | head -1", "y", 0, &[141, 0]).await;
}

#[tokio::test]
async fn a_command_without_a_pipe_at_its_end_runs_as_it_is() {
    check("exit 3", "(no output)", 3, &[]).await;
    check("false | true; echo done", "done", 0, &[]).await;
    check("false || exit 4; true", "(no output)", 4, &[]).await;
    check("trap 'echo bye' EXIT; false | true", "bye", 0, &[]).await;
    check("exec 97>&1; false | true", "(no output)", 0, &[]).await;
}

#[tokio::test]
async fn the_record_changes_nothing_else() {
    check("(set -x; false) 2>&1 | cat", "+ false", 0, &[1, 0]).await;
    check(
        "set -u; echo $NOT_SET_ANYWHERE | cat",
        "/bin/bash: line 1: NOT_SET_ANYWHERE: unbound variable",
        0,
        &[127, 0],
    )
    .await;
    check("\nno-such-program | cat", "/bin/bash: line 2: no-such-program: command not found", 0, &[127, 0])
        .await;
    check("exit 4; false | true", "(no output)", 4, &[0]).await;
    check("set -e; false; true | true", "(no output)", 1, &[1]).await;
    check("cat | cat", "(no output)", 0, &[0, 0]).await;
    check("echo one >&2 | cat; echo two | cat >&2", "one\ntwo", 0, &[0, 0]).await;
}

#[tokio::test]
async fn a_killed_or_background_command_has_no_record() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let outcome = bench.call("Bash", json!({"command": "kill -9 $$; true | true"})).await;
    assert_eq!((outcome.exit_code, outcome.pipe_status.as_slice()), (None, [].as_slice()));
    let input = json!({"command": "sleep 600 | cat", "timeout": 300});
    let outcome = bench.call("Bash", input).await;
    assert!(outcome.content.contains("timed out") && outcome.exit_code.is_none(), "{}", outcome.content);
    let input = json!({"command": "sleep 600 | cat", "run_in_background": true});
    let outcome = bench.call("Bash", input).await;
    assert!(outcome.content.contains("started") && outcome.pipe_status.is_empty(), "{}", outcome.content);
}
