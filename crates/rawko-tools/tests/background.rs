//! Background jobs with real processes: they go on between calls, report only to their agent, and end with the run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::Bench;
use common::processes::{processes_with, settled, sleeper, until};
use rawko_core::error::ErrorCode;
use serde_json::json;

async fn start(bench: &Bench, command: &str) -> String {
    bench.ok("Bash", json!({"command": command, "run_in_background": true})).await
}

/// Calls `true` until the reports on jobs contain `text`, and returns all reports until then.
async fn hear(bench: &Bench, text: &str) -> String {
    let begun = Instant::now();
    let mut heard = String::new();
    while begun.elapsed() < Duration::from_secs(10) {
        let answer = bench.ok("Bash", json!({"command": "true"})).await;
        heard.push_str(answer.strip_prefix("(no output)\n[exit code 0]").unwrap());
        if heard.contains(text) {
            return heard;
        }
    }
    panic!("{text:?} was not heard in {heard:?}");
}

fn file(root: &Path, name: &str) {
    std::fs::write(root.join(name), "").unwrap();
}

#[tokio::test]
async fn a_job_goes_on_between_calls_and_its_output_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let wait = |name: &str| format!("until [ -e {name} ]; do sleep 0.01; done");
    let command = format!("echo one; {}; echo two >&2; {}; echo three; exit 4", wait("a"), wait("b"));
    let begun = Instant::now();
    let answer = start(&bench, &command).await;
    assert!(answer.starts_with("[background job 1: started]"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());

    let heard = hear(&bench, "one").await;
    assert!(heard.ends_with("\n\n[background job 1: running]\none"), "{heard}");
    let answer = bench.ok("Bash", json!({"command": "true"})).await;
    assert_eq!(answer, "(no output)\n[exit code 0]\n\n[background job 1: running, no new output]");
    file(dir.path(), "a");
    let heard = hear(&bench, "two").await;
    assert!(heard.ends_with("[background job 1: running]\ntwo") && !heard.contains("one"), "{heard}");
    file(dir.path(), "b");
    let heard = hear(&bench, "exit code 4").await;
    assert!(heard.contains("three") && !heard.contains("two"), "{heard}");
    // It is reported only once.
    let answer = bench.ok("Bash", json!({"command": "true"})).await;
    assert_eq!(answer, "(no output)\n[exit code 0]");
}

#[tokio::test]
async fn a_failing_call_reports_on_jobs_and_keeps_its_own_error() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    start(&bench, "echo ready; sleep 300").await;
    assert!(hear(&bench, "ready").await.contains("[background job 1: running]"));
    let outcome = bench.call("Bash", json!({"command": "exit 7"})).await;
    assert_eq!((outcome.exit_code, outcome.error_code), (Some(7), Some(ErrorCode::ToolFailure)));
    assert!(outcome.content.contains("[exit code 7]\n\n[background job 1: "), "{}", outcome.content);
}

#[tokio::test]
async fn a_job_is_reported_only_to_its_agent() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(dir.path());
    start(&bench, "echo mine; exit 0").await;
    "another".clone_into(&mut bench.context.agent);
    let answer = start(&bench, "echo theirs; exit 0").await;
    assert!(answer.starts_with("[background job 2: started]"), "{answer}");
    let heard = hear(&bench, "job 2: exit code 0").await;
    assert!(heard.contains("theirs") && !heard.contains("mine"), "{heard}");
    "tester".clone_into(&mut bench.context.agent);
    let heard = hear(&bench, "job 1: exit code 0").await;
    assert!(heard.contains("mine") && !heard.contains("theirs"), "{heard}");
}

#[tokio::test]
async fn what_a_job_started_ends_with_it_and_what_is_killed_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let seconds = sleeper(51);
    start(&bench, &format!("(setsid sleep {seconds} &); echo $$ > pid; exec sleep 300")).await;
    let pid = dir.path().join("pid");
    assert!(until(|| std::fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n'))).await);
    assert!(until(|| !processes_with(&seconds).is_empty()).await);
    bench.ok("Bash", json!({"command": "kill $(cat pid)"})).await;
    hear(&bench, "[background job 1: ended by signal 15]").await;
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
}

#[tokio::test]
async fn a_job_is_ended_before_another_command_begins() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let seconds = sleeper(52);
    start(
        &bench,
        &format!(
            "trap 'echo gone > left; exit' TERM; (setsid sleep {seconds} &); while :; do sleep 0.01; done"
        ),
    )
    .await;
    assert!(until(|| !processes_with(&seconds).is_empty()).await);
    let refused = bench.fails("Bash", json!({"command": "echo RAN > ran", "stop_job": 7})).await;
    assert!(refused.contains("no background job 7") && refused.contains("yours: 1"), "{refused}");
    assert!(!dir.path().join("ran").exists());
    let heard = bench.ok("Bash", json!({"command": "cat left", "stop_job": 1})).await;
    assert!(heard.starts_with("gone\n") && heard.contains("[background job 1: cancelled]"), "{heard}");
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
}

#[tokio::test]
async fn a_job_has_the_time_that_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    bench
        .ok("Bash", json!({"command": "echo begun; sleep 300", "run_in_background": true, "timeout": 50}))
        .await;
    let heard = hear(&bench, "[background job 1: timed out]").await;
    assert!(heard.contains("begun"), "{heard}");
}

#[tokio::test]
async fn there_are_only_so_many_and_ended_ones_make_room() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    for _ in 0..8 {
        start(&bench, "until [ -e go ]; do sleep 0.01; done").await;
    }
    let one_more = json!({"command": "echo ninth", "run_in_background": true});
    let answer = bench.fails("Bash", one_more.clone()).await;
    assert!(answer.contains("8 background jobs are running"), "{answer}");
    file(dir.path(), "go");
    hear(&bench, "job 8: exit code 0").await;
    let answer = bench.ok("Bash", one_more).await;
    assert!(answer.contains("[background job 9: started]"), "{answer}");
    assert!(hear(&bench, "job 9: exit code 0").await.contains("ninth"));
}

#[tokio::test]
async fn a_flood_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    for _ in 0..3 {
        start(&bench, "echo first; seq 1000000; echo last; touch done.$BASHPID; sleep 300").await;
    }
    let done = || std::fs::read_dir(dir.path()).unwrap().count() == 3;
    assert!(until(done).await, "the jobs end although nothing reads their output");
    let heard = hear(&bench, "last").await;
    assert!(heard.len() < 18_000, "{}", heard.len());
    assert!(heard.contains("first") && heard.contains("cut"), "{heard}");
}

/// Jobs, one of them with a hidden child, whose tool is dropped in some way.
async fn check_end(test: u32, end: impl FnOnce(Bench)) {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let seconds = sleeper(test);
    start(&bench, &format!("sleep {seconds}")).await;
    start(
        &bench,
        &format!("(env -i setsid sleep {seconds} >/dev/null &); trap 'touch farewell' EXIT; sleep {seconds}"),
    )
    .await;
    assert!(until(|| processes_with(&seconds).len() >= 3).await, "they never started");
    end(bench);
    assert_eq!(settled().await, 0);
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
    assert!(dir.path().join("farewell").exists(), "it was not asked to end");
}

#[tokio::test]
async fn jobs_end_when_the_tools_are_dropped() {
    check_end(52, drop).await;
}

#[tokio::test]
async fn jobs_end_with_the_run() {
    let mut kept = None;
    check_end(53, |bench| {
        bench.registry.end();
        kept = Some(bench);
    })
    .await;
    let answer = kept.unwrap().fails("Bash", json!({"command": "true", "run_in_background": true})).await;
    assert!(answer.contains("the run is ending"), "{answer}");
}

#[tokio::test]
async fn a_job_outlives_the_runtime_of_its_call_and_ends_with_its_tool() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    let seconds = sleeper(54);
    let bench = std::thread::spawn({
        let command = format!("sleep {seconds}");
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(start(&bench, &command));
            bench
        }
    });
    let bench = bench.join().unwrap();
    assert!(until(|| !processes_with(&seconds).is_empty()).await, "it ended with the runtime");
    drop(bench);
    assert_eq!(settled().await, 0);
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
}
