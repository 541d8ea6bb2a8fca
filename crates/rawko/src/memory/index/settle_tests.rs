//! When the index comes to rest, and that it stays there: neither written nor looked at again without a reason.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::tests::{agree, filled, settle};
use super::*;
use crate::memory::store::MemoryStore;
use crate::memory::tests::{Project, with_modes};

fn file(project: &Project) -> PathBuf {
    project.store().folder().join(FOLDER).join(NAME)
}

/// Which file it is: one that is written anew is another.
fn identity(project: &Project) -> (u64, SystemTime) {
    let data = fs::metadata(file(project)).unwrap();
    (data.ino(), data.modified().unwrap())
}

/// It comes to rest with `prepare`d files and stays there in process after process.
#[track_caller]
fn comes_to_rest(project: &Project) {
    settle(project);
    let before = identity(project);
    for _ in 0..3 {
        project.recall("Fix auth");
        let _ = project.store().inventory();
    }
    assert_eq!(identity(project), before);
}

#[test]
fn no_odd_file_keeps_it_from_rest() {
    let check = |prepare: &dyn Fn(&Project, &Path)| {
        let project = filled();
        prepare(&project, &project.store().folder().join("odd.md"));
        comes_to_rest(&project);
        agree(&project);
    };
    check(&|project, _| {
        let path = project.memory("odd.md", "From tomorrow", "auth", "");
        let tomorrow = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
        fs::File::options().write(true).open(path).unwrap().set_modified(tomorrow).unwrap();
    });
    check(&|_, path| {
        let large = fs::File::create(path).unwrap();
        large.set_len(50 * 1024 * 1024).unwrap();
    });
    check(&|_, path| fs::write(path, b"---\ntitle: \xff\nwhenToUse: x\n---\n").unwrap());
    check(&|_, path| fs::write(path, "").unwrap());
    check(&|_, path| fs::create_dir(path).unwrap());
    check(&|_, path| std::os::unix::fs::symlink("/", path).unwrap());
}

#[test]
fn nothing_that_cannot_be_read_keeps_it_from_rest_and_it_is_seen_when_it_can() {
    // A file, a folder, and one in which nothing can be opened.
    for (name, mode) in [("a.md", 0o000), ("sub", 0o000), ("sub", 0o444)] {
        let project = filled();
        let path = project.store().folder().join(name);
        let told = project.recall("Fix auth").total;
        let tried = with_modes(&[(&path, mode)], || {
            comes_to_rest(&project);
            project.recall("Fix auth").total
        });
        let Some(fewer) = tried else { return };
        assert!(fewer < told, "{name}");
        agree(&project);
        assert_eq!(project.recall("Fix auth").total, told, "{name}");
    }
}

#[test]
fn what_becomes_readable_without_a_new_stamp_is_seen() {
    let project = filled();
    let path = project.store().folder().join("a.md");
    let tried = with_modes(&[(&path, 0o000)], || {
        comes_to_rest(&project);
        project.recall("Fix auth").total
    });
    let Some(fewer) = tried else { return };
    // As for another user, whom the same mode does not hold back: root, here.
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    if fs::read(&path).is_ok() {
        assert_eq!(project.recall("Fix auth").total, fewer + 1);
    }
}

fn parts(project: &Project) -> (OwnedFd, PathBuf) {
    (project.store().open().unwrap().unwrap(), project.store().folder())
}

#[test]
fn where_stamps_alone_are_others_everything_else_is_copied() {
    // A new stamp of the folder, and one of a file.
    for touched in [".hidden", "b.md"] {
        let project = filled();
        settle(&project);
        let text = fs::read_to_string(project.store().folder().join("b.md")).unwrap();
        let mut damaged = fs::read(file(&project)).unwrap();
        // In the front matter of `a.md`, which nobody reads here: written anew, it would be sound again.
        damaged[layout::HEADER_LEN + 3] ^= 1;
        fs::write(file(&project), &damaged).unwrap();
        fs::write(project.store().folder().join(touched), text).unwrap();
        let before = identity(&project);
        let (root, path) = parts(&project);
        let begun = Instant::now();
        while identity(&project) == before {
            drop(current_while(&root, Some(&path), &mut None, |_| ()).unwrap());
            assert!(begun.elapsed() < Duration::from_secs(60), "{touched}: it never settles");
        }
        let copied = fs::read(file(&project)).unwrap();
        let records = layout::HEADER_LEN..layout::HEADER_LEN + 200;
        assert_eq!(copied[records.clone()], damaged[records], "{touched}");
        assert_ne!(copied, damaged, "{touched}");
        let index = read::Index::open(fs::File::open(file(&project)).unwrap()).unwrap();
        assert!(index.folders.iter().all(|row| !row.racy), "{touched}");
        agree(&project);
        settle(&project);
    }
}

/// A project of which one file can be changed without the operating system telling of it: by another name, elsewhere.
fn with_a_way_around(count: usize) -> (Project, PathBuf) {
    let project = Project::new();
    for number in 0..count {
        project.memory(&format!("{}/{number}.md", number % 3), &format!("Title {number}"), "auth", "");
    }
    let hidden = project.memory("0/way.md", "Way", "mail", "");
    let around = project.path().join("around.md");
    fs::hard_link(hidden, &around).unwrap();
    settle(&project);
    (project, around)
}

fn total_told(store: &MemoryStore, task: &str) -> (usize, usize) {
    let query = rawko_core::memory::Query::new(task, "developer", None, None);
    let options = crate::memory::RecallOptions { now: crate::memory::tests::NOW, ..Default::default() };
    let recipient = super::tests::recipient(500, rawko_core::agent::Importance::Low);
    let recall = store.recall(&query, &recipient, &options);
    (recall.total, recall.selection.chosen.len())
}

/// Whether this store believes that nothing changed: what was changed by the way around it does not see.
#[track_caller]
fn does_not_look(store: &MemoryStore, around: &Path, expected: (usize, usize)) {
    assert_eq!(total_told(store, "Sending mail"), expected);
    let before = fs::read_to_string(around).unwrap();
    fs::write(around, before.replace("whenToUse: mail", "whenToUse: nought")).unwrap();
    assert_eq!(total_told(store, "Sending mail"), expected, "it looked at the files");
    // Another one, that has just begun, sees it.
    let fewer = (expected.0, expected.1 - 1);
    let other = || MemoryStore::of_project(around.parent().unwrap());
    assert_eq!(total_told(&other(), "Sending mail"), fewer);
    fs::write(around, before).unwrap();
    assert_eq!(total_told(&other(), "Sending mail"), expected);
}

#[cfg(target_os = "linux")]
#[test]
fn where_nothing_happens_files_are_not_looked_at() {
    let (project, around) = with_a_way_around(10);
    let store = project.store();
    does_not_look(&store, &around, (11, 1));
    // What rawko itself writes there is no memory.
    fs::write(project.store().folder().join(".feedback.jsonl"), "").unwrap();
    does_not_look(&store, &around, (11, 1));
    project.memory("1/new.md", "New", "mail", "");
    assert_eq!(total_told(&store, "Sending mail"), (12, 2));
}

#[cfg(target_os = "linux")]
#[test]
fn after_a_change_files_are_not_looked_at_either() {
    // Written anew, and kept beside the index.
    for count in [20, 400] {
        let (project, around) = with_a_way_around(count);
        let store = project.store();
        let all = count + 1;
        assert_eq!(total_told(&store, "Sending mail"), (all, 1));
        project.memory("1/new.md", "New", "mail", "");
        does_not_look(&store, &around, (all + 1, 2));
        // In a folder that was not there.
        project.memory("4/deep/new.md", "Newer", "mail", "");
        does_not_look(&store, &around, (all + 2, 3));
        fs::remove_file(project.store().folder().join("1/new.md")).unwrap();
        does_not_look(&store, &around, (all + 1, 2));
        project.memory("4/deep/newest.md", "Newest", "mail", "");
        fs::remove_file(project.store().folder().join("0/0.md")).unwrap();
        does_not_look(&store, &around, (all + 1, 3));
        fs::remove_dir_all(project.store().folder().join("4")).unwrap();
        does_not_look(&store, &around, (all - 1, 1));
        agree(&project);
    }
}

#[test]
fn a_file_that_was_edited_is_one_change() {
    let project = Project::new();
    for number in 0..400 {
        project.memory(&format!("{number}.md"), "T", "auth", "");
    }
    settle(&project);
    let before = identity(&project);
    for (until, is_same) in [(60, true), (70, false)] {
        for number in 0..until {
            project.memory(&format!("{number}.md"), &format!("T {until}"), "mail", "");
        }
        assert_eq!(total_told(&project.store(), "Sending mail"), (400, until));
        assert_eq!(identity(&project) == before, is_same, "{until}");
    }
}
