//! Calling tools by name: validation, wrong names, panics, and the schemas that models see.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::sync::Arc;

use common::Bench;
use rawko_core::error::ErrorCode;
use rawko_core::tool::{ToolAccess, ToolOutcome, ToolSpec};
use rawko_tools::{BoxFuture, RegistryError, Tool, ToolContext};
use serde_json::{Value, json};

/// An embedder's tool that breaks the contract.
struct Broken(ToolSpec);

impl Broken {
    fn named(name: &str, schema: Value) -> Arc<Self> {
        let spec = ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema: schema,
            access: ToolAccess::ReadOnly,
        };
        Arc::new(Self(spec))
    }
}

impl Tool for Broken {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolOutcome> {
        panic!("a bug in the tool");
    }
}

fn bench() -> (tempfile::TempDir, Bench) {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::new(dir.path());
    (dir, bench)
}

#[tokio::test]
async fn wrong_arguments_are_named_with_what_is_expected() {
    let (_dir, bench) = bench();
    for (tool, input, expected) in [
        ("Read", json!({}), "\"file_path\" is a required property"),
        ("Read", json!({"file_path": 1}), "`file_path`: 1 is not of type \"string\""),
        ("Read", json!({"file_path": "a", "ofset": 1}), "'ofset' was unexpected"),
        ("Read", json!({"file_path": "a", "ofset": 1}), "`offset` (integer, optional)"),
        ("Read", json!("a"), "is not of type \"object\""),
        ("Read", json!({"file_path": "a", "offset": 0}), "`offset`: 0 is less than the minimum of 1"),
        ("Grep", json!({"pattern": "a", "output_mode": "lines"}), "`output_mode`: \"lines\" is not one of"),
        (
            "Bash",
            json!({"command": "true", "timeout": 700_000}),
            "`timeout`: 700000 is greater than the maximum",
        ),
    ] {
        let outcome = bench.call(tool, input).await;
        assert_eq!(outcome.error_code, Some(ErrorCode::ValidationError), "{}", outcome.content);
        assert!(outcome.content.contains(expected), "{expected:?} is missing in {:?}", outcome.content);
    }
}

#[tokio::test]
async fn optional_arguments_may_be_null() {
    let (dir, bench) = bench();
    std::fs::write(dir.path().join("a"), "x").unwrap();
    bench.ok("Read", json!({"file_path": "a", "offset": null, "limit": null})).await;
    bench.fails("Read", json!({"file_path": null})).await;
}

#[tokio::test]
async fn numbers_and_booleans_may_be_written_as_texts_if_they_are_clear() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), "one\ntwo\nthree\n").unwrap();
    let bench = Bench::new(dir.path());
    let text = bench.ok("Read", json!({"file_path": "a", "offset": "2", "limit": 1.0})).await;
    assert!(text.contains("two") && !text.contains("one") && !text.contains("three"), "{text}");
    bench.ok("Read", json!({"file_path": "a"})).await;
    let edit = json!({"file_path": "a", "old_string": "e", "new_string": "E", "replace_all": "true"});
    assert!(bench.ok("Edit", edit).await.contains("3 replacements"));
    for unclear in [json!("two"), json!(1.5), json!([2])] {
        let why = bench.fails("Read", json!({"file_path": "a", "offset": unclear})).await;
        assert!(why.contains("`offset`"), "{why}");
    }
}

#[tokio::test]
async fn wrong_names_get_the_nearest() {
    let (_dir, bench) = bench();
    assert!(bench.fails("bash", json!({})).await.contains("case-sensitive, call `Bash`"));
    assert!(bench.fails("Greb", json!({})).await.contains("did you mean `Grep`?"));
    assert!(bench.fails("Deploy", json!({})).await.contains("There is no tool `Deploy`"));
}

#[tokio::test]
async fn a_panic_and_a_bad_schema_are_results() {
    let (_dir, mut bench) = bench();
    bench.registry.add(Broken::named("broken", json!({"type": "object"}))).unwrap();
    bench.registry.add(Broken::named("odd", json!({"type": "nonsense"}))).unwrap();
    assert!(bench.fails("broken", json!({})).await.contains("crashed (a bug in the tool)"));
    assert!(bench.fails("odd", json!({})).await.contains("The schema of the tool `odd` is not valid"));
}

#[test]
fn names_are_unique_and_usable() {
    let (_dir, mut bench) = bench();
    let mut add = |name: &str| bench.registry.add(Broken::named(name, json!({})));
    assert_eq!(add("Read"), Err(RegistryError::Taken("Read".into())));
    assert_eq!(add("Report"), Err(RegistryError::Reserved("Report".into())));
    assert_eq!(add("a b"), Err(RegistryError::BadName("a b".into())));
    assert_eq!(add("mcp__docs__search"), Ok(()));
    assert_eq!(
        bench.registry.names(),
        ["Bash", "Edit", "Glob", "Grep", "Read", "Write", "mcp__docs__search"]
    );
}

#[test]
fn schemas_are_plain() {
    let (_dir, bench) = bench();
    for spec in bench.registry.specs() {
        let text = spec.input_schema.to_string();
        for part in ["$schema", "$ref", "$defs", "\"null\"", "format", "anyOf", "oneOf"] {
            assert!(!text.contains(part), "{}: {part} in {text}", spec.name);
        }
        assert_eq!(spec.input_schema["additionalProperties"], false, "{text}");
        for (name, field) in spec.input_schema["properties"].as_object().unwrap() {
            assert!(field["description"].is_string(), "{}.{name} is not described", spec.name);
            assert!(field["type"].is_string(), "{}.{name} has no type", spec.name);
        }
    }
    let grep = bench.registry.get("Grep").unwrap().spec().input_schema.clone();
    assert_eq!(grep["properties"]["output_mode"]["enum"], json!(["content", "files_with_matches", "count"]));
    assert_eq!(grep["required"], json!(["pattern"]));
}
