//! What a session or an execution changed.

use super::bench::Bench;
use crate::checkpoint::{ChangeKind, CheckpointError, DiffDetail, DiffRange, Until};

fn diff(bench: &Bench, span: DiffRange) -> (Vec<(String, ChangeKind)>, String) {
    let changes = bench.changes(span);
    let files = changes.files.into_iter().map(|file| (file.path, file.kind)).collect();
    (files, String::from_utf8(changes.patch).unwrap())
}

#[test]
fn a_session_and_each_execution() {
    let bench = Bench::repository();
    bench.write("before", "the user's\n").take(1);
    bench.write("tracked", "two\n").take(3);
    bench.write("new", "n\n").end();
    bench.write("after", "the user's\n");
    let modified = ("tracked".to_owned(), ChangeKind::Modified);
    let added = ("new".to_owned(), ChangeKind::Added);
    let (files, patch) = diff(&bench, DiffRange::Session);
    assert_eq!(files, [added.clone(), modified.clone()]);
    assert!(patch.contains("-one\n+two\n") && patch.contains("+n\n"), "{patch}");
    assert_eq!(diff(&bench, DiffRange::Execution(1)).0, [modified]);
    assert_eq!(diff(&bench, DiffRange::Execution(3)).0, [added]);
    let error = bench.checkpoints.changes(DiffRange::Execution(2), DiffDetail::Files).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("session {} has no checkpoint `2`: there are 1, 3", super::bench::SESSION)
    );
}

#[test]
fn a_session_without_an_end_is_compared_with_the_folder_and_leaves_nothing() {
    let bench = Bench::repository();
    bench.take(1);
    bench.write("new", "n\n").remove("tracked").write("bin", b"\0\x01\xff");
    let count = |bench: &Bench| bench.git(&["count-objects"]);
    let before = count(&bench);
    let changes = bench.changes(DiffRange::Session);
    assert_eq!(changes.to, Until::Now);
    let files: Vec<_> = changes.files.iter().map(|f| (f.path.as_str(), f.kind, f.added, f.removed)).collect();
    assert_eq!(
        files,
        [
            ("bin", ChangeKind::Added, None, None),
            ("new", ChangeKind::Added, Some(1), Some(0)),
            ("tracked", ChangeKind::Deleted, Some(0), Some(1)),
        ]
    );
    assert_eq!(count(&bench), before);
    // A session that goes on has no end any more.
    bench.end();
    assert!(matches!(bench.changes(DiffRange::Session).to, Until::Kept(_)));
    bench.take(2);
    assert_eq!(bench.changes(DiffRange::Session).to, Until::Now);
}

#[test]
fn the_patch_can_be_applied() {
    let bench = Bench::repository();
    bench.write("crlf", "a\r\nb\r\n").write("old name", "some lines\nthat stay\nas they are\n");
    bench.write("picture", b"\0one").write("old picture", b"\0old").take(1);
    bench.write("crlf", "a\r\nc\r\n").remove("old name");
    bench.write("picture", b"\0two").write("new picture", b"\0\xff").remove("old picture");
    bench
        .write("new name", "some lines\nthat stay\nas they are\n")
        .write("run", "#!\n")
        .executable("run", 0o755);
    bench.end();
    let after = bench.tree();
    let changes = bench.checkpoints.changes(DiffRange::Session, DiffDetail::Bytes).unwrap();
    let renamed = changes.files.iter().find(|file| file.kind == ChangeKind::Renamed).unwrap();
    assert_eq!((renamed.from.as_deref(), renamed.path.as_str()), (Some("old name"), "new name"));
    bench.rewind("1");
    assert_ne!(bench.tree(), after);
    let patch = bench.outside().join("patch");
    std::fs::write(&patch, &changes.patch).unwrap();
    bench.git(&["apply", patch.to_str().unwrap()]);
    assert_eq!(bench.tree(), after);
}

#[test]
fn nothing_was_kept() {
    let bench = Bench::repository();
    assert_eq!(bench.end(), None);
    let error = bench.checkpoints.changes(DiffRange::Session, DiffDetail::Files).unwrap_err();
    assert!(matches!(&error, CheckpointError::Unknown { kept, .. } if kept.is_empty()), "{error}");
    assert!(error.to_string().ends_with("it changed nothing, or nothing could be kept"), "{error}");
}
