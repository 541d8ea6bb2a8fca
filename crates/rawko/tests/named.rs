//! Everything that the public interface holds can be named: the types of public fields and variants, from those that the
//! crate exports on, are exported themselves.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::Regex;

/// Code without comments and tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The names of types that are the types of the item's public parts.
fn parts(item: &str) -> BTreeSet<String> {
    let is_struct = item.starts_with("pub struct");
    let field = Regex::new(r"^\s*(?:pub )?\w+: (.*)$").unwrap();
    let tuple = Regex::new(r"^\s*\w+\((.*)\)").unwrap();
    let name = Regex::new(r"\b[A-Z]\w+\b").unwrap();
    let mut found = BTreeSet::new();
    for line in item.lines().skip(1) {
        if is_struct && !line.trim_start().starts_with("pub ") {
            continue;
        }
        for types in [&field, &tuple].into_iter().filter_map(|form| form.captures(line)) {
            found.extend(name.find_iter(&types[1]).map(|name| name.as_str().to_owned()));
        }
    }
    found
}

#[test]
fn what_can_be_reached_can_be_named() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let item = Regex::new(r"(?ms)^pub (?:struct|enum) (\w+).*?^(?:\}|[^\n]*;$)").unwrap();
    let mut items: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for part in ["rawko-core", "rawko-provider", "rawko-tools", "rawko"] {
        let mut found = Vec::new();
        files(&crates.join(part).join("src"), &mut found);
        for file in found {
            for item in item.captures_iter(&code(&file)) {
                items.entry(item[1].to_owned()).or_default().extend(parts(&item[0]));
            }
        }
    }
    let export = Regex::new(r"(?s)\bpub use [\w:]+?(?:::\{(.*?)\}|::(\w+));").unwrap();
    let own = Regex::new(r"(?m)^pub (?:struct|enum|trait|type) (\w+)").unwrap();
    let name = Regex::new(r"\w+").unwrap();
    let whole_crate = Regex::new(r"pub use rawko_\w+ as ").unwrap();
    let mut exported: BTreeSet<String> = BTreeSet::new();
    for module in [
        "lib",
        "checkpoint/mod",
        "config/mod",
        "journal/mod",
        "mcp_client",
        "outside/mod",
        "plugins/mod",
        "memory/mod",
        "provider",
        "skills/mod",
        "tools",
        "types",
    ] {
        let text = code(&crates.join("rawko/src").join(format!("{module}.rs")));
        for found in export.captures_iter(&text) {
            let names = found.get(1).or_else(|| found.get(2)).unwrap().as_str();
            exported.extend(name.find_iter(names).map(|name| name.as_str().to_owned()));
        }
        exported.extend(own.captures_iter(&text).map(|found| found[1].to_owned()));
        assert!(!whole_crate.is_match(&text), "{module} exports a whole crate");
    }
    // Modules that are exported as they are.
    exported.extend(
        ["Fact", "ModelCall", "ModelReply", "TimelineEntry", "ToolCallEnd", "Preset"].map(str::to_owned),
    );
    assert!(exported.len() > 200 && items.len() > 300, "{} of {}", exported.len(), items.len());
    let mut missing = BTreeMap::new();
    for (of, parts) in items.iter().filter(|(of, _)| exported.contains(*of)) {
        for part in parts.iter().filter(|part| items.contains_key(*part) && !exported.contains(*part)) {
            missing.insert(part, of);
        }
    }
    assert!(missing.is_empty(), "these types cannot be named, which these hold: {missing:#?}");
}
