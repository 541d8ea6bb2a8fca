//! Swaps files, directories and links while the tools work: nothing from outside is ever shown or changed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use common::Bench;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

/// Swaps two names repeatedly until dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    fn start(one: PathBuf, other: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A project beside a secret, with a link in the project that leads to it.
fn set_up(base: &Path) -> PathBuf {
    fs::create_dir_all(base.join("outside")).unwrap();
    fs::write(base.join("outside/f.txt"), "OUTSIDE\n").unwrap();
    fs::create_dir_all(base.join("project/dir")).unwrap();
    fs::write(base.join("project/dir/f.txt"), "INSIDE\n").unwrap();
    symlink("../outside", base.join("project/link")).unwrap();
    base.join("project")
}

#[tokio::test]
async fn a_file_swapped_with_a_link_never_leaks() {
    let base = tempfile::tempdir().unwrap();
    let project = set_up(base.path());
    fs::write(project.join("f.txt"), "INSIDE\n").unwrap();
    symlink("../outside/f.txt", project.join("g.txt")).unwrap();
    let bench = Bench::new(&project);
    let _swapper = Swapper::start(project.join("f.txt"), project.join("g.txt"));
    let mut shown = 0;
    for _ in 0..2_000 {
        let outcome = bench.call("Read", json!({"file_path": "f.txt"})).await;
        assert!(!outcome.content.contains("OUTSIDE"), "{}", outcome.content);
        shown += u32::from(!outcome.is_error);
    }
    assert!(shown > 0, "the file was never there");
}

#[tokio::test]
async fn a_directory_swapped_with_a_link_never_leaks() {
    let base = tempfile::tempdir().unwrap();
    let project = set_up(base.path());
    fs::write(base.path().join("outside/only-there.txt"), "OUTSIDE\n").unwrap();
    let bench = Bench::new(&project);
    let _swapper = Swapper::start(project.join("dir"), project.join("link"));
    for _ in 0..500 {
        for (tool, input) in [
            ("Read", json!({"file_path": "dir/f.txt"})),
            ("Grep", json!({"pattern": "SIDE", "output_mode": "content"})),
            ("Glob", json!({"pattern": "**/*"})),
            ("Glob", json!({"pattern": "dir/*"})),
        ] {
            let outcome = bench.call(tool, input).await;
            let leaks = outcome.content.contains("OUTSIDE") || outcome.content.contains("only-there");
            assert!(!leaks, "{tool}: {}", outcome.content);
        }
    }
}

#[tokio::test]
async fn a_directory_swapped_with_a_link_is_never_written_through() {
    let base = tempfile::tempdir().unwrap();
    let project = set_up(base.path());
    let bench = Bench::new(&project);
    let swapper = Swapper::start(project.join("dir"), project.join("link"));
    let mut written = 0;
    for round in 0..300 {
        let input = json!({"file_path": format!("dir/new/{round}.txt"), "content": "x"});
        written += u32::from(!bench.call("Write", input).await.is_error);
    }
    drop(swapper);
    let outside: Vec<_> =
        fs::read_dir(base.path().join("outside")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(outside, ["f.txt"]);
    assert!(written > 0, "nothing was ever written");
}
