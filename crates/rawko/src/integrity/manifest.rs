//! Manifests name dependencies and configure checks in one file: this module separates the two.
//!
//! A change of dependencies, of the version or of a description is part of the work. Everything else in a manifest
//! affects how checks run. For the original checks on the new code, a manifest is the original one with the new
//! dependencies.

use serde_json::{Map, Value};
use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::task_crates;

/// A manifest beside its original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Manifest {
    /// It is none, or cannot be read as one.
    Other,
    /// Nothing that affects the checks differs.
    SameChecks,
    /// It differs; this is the original with the new dependencies.
    Changed(Vec<u8>),
}

/// Test runners and what they use, as manifests name them.
const RUNNERS: &[&str] =
    &["jest", "vitest", "mocha", "ava", "tap", "c8", "nyc", "babel", "pytest", "coverage", "tox", "nox"];

/// Fields of `package.json` that are part of the work.
const PACKAGE: &[&str] = &[
    "name",
    "version",
    "description",
    "keywords",
    "author",
    "contributors",
    "license",
    "homepage",
    "bugs",
    "repository",
    "funding",
    "files",
    "main",
    "module",
    "types",
    "typings",
    "exports",
    "browser",
    "bin",
    "private",
    "engines",
    "dependencies",
    "devDependencies",
    "peerDependencies",
    "peerDependenciesMeta",
    "optionalDependencies",
    "bundledDependencies",
    "bundleDependencies",
    "sideEffects",
    "publishConfig",
];

/// Names of `package.json` that modules are imported by.
const IMPORTS: &str = "imports";
/// The table of `Cargo.toml` that turns tests on and off.
const FEATURES: &str = "features";

/// Tables of `Cargo.toml` that are part of the work.
const CARGO: &[&str] = &[
    "package.name",
    "package.version",
    "package.description",
    "package.authors",
    "package.license",
    "package.license-file",
    "package.repository",
    "package.homepage",
    "package.documentation",
    "package.readme",
    "package.keywords",
    "package.categories",
    "package.rust-version",
    "package.publish",
    "package.include",
    "package.exclude",
    "dependencies",
    "dev-dependencies",
    "build-dependencies",
    "target",
    "badges",
    "workspace.dependencies",
    "workspace.package",
];

/// Tables of `pyproject.toml` that are part of the work.
const PYPROJECT: &[&str] = &[
    "project",
    "build-system",
    "dependency-groups",
    "tool.poetry",
    "tool.uv.sources",
    "tool.uv.dev-dependencies",
    "tool.setuptools",
    "tool.hatch.version",
    "tool.hatch.metadata",
    "tool.flit",
    "tool.pdm.dev-dependencies",
];

/// Whether a file is a manifest that [`compare`] can read.
pub(super) fn is_manifest(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["package.json", "Cargo.toml", "pyproject.toml", "go.mod"].contains(&name)
}

/// Whether a new manifest holds settings of a test runner.
pub(super) fn configures_a_runner(path: &str, content: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(content) else { return true };
    if path.ends_with("package.json") {
        let package = serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
        return RUNNERS.iter().any(|runner| package.contains_key(*runner));
    }
    let Ok(document) = text.parse::<DocumentMut>() else { return path.ends_with(".toml") };
    let tools = document.get("tool").and_then(Item::as_table_like);
    tools.is_some_and(|tools| RUNNERS.iter().any(|runner| tools.contains_key(runner)))
}

/// Compares a manifest with its original.
pub(super) fn compare(path: &str, original: &[u8], now: &[u8]) -> Manifest {
    let texts = (std::str::from_utf8(original), std::str::from_utf8(now));
    let (Ok(original), Ok(now)) = texts else { return Manifest::Other };
    match path.rsplit('/').next().unwrap_or(path) {
        "package.json" => package(original, now),
        // If the dependencies of tests are elsewhere, the checks are different.
        "Cargo.toml" if task_crates::moved_dependencies(original, now) => {
            Manifest::Changed(original.as_bytes().to_vec())
        }
        "Cargo.toml" => toml(CARGO, original, now),
        "pyproject.toml" => toml(PYPROJECT, original, now),
        "go.mod" => go(original, now),
        _ => Manifest::Other,
    }
}

fn package(original: &str, now: &str) -> Manifest {
    let parse = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let (Some(original), Some(now)) = (parse(original), parse(now)) else {
        return Manifest::Changed(original.as_bytes().to_vec());
    };
    let is_work = |key: &str| PACKAGE.contains(&key);
    let checks = |of: &Map<String, Value>| -> Map<String, Value> {
        of.iter().filter(|(key, _)| !is_work(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let mut merged = checks(&original);
    let mut present = checks(&now);
    // New names are work; the names that were there mean what they meant.
    let imports =
        |of: &Map<String, Value>| of.get(IMPORTS).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut known = imports(&now);
    known.extend(imports(&original));
    if known == imports(&now) {
        merged.remove(IMPORTS);
        present.remove(IMPORTS);
    }
    if merged == present {
        return Manifest::SameChecks;
    }
    if !known.is_empty() {
        merged.insert(IMPORTS.to_owned(), Value::Object(known));
    }
    merged.extend(now.into_iter().filter(|(key, _)| is_work(key)));
    Manifest::Changed(Value::Object(merged).to_string().into_bytes())
}

fn toml(work: &[&str], original: &str, now: &str) -> Manifest {
    let (Ok(mut merged), Ok(mut now)) = (original.parse::<DocumentMut>(), now.parse::<DocumentMut>()) else {
        return Manifest::Changed(original.as_bytes().to_vec());
    };
    keep_features(&mut merged, &now);
    let theirs: Vec<Option<Item>> = work.iter().map(|path| take(&mut now, path)).collect();
    for path in work {
        take(&mut merged, path);
    }
    if plain(merged.as_table()) == plain(now.as_table()) {
        return Manifest::SameChecks;
    }
    for (path, item) in work.iter().zip(theirs) {
        if let Some(item) = item {
            put(&mut merged, path, item);
        }
    }
    Manifest::Changed(merged.to_string().into_bytes())
}

/// A feature of a crate may turn on more than it did, and new ones are work. Those that were there keep what they turned on,
/// so that `merged` and `now` only differ where something was taken away.
fn keep_features(merged: &mut DocumentMut, now: &DocumentMut) {
    let table = |of: &DocumentMut| of.get(FEATURES).and_then(Item::as_table_like).map(plain);
    let Some(Value::Object(before)) = table(merged) else {
        if let Some(features) = now.get(FEATURES) {
            merged.insert(FEATURES, features.clone());
        }
        return;
    };
    let present = table(now).unwrap_or_default();
    let turned_on = |of: Option<&Value>| of.and_then(Value::as_array).cloned().unwrap_or_default();
    let is_kept = |(name, on): (&String, &Value)| {
        let now = present.get(name).map(|on| turned_on(Some(on)));
        now.is_some_and(|now| turned_on(Some(on)).iter().all(|feature| now.contains(feature)))
    };
    if before.iter().all(is_kept)
        && let Some(features) = now.get(FEATURES)
    {
        merged.insert(FEATURES, features.clone());
    }
}

/// The content without form: order, comments and empty tables do not matter.
fn plain(table: &dyn TableLike) -> Value {
    let fields = table.iter().map(|(key, item)| (key.to_owned(), plain_item(item)));
    Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
}

fn plain_item(item: &Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return plain(table);
    }
    if let Some(tables) = item.as_array_of_tables() {
        return tables.iter().map(|table| plain(table)).collect();
    }
    match item.as_value() {
        Some(toml_edit::Value::Array(array)) => {
            array.iter().map(|value| plain_item(&Item::Value(value.clone()))).collect()
        }
        Some(toml_edit::Value::String(text)) => Value::String(text.value().clone()),
        Some(value) => Value::String(value.clone().decorated("", "").to_string()),
        None => Value::Null,
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

/// Takes the item at a dotted path out.
fn take(document: &mut DocumentMut, path: &str) -> Option<Item> {
    let (parents, leaf) = split(path);
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for parent in parents {
        table = table.get_mut(parent)?.as_table_like_mut()?;
    }
    table.remove(leaf)
}

fn put(document: &mut DocumentMut, path: &str, item: Item) {
    let (parents, leaf) = split(path);
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for parent in parents {
        let entry = table.entry(parent).or_insert_with(|| Item::Table(Table::new()));
        match entry.as_table_like_mut() {
            Some(inner) => table = inner,
            None => return,
        }
    }
    table.insert(leaf, item);
}

fn split(path: &str) -> (Vec<&str>, &str) {
    let mut parts: Vec<&str> = path.split('.').collect();
    let leaf = parts.pop().unwrap_or_default();
    (parts, leaf)
}

/// A module's dependencies are part of the work; where they are replaced by folders affects the checks.
fn go(original: &str, now: &str) -> Manifest {
    let replaced = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|line| line.contains("=>"));
        lines.map(|line| line.trim_start_matches("replace").trim().to_owned()).collect()
    };
    if replaced(original) == replaced(now) {
        Manifest::SameChecks
    } else {
        Manifest::Changed(original.as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, original: &str, now: &str, expected: Option<&str>) {
        match (compare(path, original.as_bytes(), now.as_bytes()), expected) {
            (Manifest::SameChecks, None) => {}
            (Manifest::Changed(merged), Some(expected)) => {
                assert_eq!(String::from_utf8(merged).unwrap(), expected);
            }
            (other, expected) => panic!("{path}: {other:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn scripts_of_a_package_are_checks_and_its_dependencies_are_work() {
        let first = r#"{"version": "1", "scripts": {"test": "jest"}, "jest": {"bail": 1}}"#;
        check(
            "package.json",
            first,
            r#"{"version": "2", "jest": {"bail": 1}, "scripts": {"test": "jest"}}"#,
            None,
        );
        check(
            "a/package.json",
            first,
            r#"{"scripts": {"test": "jest"}, "dependencies": {"a": "1"}, "jest": {"bail": 1}}"#,
            None,
        );
        check(
            "package.json",
            first,
            r#"{"scripts": {"test": "true"}, "dependencies": {"a": "1"}}"#,
            Some(r#"{"dependencies":{"a":"1"},"jest":{"bail":1},"scripts":{"test":"jest"}}"#),
        );
        check("package.json", first, "{", Some(first));
        let first = r##"{"imports": {"#same": "./same.js"}}"##;
        check("package.json", first, r##"{"imports": {"#same": "./same.js", "#b": "./b.js"}}"##, None);
        check(
            "package.json",
            first,
            r##"{"imports": {"#same": "./none.js", "#b": "./b.js"}}"##,
            Some(r##"{"imports":{"#b":"./b.js","#same":"./same.js"}}"##),
        );
    }

    #[test]
    fn targets_and_profiles_of_a_crate_are_checks() {
        let first = "[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
        check(
            "Cargo.toml",
            first,
            "# new\n[package]\nedition=\"2021\"\nname=\"a\"\nversion=\"1.1.0\"\n[dependencies]\nb = \"1\"\n",
            None,
        );
        check(
            "Cargo.toml",
            first,
            "[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2021\"\nautotests = false\n\n[dependencies]\nb = \"1\"\n",
            Some(
                "[package]\nedition = \"2021\"\nname = \"a\"\nversion = \"1.0.0\"\n\n[dependencies]\nb = \"1\"\n",
            ),
        );
        check(
            "Cargo.toml",
            first,
            &format!("{first}[lib]\ntest = false\n"),
            Some("[package]\nedition = \"2021\"\nname = \"a\"\nversion = \"1.0.0\"\n"),
        );
    }

    #[test]
    fn features_of_a_crate_keep_what_they_turned_on() {
        let first = "[features]\ndefault = [\"full\"]\nfull = []\n";
        check("Cargo.toml", first, "[features]\ndefault = [\"full\", \"b\"]\nfull = []\nb = []\n", None);
        check("Cargo.toml", first, "[features]\ndefault = []\nfull = []\n", Some(first));
        check("Cargo.toml", "", first, None);
    }

    #[test]
    fn runners_sections_of_pyproject_are_checks() {
        let first = "[project]\nname = \"a\"\n\n[tool.pytest.ini_options]\naddopts = \"-q\"\n";
        check(
            "pyproject.toml",
            first,
            "[project]\nname = \"a\"\ndependencies = [\"x\"]\n[tool.pytest.ini_options]\naddopts = \"-q\"\n",
            None,
        );
        check(
            "pyproject.toml",
            first,
            "[project]\nname = \"b\"\n[tool.pytest.ini_options]\naddopts = \"-q --co\"\n",
            Some("[project]\nname = \"b\"\n\n[tool.pytest.ini_options]\naddopts = \"-q\"\n"),
        );
    }

    #[test]
    fn a_module_that_is_replaced_is_a_check() {
        check("go.mod", "module a\ngo 1.22\n", "module a\ngo 1.22\nrequire b v1.0.0\n", None);
        let first = "module a\n";
        check("go.mod", first, "module a\nreplace testing => ./fake\n", Some(first));
    }

    #[test]
    fn settings_of_a_runner_are_known() {
        for (path, text, expected) in [
            ("package.json", r#"{"jest": {}}"#, true),
            ("package.json", r#"{"scripts": {"test": "jest"}}"#, false),
            ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"-p weaken\"\n", true),
            ("pyproject.toml", "[project]\nname = \"a\"\n", false),
            ("go.mod", "module a\n", false),
        ] {
            assert_eq!(configures_a_runner(path, text.as_bytes()), expected, "{path}: {text}");
        }
    }

    #[test]
    fn other_files_are_no_manifests() {
        assert_eq!(compare("setup.py", b"a", b"b"), Manifest::Other);
        assert_eq!(compare("package.json", b"\xff", b"{}"), Manifest::Other);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_compared_without_harm(original in "\\PC{0,60}", now in "\\PC{0,60}") {
            for path in ["package.json", "Cargo.toml", "pyproject.toml", "go.mod"] {
                let _ = compare(path, original.as_bytes(), now.as_bytes());
                proptest::prop_assert_eq!(compare(path, b"", b""), compare(path, b"", b""));
            }
        }
    }
}
