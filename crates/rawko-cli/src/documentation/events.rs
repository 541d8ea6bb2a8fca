//! Writes `clients/events.schema.json`, of which the clients' types are made, and checks those types.

use std::process::Command;

use rawko::event_schema;

use super::{Page, ROOT, blocks, check_generated};

#[test]
fn the_clients_types_are_those_of_the_events() {
    let schema = serde_json::to_string_pretty(&event_schema()).expect("JSON") + "\n";
    check_generated("clients/events.schema.json", &schema);
    // Where pages are written, so are the types.
    let check = std::env::var_os("RAWKO_UPDATE_DOCS").is_none().then_some("--check");
    let script = Command::new("python3")
        .arg("scripts/generate-clients.py")
        .args(check)
        .current_dir(ROOT)
        .output()
        .expect("python3 starts");
    assert!(script.status.success(), "{}", String::from_utf8_lossy(&script.stderr));
}

/// Their suites run the examples of the readmes.
#[test]
fn the_page_shows_the_examples_of_the_readmes() {
    let page = |name: &str| {
        let text = std::fs::read_to_string(format!("{ROOT}/{name}")).expect("a page");
        Page { name: name.to_owned(), text }
    };
    let shown = blocks(&page("docs/clients.md"));
    for (name, language) in [("clients/python/README.md", "python"), ("clients/node/README.md", "js")] {
        let examples = blocks(&page(name));
        let example = examples.iter().find(|block| block.language() == language).expect("an example");
        assert!(
            shown.iter().any(|block| block.text == example.text),
            "docs/clients.md shows another than {name}"
        );
    }
}

#[test]
fn the_clients_have_the_version_of_the_crates() {
    let version = env!("CARGO_PKG_VERSION");
    for (name, line) in [
        ("clients/python/pyproject.toml", format!("version = \"{version}\"")),
        ("clients/node/package.json", format!("\"version\": \"{version}\"")),
    ] {
        let text = std::fs::read_to_string(format!("{ROOT}/{name}")).expect("a file");
        assert!(text.contains(&line), "{name} has no `{line}`");
    }
}
