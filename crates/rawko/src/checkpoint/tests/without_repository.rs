//! A project that is no git repository, and a machine without git.

use super::bench::Bench;
use crate::checkpoint::{ChangeKind, CheckpointError, Checkpoints, DiffDetail, DiffRange, Execute, Extent};

#[test]
fn a_folder_is_kept_compared_and_restored() {
    let bench = Bench::plain();
    bench
        .write(".gitignore", "*.log\n!keep.log\n")
        .write("a.log", "ignored")
        .write("keep.log", "k")
        .write("file", "1\n");
    bench
        .write("sub/.gitignore", "/x\n")
        .write("sub/x", "ignored")
        .write("sub/deep/x", "kept")
        .link("link", "file");
    bench.write("run", "#!").executable("run", 0o755).write("old", "o");
    let id = bench.take(1);
    assert_eq!(
        bench.kept(&id),
        [".gitignore", "file", "keep.log", "link", "old", "run", "sub/.gitignore", "sub/deep/x"]
    );
    let before = bench.tree();
    bench
        .write("file", "2\n")
        .remove("old")
        .executable("run", 0o644)
        .write("new/er", "n")
        .remove("link")
        .link("link", "new");
    bench.end();
    let after = bench.tree();
    let changes = bench.changes(DiffRange::Session);
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
    let patch = String::from_utf8(changes.patch).unwrap();
    assert!(patch.contains("\n-1\n+2\n"), "{patch}");
    bench.rewind("1");
    assert_eq!(bench.tree(), before);
    bench.rewind("rewind-1");
    assert_eq!(bench.tree(), after);
    assert!(!bench.top().join(".git").exists());
    bench.checkpoints.forget().unwrap();
}

#[test]
fn a_fifo_for_an_ignore_file_is_refused_in_time_or_ignored() {
    let bench = Bench::plain();
    bench.write("deep/file", "1");
    // As git asks it: a list of the user's that is no regular file is not read.
    let ignore = bench.home().join(".config/git");
    std::fs::create_dir_all(&ignore).unwrap();
    let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600));
    rustix::fs::mknodat(rustix::fs::CWD, ignore.join("ignore"), fifo, mode, 0).unwrap();
    assert_eq!(bench.kept(&bench.take(1)), ["deep/file"]);
}

#[test]
fn too_much_is_refused() {
    let bench = Bench::plain();
    for number in 0..=20_000 {
        std::fs::write(bench.path(number.to_string()), "").unwrap();
    }
    let error = bench.checkpoints.take(1).unwrap_err();
    assert!(matches!(error, CheckpointError::TooMuch { files: 20_001, .. }), "{error}");
}

#[test]
fn nothing_is_kept_without_git() {
    let bench = Bench::plain();
    bench.write("file", "1");
    let without = bench.checkpoints.clone().with_search_path("/nowhere");
    let errors = [
        without.take(1).map(drop),
        without.list().map(drop),
        without.tree().map(drop),
        without.inspect(1).map(drop),
        without.changes(DiffRange::Session, DiffDetail::Files).map(drop),
        without.rewind("1", Execute::DryRun, Extent::Session).map(drop),
    ];
    for error in errors {
        let error = error.unwrap_err();
        assert!(matches!(error, CheckpointError::NoGit), "{error}");
        assert!(error.to_string().contains("git is not installed"), "{error}");
    }
    assert_eq!(without.take_end().unwrap(), None);
    without.forget().unwrap();
    assert!(Checkpoints::is_available(&bench.project()));
}
