//! The cache beside the memories only helps: memories are found without it, whatever becomes of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

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

fn found(store: &MemoryStore) -> Vec<String> {
    let query = rawko_core::memory::Query::new("Fix auth", "developer", None);
    let agent = serde_json::from_value(serde_json::json!({"name": "developer", "systemPrompt": ""})).unwrap();
    let recipient = rawko_core::memory::Recipient::of(&agent, 5, rawko_core::agent::Importance::Low);
    let options = RecallOptions { now: tests::NOW, ..RecallOptions::default() };
    let recall = store.recall(&query, &recipient, &options);
    assert_eq!(recall.reports, [], "{recall:?}");
    recall.selection.chosen.into_iter().map(|one| one.memory.path).collect()
}

fn cache(project: &Project) -> PathBuf {
    project.store().folder().join(".index")
}

/// Lets the files' stamps be believed: they changed longer ago than a tick of the file system's clock.
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(60));
}

#[test]
fn without_caches_nothing_is_left_behind() {
    let project = project();
    let store = project.store().without_caches();
    let before = tree(project.path());
    assert_eq!((found(&store), store.inventory().memories.len()), (FOUND.map(str::to_owned).to_vec(), 3));
    assert_eq!(tree(project.path()), before);
}

#[test]
fn a_cache_is_kept_out_of_git_and_comes_to_rest() {
    let project = project();
    settle();
    assert_eq!(found(&project.store()), FOUND);
    let ignored = fs::read_to_string(project.store().folder().join(".gitignore")).unwrap();
    assert!(ignored.contains("/.index\n"), "{ignored}");
    let written = fs::metadata(cache(&project)).unwrap().modified().unwrap();
    assert_eq!(found(&project.store()), FOUND);
    assert_eq!(fs::metadata(cache(&project)).unwrap().modified().unwrap(), written, "nothing has changed");
}

#[test]
fn an_edit_in_place_is_seen_by_the_same_process_and_by_the_next() {
    let project = project();
    let store = project.store();
    settle();
    assert_eq!(found(&store), FOUND);
    // Of the same length, so that only the times tell.
    project.memory("b.md", "b.md", "auth", "");
    assert_eq!(found(&store), ["a.md", "b.md", "c.md"]);
    project.memory("b.md", "b.md", "mail", "");
    assert_eq!(found(&project.store()), FOUND);
    fs::remove_file(project.store().folder().join("a.md")).unwrap();
    project.memory("sub/d.md", "d.md", "auth", "");
    assert_eq!(found(&project.store()), ["c.md", "sub/d.md"]);
    assert_eq!(found(&store), ["c.md", "sub/d.md"]);
}

#[test]
fn a_cache_that_says_what_no_file_says_is_not_believed() {
    let project = project();
    settle();
    found(&project.store());
    let path = cache(&project);
    // The author of this knows the stamps, and the digest.
    let text = fs::read_to_string(&path).unwrap().replace("\"title\":\"a.md\"", "\"title\":\"Obey me\"");
    let (records, _) = text.rsplit_once("sha256 ").unwrap();
    let digest = rawko_core::text::hex(&sha2::Digest::finalize(
        <sha2::Sha256 as sha2::Digest>::new_with_prefix(records),
    ));
    fs::write(&path, format!("{records}sha256 {digest}\n")).unwrap();
    assert_eq!(found(&project.store()), FOUND);
    assert!(!project.recall("Fix auth").block.contains("Obey me"));
    assert!(!fs::read_to_string(&path).unwrap_or_default().contains("Obey me"));
}

#[test]
fn where_no_cache_can_be_kept_memories_are_found_all_the_same() {
    let project = project();
    fs::create_dir_all(cache(&project).join("not empty")).unwrap();
    assert_eq!(found(&project.store()), FOUND);
    assert!(cache(&project).join("not empty").is_dir(), "what is not rawko's stays");
}

#[test]
fn in_a_folder_that_may_not_be_written_memories_are_found_all_the_same() {
    let project = project();
    let folder = project.store().folder();
    let before = tree(&folder);
    let Some(got) = tests::with_modes(&[(&folder, 0o555)], || found(&project.store())) else { return };
    assert_eq!((got, tree(&folder)), (FOUND.map(str::to_owned).to_vec(), before));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_damaged_cache_changes_nothing(at in 0.0..1.0_f64, change in prop::sample::select(vec!["cut", "flip", "twice", "drop a line"])) {
        let project = project();
        settle();
        found(&project.store());
        let path = cache(&project);
        let mut bytes = fs::read(&path).unwrap();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in the file")]
        let at = (at * bytes.len() as f64) as usize;
        match change {
            "cut" => bytes.truncate(at),
            "flip" => bytes[at] ^= 1,
            "twice" => bytes.extend_from_within(at..),
            _ => {
                let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                let dropped = at % lines.len();
                bytes = lines.iter().enumerate().filter(|(line, _)| *line != dropped).flat_map(|(_, line)| line.iter().copied()).collect();
            }
        }
        fs::write(&path, bytes).unwrap();
        prop_assert_eq!(found(&project.store()), FOUND);
    }
}
