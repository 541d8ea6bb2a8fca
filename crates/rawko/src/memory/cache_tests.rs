//! What is kept beside the memories is a help: they are found without it, and without leave to keep it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::tests::Project;
use super::*;

/// Everything below a folder, and what it holds.
fn tree(folder: &Path) -> BTreeMap<String, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(tree(&path));
        }
        all.insert(path.display().to_string(), fs::read(&path).ok());
    }
    all
}

/// Three memories, of which the search for "auth" finds two.
fn project() -> Project {
    let project = Project::new();
    for (name, when) in [("a.md", "auth"), ("b.md", "mail"), ("c.md", "auth|login")] {
        project.memory(name, name, when, "");
    }
    project
}

const FOUND: [&str; 2] = ["a.md", "c.md"];

fn told(store: &MemoryStore) -> Vec<String> {
    let query = rawko_core::memory::Query::new("Fix auth", "developer", None, None);
    let agent = serde_json::from_value(serde_json::json!({"name": "developer", "systemPrompt": ""})).unwrap();
    let recipient = rawko_core::memory::Recipient::of(&agent, 5, rawko_core::agent::Importance::Low);
    let options = RecallOptions { now: tests::NOW, ..RecallOptions::default() };
    let recall = store.recall(&query, &recipient, &options);
    assert_eq!(recall.reports, [], "{recall:?}");
    recall.selection.chosen.into_iter().map(|one| one.memory.path).collect()
}

#[test]
fn without_caches_nothing_is_left_behind() {
    let project = project();
    let store = project.store().without_caches();
    let before = tree(project.path());
    let read = || (told(&store), store.inventory().memories.len());
    let expected = (FOUND.map(str::to_owned).to_vec(), 3);
    assert_eq!((read(), tree(project.path())), (expected.clone(), before));
    // The same beside an index that no longer holds.
    assert_eq!(told(&project.store()), FOUND);
    assert!(project.store().folder().join(".index").is_dir());
    fs::remove_file(project.store().folder().join("b.md")).unwrap();
    project.memory("d.md", "d.md", "mail", "");
    let before = tree(project.path());
    assert_eq!((read(), tree(project.path())), (expected, before));
}

#[test]
fn where_no_index_can_be_kept_memories_are_found_all_the_same() {
    // In the place of its folder, and in the place of its file.
    for (in_the_way, is_folder) in [(".index", false), (".index/v1", true)] {
        let project = project();
        let path = project.store().folder().join(in_the_way);
        if is_folder {
            fs::create_dir_all(path.join("not empty")).unwrap();
        } else {
            fs::write(&path, "").unwrap();
        }
        assert_eq!(
            (told(&project.store()), project.store().inventory().memories.len()),
            (FOUND.map(str::to_owned).to_vec(), 3)
        );
        assert_eq!(path.is_dir(), is_folder, "{in_the_way}");
    }
}

#[test]
fn in_a_folder_that_may_not_be_written_memories_are_found_all_the_same() {
    let project = project();
    let folder = project.store().folder();
    let found = || (told(&project.store()), project.store().inventory().memories.len());
    let expected = (FOUND.map(str::to_owned).to_vec(), 3);
    let before = tree(&folder);
    let Some(got) = tests::with_modes(&[(&folder, 0o555)], found) else { return };
    assert_eq!((got, tree(&folder)), (expected.clone(), before));
    // An index that no longer holds and cannot be replaced.
    assert_eq!(found(), expected);
    fs::remove_file(folder.join("b.md")).unwrap();
    project.memory("d.md", "d.md", "mail", "");
    let before = tree(&folder);
    let got = tests::with_modes(&[(&folder, 0o555), (&folder.join(".index"), 0o555)], found);
    assert_eq!((got.unwrap(), tree(&folder)), (expected, before));
}
