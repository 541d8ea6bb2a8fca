//! A machine without git.

use super::bench::Bench;
use crate::checkpoint::{ChangeKind, CheckpointError, Checkpoints, Execute, Span};

fn bench() -> Bench {
    let mut bench = Bench::plain();
    bench.checkpoints = bench.checkpoints.clone().with_search_path("/nowhere");
    bench
}

#[test]
fn copies_are_kept_and_brought_back() {
    let bench = bench();
    bench
        .write(".gitignore", "*.log\n!keep.log\n")
        .write("a.log", "ignored")
        .write("keep.log", "k")
        .write("file", "1");
    bench
        .write("sub/.gitignore", "/x\n")
        .write("sub/x", "ignored")
        .write("sub/deep/x", "kept")
        .link("link", "file");
    bench.write("run", "#!").executable("run", 0o755).write("old", "o");
    let id = bench.take(1);
    assert!(id.starts_with("copy-"), "{id}");
    assert_eq!(
        bench.kept(&id),
        [".gitignore", "file", "keep.log", "link", "old", "run", "sub/.gitignore", "sub/deep/x"]
    );
    let before = bench.tree();
    bench
        .write("file", "2")
        .remove("old")
        .executable("run", 0o644)
        .write("new/er", "n")
        .remove("link")
        .link("link", "new");
    bench.end();
    let after = bench.tree();
    let changes = bench.changes(Span::Session);
    let files: Vec<_> = changes.files.iter().map(|file| (file.path.as_str(), file.kind)).collect();
    assert_eq!(
        files,
        [
            ("file", ChangeKind::Modified),
            ("link", ChangeKind::Modified),
            ("new/er", ChangeKind::Added),
            ("old", ChangeKind::Deleted),
            ("run", ChangeKind::Modified),
        ]
    );
    bench.rewind("1");
    assert_eq!(bench.tree(), before);
    bench.rewind("rewind-1");
    assert_eq!(bench.tree(), after);
    bench.checkpoints.forget().unwrap();
}

#[test]
fn what_was_copied_can_be_brought_back_with_git_too() {
    let bench = bench();
    bench.write("file", "1").take(1);
    bench.write("file", "2").end();
    let with_git = Checkpoints { path: std::env::var_os("PATH"), ..bench.checkpoints.clone() };
    bench.init();
    with_git.rewind("1", Execute::Really).unwrap();
    assert_eq!(bench.read("file"), "1");
    with_git.rewind("rewind-1", Execute::Really).unwrap();
    assert_eq!(bench.read("file"), "2");
    // The other way round needs the git that kept it.
    let error = bench.checkpoints.rewind("rewind-1", Execute::Really);
    assert!(matches!(error, Err(CheckpointError::Unknown { .. })), "{error:?}");
}

#[test]
fn a_content_that_is_not_what_its_name_says_is_not_brought_back() {
    let bench = bench();
    bench.write("file", "1").take(1);
    bench.write("file", "2");
    let copies = bench.path(format!(".rawko/sessions/{}/checkpoints/copies", super::bench::SESSION));
    for entry in std::fs::read_dir(copies).unwrap() {
        let path = entry.unwrap().path();
        if std::fs::read(&path).unwrap() == b"1" {
            std::fs::write(&path, "forged").unwrap();
        }
    }
    let error = bench.checkpoints.rewind("1", Execute::Really).unwrap_err();
    assert!(matches!(error, CheckpointError::Gone { .. }), "{error}");
    assert_eq!(bench.read("file"), "2");
}

#[test]
fn a_fifo_for_an_ignore_file_makes_nobody_wait() {
    let bench = bench();
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, bench.path(".gitignore"), fifo, mode, 0).unwrap();
    bench.write("file", "1");
    assert_eq!(bench.kept(&bench.take(1)), ["file"]);
}

#[test]
fn too_much_is_refused() {
    let bench = bench();
    for number in 0..=20_000 {
        std::fs::write(bench.path(number.to_string()), "").unwrap();
    }
    let error = bench.checkpoints.take(1).unwrap_err();
    assert!(matches!(error, CheckpointError::TooMuch { files: 20_001, .. }), "{error}");
}
