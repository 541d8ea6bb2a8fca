//! A session that was made from another's records.

use std::collections::BTreeMap;

use super::bench::{Bench, SESSION};
use crate::checkpoint::Execute;

/// The fork can go back after the session that it comes from is removed.
#[track_caller]
fn check(mut bench: Bench, search_path: Option<&str>) {
    if let Some(path) = search_path {
        bench.checkpoints = bench.checkpoints.clone().with_search_path(path);
    }
    bench.write("dir/file", "1");
    let id = bench.take(1);
    bench.write("dir/file", "2").take(2);
    bench.end();
    let source = bench.checkpoints.clone();
    let mut bench = bench.session("a-fork");
    bench.checkpoints.recorded = BTreeMap::from([(1, id)]);
    bench.checkpoints.path = source.path.clone();
    source.share_with(&bench.checkpoints).unwrap();
    source.forget().unwrap();
    std::fs::remove_dir_all(bench.path(format!(".rawko/sessions/{SESSION}"))).unwrap();
    if bench.top().join(".git").exists() {
        bench.git(&["gc", "--quiet", "--prune=now"]);
    }
    bench.write("new", "").end();
    let done = bench.checkpoints.rewind("1", Execute::Really).unwrap();
    assert_eq!((done.restored, done.removed), (vec!["dir/file".to_owned()], vec!["new".to_owned()]));
    assert_eq!(bench.read("dir/file"), "1");
}

#[test]
fn in_a_repository() {
    check(Bench::repository(), None);
}

#[test]
fn with_git_alone() {
    check(Bench::plain(), None);
}

#[test]
fn without_git() {
    check(Bench::plain(), Some("/nowhere"));
}
