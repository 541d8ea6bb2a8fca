//! The programs in `examples/`, run as a user runs them: what they print, and how they end.
//!
//! Cargo builds a package's examples with its tests, and puts them beside the folder of the tests.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use testkit::{Answer, ModelServer};

/// The program that was built of an example.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let built =
        test.parent().and_then(Path::parent).expect("the folder of the build").join("examples").join(name);
    assert!(built.is_file(), "{} is not built: cargo build -p rawko --examples", built.display());
    built
}

/// Runs an example in `folder`: how it ended, and what it printed.
fn run(name: &str, folder: &Path, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(program(name));
    command
        .arg("Do it.")
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    let output = command.output().expect("the example");
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    (output.status.code(), text.concat())
}

/// Runs `minimal` against a server with these answers, in a project whose tests pass where it `has_tests`.
#[track_caller]
fn check_minimal(answers: Vec<Answer>, has_tests: bool, exit: i32, printed: &str) {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    let project = folder.path().join("project");
    for made in [&bin, &project] {
        std::fs::create_dir(made).unwrap();
    }
    if has_tests {
        // Found as `go test ./...`, which this program answers for every machine alike.
        std::fs::write(project.join("go.mod"), "module example\n").unwrap();
        std::fs::write(bin.join("go"), "#!/bin/sh\nexit 0\n").unwrap();
        std::fs::set_permissions(bin.join("go"), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let server = ModelServer::sequence(answers);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let variables = [
        ("PATH", path.as_str()),
        ("RAWKO_ARBITER_MODE", "llm"),
        ("ANTHROPIC_API_KEY", "sk-of-the-example"),
        ("ANTHROPIC_BASE_URL", &server.claude_url()),
    ];
    let (code, text) = run("minimal", &project, &variables);
    assert_eq!(code, Some(exit), "{text}");
    assert!(text.contains(printed), "{printed:?} is missing in\n{text}");
}

/// The developer writes a file and says that it did the work, and the arbiter is content.
fn done() -> Vec<Answer> {
    let decide = |decision| Answer::decision(decision);
    vec![
        decide(json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "it is next"})),
        Answer::call("Write", &json!({"file_path": "made", "content": "x\n"})),
        Answer::call("Report", &json!({"outcome": "success", "summary": "did it"})),
        decide(json!({"decision": "COMPLETE", "summary": "all done", "reason": "nothing is left"})),
    ]
}

#[test]
fn minimal_exits_with_0_on_verified() {
    check_minimal(done(), true, 0, "Verified: `go test ./...` passes");
}

#[test]
fn minimal_exits_with_0_on_claimed() {
    check_minimal(done(), false, 0, "all done");
}

#[test]
fn minimal_exits_with_1_on_failed() {
    check_minimal(vec![Answer::unauthorized()], false, 1, "Failed");
}

#[test]
fn minimal_without_a_key_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = run("minimal", folder.path(), &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("ANTHROPIC_API_KEY"), "{text}");
}

/// Runs an example that needs no key, in an empty project: exits with 0, and prints these.
#[track_caller]
fn check_without_a_key(name: &str, printed: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (code, text) = run(name, folder.path(), &[]);
    assert_eq!(code, Some(0), "{text}");
    for part in printed {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    text
}

#[test]
fn programmatic_control_stops_the_run() {
    check_without_a_key(
        "programmatic_control",
        &["state: executing", "steered: pause", "steered: say", "Cancelled."],
    );
}

#[test]
fn custom_tool_is_called() {
    check_without_a_key(
        "custom_tool",
        &["CountRows: \"users\" has 42 rows", "Claimed done, not verified: no check was found.", "42 users"],
    );
}

#[test]
fn a_run_is_suspended_and_resumed() {
    check_without_a_key("suspend", &["executing in iteration 1", "suspended", "Claimed done, not verified"]);
}

#[test]
fn a_provider_of_ones_own_conforms() {
    check_without_a_key("conforming_provider", &["0 rules of the contract are broken"]);
}

#[test]
fn custom_provider_answers() {
    check_without_a_key("custom_provider", &["Claimed done, not verified: ", "planned"]);
    let lines = include_str!("../../../examples/custom_provider.rs").lines().count();
    assert!(lines < 60, "a provider takes {lines} lines");
}

#[test]
fn events_to_json_prints_one_object_a_line() {
    let text = check_without_a_key("events_to_json", &[]);
    let types: Vec<String> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(types.first().map(String::as_str), Some("session_started"));
    assert_eq!(types.last().map(String::as_str), Some("session_finished"));
}
