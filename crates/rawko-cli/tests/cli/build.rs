//! What the README's first commands build, as cargo says it.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[track_caller]
fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(ROOT).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The crates of the default members with their features.
fn crates(edges: &str) -> BTreeSet<String> {
    let tree = cargo(&[
        "tree",
        "--locked",
        "--offline",
        "--prefix",
        "none",
        "--format",
        "{p} {f}",
        "--edges",
        edges,
    ]);
    tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// A crate that only tests need with one more feature is compiled twice, and everything that depends on it.
#[test]
fn tests_need_the_crates_that_the_program_is_made_of_with_the_same_features() {
    let (program, tests) = (crates("normal,build"), crates("normal,build,dev"));
    let twice: Vec<_> = program.difference(&tests).collect();
    assert!(twice.is_empty(), "give the program the features that tests add to these: {twice:?}");
    assert!(tests.len() > program.len() && program.len() > 100, "{} {}", tests.len(), program.len());
}

#[test]
fn cargo_run_is_rawko_and_needs_no_sdk_of_a_feature() {
    let text = cargo(&["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&text).expect("JSON");
    let default: Vec<&str> = metadata["workspace_default_members"]
        .as_array()
        .expect("members")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let packages = metadata["packages"].as_array().expect("packages");
    let is_default = |package: &&Value| default.iter().any(|id| package["id"] == *id);
    let runs: Vec<&str> =
        packages.iter().filter(is_default).filter_map(|package| package["default_run"].as_str()).collect();
    assert_eq!(runs, ["rawko"]);
    let names = crates("normal,build,dev");
    for sdk in ["github-copilot-sdk", "temporalio-sdk", "candle-core"] {
        assert!(!names.iter().any(|line| line.starts_with(&format!("{sdk} "))), "{sdk}");
    }
}
