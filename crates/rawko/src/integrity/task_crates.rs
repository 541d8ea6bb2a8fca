//! Crates of the project that only its tests depend on.

use std::collections::{BTreeMap, BTreeSet};

use toml_edit::{DocumentMut, Item, TableLike};

use crate::checkpoint::{Fate, Trees};

/// Adds to `named` the changed files of crates that are dependencies of tests alone.
pub(super) fn find(trees: &Trees, fates: &BTreeMap<String, Fate>, named: &mut BTreeSet<String>) {
    let lost = |(path, fate): (&String, &Fate)| {
        (matches!(fate, Fate::Changed | Fate::Deleted) && path.ends_with(".rs")).then(|| path.clone())
    };
    let changed: Vec<String> = fates.iter().filter_map(lost).collect();
    if changed.is_empty() {
        return;
    }
    let manifests: Vec<String> = trees.first_paths().filter(|path| is_manifest(path)).collect();
    let texts = trees.first_contents(&manifests);
    let texts =
        texts.iter().filter_map(|(path, text)| Some((path.as_str(), std::str::from_utf8(text).ok()?)));
    let folders = of_tests_alone(texts);
    let is_below = |path: &String| folders.iter().any(|folder| path.starts_with(&format!("{folder}/")));
    named.extend(changed.into_iter().filter(is_below));
}

/// Whether the dependencies of tests are in another place than before: a version is work, a place is not.
pub(super) fn moved_dependencies(first: &str, now: &str) -> bool {
    let places = |text: &str| -> BTreeMap<String, String> {
        let Ok(document) = text.parse::<DocumentMut>() else { return BTreeMap::new() };
        let table = document.get("dev-dependencies").and_then(Item::as_table_like);
        let entries = table.into_iter().flat_map(TableLike::iter);
        entries.map(|(name, item)| (name.to_owned(), place(item))).collect()
    };
    let (first, now) = (places(first), places(now));
    first.iter().any(|(name, place)| now.get(name).is_some_and(|now| now != place))
}

/// Where a dependency comes from, if it is no registry.
fn place(item: &Item) -> String {
    let table = item.as_table_like();
    let value = |key| table?.get(key)?.as_str().map(|value| format!("{key} {value}"));
    ["path", "git", "registry"].into_iter().filter_map(value).collect::<Vec<_>>().join(", ")
}

fn is_manifest(path: &str) -> bool {
    path == "Cargo.toml" || path.ends_with("/Cargo.toml")
}

/// The folders of crates that some manifest has among the dependencies of tests, and none among others.
fn of_tests_alone<'a>(manifests: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeSet<String> {
    let (mut of_tests, mut of_work) = (BTreeSet::new(), BTreeSet::new());
    let parsed: Vec<(String, DocumentMut)> = manifests
        .filter_map(|(path, text)| {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            Some((folder.to_owned(), text.parse::<DocumentMut>().ok()?))
        })
        .collect();
    // A dependency of the workspace gets its path from the workspace's manifest.
    let shared: BTreeMap<String, String> = parsed
        .iter()
        .flat_map(|(folder, document)| {
            let table = document.get("workspace").and_then(|it| it.get("dependencies"));
            paths(table, folder)
        })
        .collect();
    for (folder, document) in &parsed {
        let mut take = |of: &dyn TableLike| {
            for key in ["dependencies", "build-dependencies", "dev-dependencies"] {
                let list = if key == "dev-dependencies" { &mut of_tests } else { &mut of_work };
                let table = of.get(key);
                let names = table.and_then(Item::as_table_like).into_iter().flat_map(TableLike::iter);
                list.extend(names.filter_map(|(name, _)| shared.get(name).cloned()));
                list.extend(paths(table, folder).into_iter().map(|(_, path)| path));
            }
        };
        take(document.as_table());
        let targets =
            document.get("target").and_then(Item::as_table_like).into_iter().flat_map(TableLike::iter);
        targets.filter_map(|(_, target)| target.as_table_like()).for_each(take);
    }
    of_tests.difference(&of_work).cloned().collect()
}

fn paths(table: Option<&Item>, folder: &str) -> Vec<(String, String)> {
    let entries = table.and_then(Item::as_table_like).into_iter().flat_map(TableLike::iter);
    let path = |(name, item): (&str, &Item)| {
        let path = item.as_table_like()?.get("path")?.as_str()?.to_owned();
        Some((name.to_owned(), super::named::joined(folder, &path)))
    };
    entries.filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(manifests: &[(&str, &str)], expected: &[&str]) {
        let found = of_tests_alone(manifests.iter().copied());
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{manifests:?}");
    }

    #[test]
    fn crates_of_tests_alone_are_known() {
        let dev = "[dev-dependencies]\nnear = { path = \"../near\" }\nserde = \"1\"\n";
        check(&[("a/Cargo.toml", dev)], &["near"]);
        check(
            &[("a/Cargo.toml", dev), ("b/Cargo.toml", "[dependencies]\nnear = { path = \"../near\" }\n")],
            &[],
        );
        check(
            &[
                ("a/Cargo.toml", dev),
                ("b/Cargo.toml", "[target.'cfg(unix)'.dependencies]\nnear.path = \"../near\"\n"),
            ],
            &[],
        );
        let top = "[workspace.dependencies]\nnear = { path = \"x/near\" }\n";
        check(
            &[("Cargo.toml", top), ("a/Cargo.toml", "[dev-dependencies]\nnear.workspace = true\n")],
            &["x/near"],
        );
        check(
            &[
                ("Cargo.toml", top),
                ("a/Cargo.toml", "[dev-dependencies]\nnear.workspace = true\n"),
                ("b/Cargo.toml", "[dependencies]\nnear = { workspace = true }\n"),
            ],
            &[],
        );
    }

    #[test]
    fn a_dependency_of_tests_that_lies_elsewhere_has_moved() {
        let from = |value: &str| format!("[dev-dependencies]\nnear = {value}\n");
        let check = |first: &str, now: &str| moved_dependencies(&from(first), &from(now));
        assert!(check("{ path = \"near\" }", "{ path = \"own\" }"));
        assert!(check("\"1\"", "{ path = \"own\" }"));
        assert!(!check("\"1\"", "\"2\""));
        assert!(!moved_dependencies("", &from("{ path = \"own\" }")));
    }
}
