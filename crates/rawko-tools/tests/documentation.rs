//! Checks that `docs/tools.md` mentions every tool and parameter.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use rawko_tools::{FileTracker, builtin_tools};
use serde_json::Value;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md");

/// The text under a heading, without that under the next one.
fn section<'a>(docs: &'a str, heading: &str) -> &'a str {
    let (_, rest) = docs.split_once(&format!("\n## {heading}\n")).unwrap_or_default();
    rest.split("\n## ").next().unwrap_or_default()
}

/// Whether a table begins a row with `name`, alone or among others.
fn has_row(section: &str, name: &str) -> bool {
    let quoted = format!("`{name}`");
    section.lines().filter_map(|line| line.strip_prefix("| ")).any(|row| {
        let mut cells = row.split(" |");
        let first = cells.next().unwrap_or_default();
        // The control tools share a table: there the second cell names the parameter.
        first.contains(&quoted) || cells.next().is_some_and(|cell| cell.trim() == quoted)
    })
}

fn parameters(schema: &Value) -> Vec<&String> {
    schema["properties"].as_object().unwrap().keys().collect()
}

#[test]
fn every_tool_and_parameter_is_in_its_section() {
    let docs = std::fs::read_to_string(DOCS).unwrap();
    let mut missing = Vec::new();
    let mut found = 0;
    let builtin = builtin_tools(&Arc::new(FileTracker::new()));
    let builtin = builtin.iter().map(|tool| (tool.spec().clone(), tool.spec().name.clone()));
    let control = rawko_core::agent::control_tools();
    let control = control.into_iter().map(|spec| (spec, "Control tools".to_owned()));
    for (spec, heading) in builtin.chain(control) {
        let section = section(&docs, &heading);
        assert!(docs.contains(&format!("`{}`", spec.name)), "{} is not mentioned", spec.name);
        for parameter in parameters(&spec.input_schema) {
            found += 1;
            if !has_row(section, parameter) {
                missing.push(format!("{}.{parameter}", spec.name));
            }
        }
    }
    assert!(found > 25, "only {found} parameters were looked for");
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn a_parameter_that_is_not_there_would_be_missed() {
    let docs = "\n## Read\n| `file_path` | x |\n| `-A`, `-B` | y |\n| `Report` | `files` | z |\n## Write\n| `content` |\n";
    let read = section(docs, "Read");
    let rows = ["file_path", "-B", "files", "content", "x"].map(|name| has_row(read, name));
    assert_eq!(rows, [true, true, true, false, false]);
}
