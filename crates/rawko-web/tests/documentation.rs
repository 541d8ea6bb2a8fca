//! Checks that `docs/tools.md` has the tools of this crate and their parameters.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rawko_tools::Tool;
use rawko_web::{SearchService, WebFetch, WebSearch};

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md");

#[test]
fn every_tool_and_parameter_is_in_its_section() {
    let docs = std::fs::read_to_string(DOCS).unwrap();
    let search = WebSearch::new(SearchService::SearXng { url: "http://127.0.0.1:9".to_owned() });
    let fetch = WebFetch::new();
    for spec in [fetch.spec(), search.spec()] {
        let (_, section) = docs.split_once(&format!("\n## {}\n", spec.name)).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let parameters = spec.input_schema["properties"].as_object().unwrap();
        assert!(!parameters.is_empty());
        for parameter in parameters.keys() {
            assert!(section.contains(&format!("| `{parameter}` |")), "{}.{parameter}", spec.name);
        }
    }
}
