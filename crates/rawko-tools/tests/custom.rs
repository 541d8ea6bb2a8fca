//! Tools that are programs: what they get, and how their answers are used.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::Bench;
use common::processes::{processes_with, settled, sleeper, until};
use rawko_core::agent::Permissions;
use rawko_core::error::ErrorCode;
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use rawko_tools::CommandTool;
use serde_json::{Value, json};

fn spec() -> ToolSpec {
    ToolSpec {
        name: "Ticket".into(),
        description: "Shows a ticket.".into(),
        input_schema: json!({"type": "object", "properties": {"number": {"type": "integer"}}}),
        access: ToolAccess::ReadOnly,
    }
}

fn bench(root: &Path, tool: CommandTool) -> Bench {
    let mut bench = Bench::new(root);
    bench.registry.add(Arc::new(tool)).unwrap();
    bench
}

/// Writes a program to the project.
fn script(root: &Path, text: &str) {
    let path = root.join("tools/ticket");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn ticket() -> CommandTool {
    CommandTool::new(spec(), "./tools/ticket").arguments(["--json", "a b; echo $HOME *"])
}

/// The answer of a tool whose program is this script.
async fn answer(text: &str, input: Value) -> ToolOutcome {
    let dir = tempfile::tempdir().unwrap();
    script(dir.path(), text);
    bench(dir.path(), ticket()).call("Ticket", input).await
}

#[track_caller]
fn check(script: &str, expected: Result<&str, &str>) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let outcome = answer(script, json!({})).await;
        let got = if outcome.is_error { Err(&*outcome.content) } else { Ok(&*outcome.content) };
        assert_eq!(got, expected, "{place}");
        assert_eq!(outcome.error_code, expected.is_err().then_some(ErrorCode::ToolFailure), "{place}");
    }
}

#[tokio::test]
async fn input_arrives_as_json_and_arguments_as_they_are() {
    let outcome = answer("cat; printf '<%s>' \"$@\"; pwd", json!({"number": 7})).await;
    let (input, rest) = outcome.content.split_once('\n').unwrap();
    assert_eq!(serde_json::from_str::<Value>(input).unwrap(), json!({"number": 7}));
    assert!(rest.starts_with("<--json><a b; echo $HOME *>/"), "{rest}");
}

#[tokio::test]
async fn answers() {
    check("echo plain text", Ok("plain text")).await;
    check("true", Ok("(no output)")).await;
    check(r#"echo '{"a": 1}'"#, Ok(r#"{"a": 1}"#)).await;
    check("echo '[1, 2]'", Ok("[1, 2]")).await;
    check(r#"echo '{"content": "done"}'"#, Ok("done")).await;
    check(r#"echo '{"content": "no such ticket", "isError": true}'"#, Err("no such ticket")).await;
    check("echo chatter >&2; echo fine", Ok("fine")).await;
    check("echo half; echo why >&2; exit 3", Err("half\n[stderr]\nwhy\n[exit code 3]")).await;
    check("exit 1", Err("[exit code 1]")).await;
    check(
        r#"echo '{"content": 1, "isError": 1}'; exit 2"#,
        Err("{\"content\": 1, \"isError\": 1}\n[exit code 2]"),
    )
    .await;
    check("kill -9 $$", Err("[ended by signal 9]")).await;
    let outcome = answer(r#"echo '{"content": "x", "isError": 1}'"#, json!({})).await;
    assert!(outcome.content.contains("cannot be used: invalid type"), "{}", outcome.content);
    let outcome = answer(r#"echo '{"content": "x", "filesModified": ["a", "b/c"]}'"#, json!({})).await;
    assert_eq!(
        (outcome.files_modified, outcome.exit_code),
        (vec!["a".to_owned(), "b/c".to_owned()], Some(0))
    );
}

#[tokio::test]
async fn wrong_arguments_never_reach_the_program() {
    let outcome = answer("touch ran; echo ran", json!({"number": "seven"})).await;
    assert_eq!(outcome.error_code, Some(ErrorCode::ValidationError), "{}", outcome.content);
}

#[tokio::test]
async fn a_large_input_does_not_hang_with_a_program_that_does_not_read() {
    let large = json!({"number": 1, "text": "x".repeat(1_000_000)});
    assert_eq!(answer("echo unread", large.clone()).await.content, "unread");
    assert_eq!(
        answer("wc -c", large.clone()).await.content.trim(),
        format!("{}", large.to_string().len() + 1)
    );
}

#[tokio::test]
async fn floods_are_bounded() {
    let outcome = answer("seq 1000000; seq 1000000 >&2; echo end; exit 1", json!({})).await;
    assert!(outcome.content.len() < 40_000, "{}", outcome.content.len());
    assert!(outcome.content.contains("\nend\n[stderr]\n1\n"), "{}", outcome.content);
    let outcome =
        answer(r#"printf '{"content": "'; head -c 500000 /dev/zero | tr '\0' x; echo '"}'"#, json!({})).await;
    assert!(!outcome.is_error && outcome.content.len() < 31_000, "{}", outcome.content.len());
    assert!(outcome.content.starts_with("xxx") && outcome.content.contains("bytes cut"));
}

#[tokio::test]
async fn a_program_that_does_not_end_is_ended_with_everything_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let seconds = sleeper(61);
    script(dir.path(), &format!("echo before; (setsid sleep {seconds} &); sleep {seconds}"));
    let slow = bench(dir.path(), ticket().timeout(Duration::from_millis(300)));
    let begun = Instant::now();
    let outcome = slow.call("Ticket", json!({})).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(outcome.error_code, Some(ErrorCode::Timeout));
    assert!(outcome.content.starts_with("before\n[timed out: "), "{}", outcome.content);
    assert_eq!(processes_with(&seconds), Vec::<String>::new());

    let patient = bench(dir.path(), ticket());
    let mut call = Box::pin(patient.call("Ticket", json!({})));
    tokio::select! {
        outcome = &mut call => panic!("it ended: {outcome:?}"),
        ready = until(|| processes_with(&seconds).len() >= 2) => assert!(ready, "it never started"),
    }
    drop(call);
    assert_eq!(settled().await, 0);
    assert_eq!(processes_with(&seconds), Vec::<String>::new());
}

#[tokio::test]
async fn only_named_variables_reach_the_program() {
    let dir = tempfile::tempdir().unwrap();
    script(dir.path(), "env | cut -d= -f1");
    let mut bench = bench(dir.path(), ticket());
    let names = bench.ok("Ticket", json!({})).await;
    // Cargo sets it for every test.
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    assert!(!names.contains("CARGO_PKG_NAME") && names.lines().any(|name| name == "PATH"), "{names}");
    let permissions = Permissions { env: Some(vec!["CARGO_PKG_NAME".into()]), ..Permissions::default() };
    bench.context.permissions = Arc::new(permissions);
    assert!(bench.ok("Ticket", json!({})).await.contains("CARGO_PKG_NAME"));
}

#[tokio::test]
async fn programs_are_found_by_name_and_by_path_and_a_missing_one_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plain"), "").unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    for (program, expected) in [
        ("cat", Ok("{}")),
        ("/bin/cat", Ok("{}")),
        ("./plain", Err("not executable: chmod +x ./plain")),
        ("./folder", Err("not a file")),
        ("./missing", Err("`./missing` cannot be run: No such file")),
        // A bare name is never one of the project's own files.
        ("plain", Err("there is no program `plain` in PATH")),
        ("", Err("there is no program")),
    ] {
        let outcome = bench(dir.path(), CommandTool::new(spec(), program)).call("Ticket", json!({})).await;
        match expected {
            Ok(text) => assert_eq!((outcome.content.as_str(), outcome.is_error), (text, false), "{program}"),
            Err(text) => assert!(outcome.is_error && outcome.content.contains(text), "{}", outcome.content),
        }
    }
}
