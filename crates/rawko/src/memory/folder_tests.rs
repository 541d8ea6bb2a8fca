//! Listing folders that are too large.

use std::fs;
use std::process::Command;

use super::folder::{MAX_FILES, MAX_FOLDERS, list};
use super::tests::{Project, holds};
use super::*;

/// In the environment of the process that has few files open: the project that it lists.
const PROJECT: &str = "RAWKO_TEST_PROJECT_OF_MANY_FOLDERS";

#[test]
fn many_folders_need_few_open_files() {
    if let Some(project) = std::env::var_os(PROJECT) {
        let inventory = MemoryStore::of_project(project.as_ref()).inventory();
        holds(&inventory.reports, &[&format!(" more than {MAX_FOLDERS} folders")]);
        // The folder itself is one of them.
        assert_eq!(inventory.memories.len(), MAX_FOLDERS - 1);
        return;
    }
    let project = Project::new();
    let template = project.memory("0000/a.md", "A", "auth", "");
    for number in 1..MAX_FOLDERS + 5 {
        let folder = project.store().folder().join(format!("{number:04}"));
        fs::create_dir(&folder).unwrap();
        fs::copy(&template, folder.join("a.md")).unwrap();
    }
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -n 40 && exec \"$0\" --exact memory::folder_tests::many_folders_need_few_open_files",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(PROJECT, project.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn more_memories_than_the_bound_are_not_looked_at() {
    use std::os::fd::AsFd as _;
    let dir = tempfile::tempdir().unwrap();
    for number in 0..=MAX_FILES {
        fs::write(dir.path().join(format!("{number}.md")), "").unwrap();
    }
    let listing = list(fs::File::open(dir.path()).unwrap().as_fd());
    assert_eq!(listing.folders[0].names.len(), MAX_FILES);
    holds(&listing.reports, &[&format!(" more than {MAX_FILES} memories")]);
}
