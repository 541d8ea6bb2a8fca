//! What a checkpoint costs in a repository of 5,000 files.
//!
//! `cargo bench -p rawko --bench checkpoints`. Cold is the first of a session: every file is read once. Warm is any
//! later one: files are looked at, and only those that changed are read.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::time::{Duration, Instant};

use rawko::checkpoint::{Checkpoints, DiffDetail, DiffRange, Execute, Extent};

const FILES: u32 = 5_000;

fn main() {
    for repository in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        fill(&project);
        if repository {
            git(&project, &["init", "--quiet"]);
            git(&project, &["add", "."]);
            git(&project, &["commit", "--quiet", "--message", "all of it"]);
            git(&project, &["gc", "--quiet"]);
        }
        println!("{FILES} files, {}", if repository { "a repository" } else { "no repository" });
        let session = project.join(".rawko/sessions/bench");
        std::fs::create_dir_all(&session).unwrap();
        std::fs::write(project.join(".rawko/sessions/.gitignore"), "*\n").unwrap();
        std::fs::write(session.join("journal.jsonl"), "").unwrap();
        let checkpoints = Checkpoints::new(&project, &session, "bench");
        say("  first checkpoint", 1, || drop(checkpoints.take(1).unwrap()));
        say("  the next, nothing changed", 10, || drop(checkpoints.take(2).unwrap()));
        let mut number = 2;
        let mut change = || {
            number += 1;
            for file in 0..10 {
                std::fs::write(path(&project, file), format!("changed {number}\n")).unwrap();
            }
            checkpoints.take(number).unwrap();
        };
        say("  the next, 10 files changed", 10, &mut change);
        for _ in 0..100 {
            change();
        }
        say("  the same after 100 more", 10, &mut change);
        say("  diff with the folder", 5, || {
            drop(checkpoints.changes(DiffRange::Session, DiffDetail::Lines).unwrap());
        });
        say("  name the tree", 5, || drop(checkpoints.tree().unwrap()));
        say("  figures of an execution", 5, || drop(checkpoints.inspect(number).unwrap()));
        checkpoints.take_end().unwrap();
        say("  diff of the session", 5, || {
            drop(checkpoints.changes(DiffRange::Session, DiffDetail::Lines).unwrap());
        });
        say("  rewind", 1, || drop(checkpoints.rewind("1", Execute::Really, Extent::Session).unwrap()));
    }
}

fn path(project: &Path, file: u32) -> std::path::PathBuf {
    project.join(format!("d{}/e{}/f{file}.rs", file % 50, file % 500))
}

fn fill(project: &Path) {
    for file in 0..FILES {
        let path = path(project, file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("// file {file}\n").repeat(300)).unwrap();
    }
}

fn git(project: &Path, args: &[&str]) {
    testkit::git(project, &[&["-c", "gc.auto=0"], args].concat());
}

fn say(what: &str, times: u32, mut act: impl FnMut()) {
    let mut best = Duration::MAX;
    for _ in 0..times {
        let begun = Instant::now();
        act();
        best = best.min(begun.elapsed());
    }
    println!("{what:<34} {best:>10.1?}");
}
