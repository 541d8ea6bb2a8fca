//! A session that was made from another's records.

use std::collections::BTreeMap;

use super::bench::{Bench, SESSION};
use crate::checkpoint::{Execute, Extent};

/// The fork can go back after the session that it comes from is removed.
#[track_caller]
fn check(bench: Bench) {
    bench.write("dir/file", "1");
    let id = bench.take(1);
    bench.write("dir/file", "2").take(2);
    bench.end();
    let source = bench.checkpoints.clone();
    let mut bench = bench.session("a-fork");
    bench.checkpoints.recorded = BTreeMap::from([(1, id)]);
    source.share_with(&bench.checkpoints).unwrap();
    source.forget().unwrap();
    std::fs::remove_dir_all(bench.path(format!(".rawko/sessions/{SESSION}"))).unwrap();
    if bench.top().join(".git").exists() {
        bench.git(&["gc", "--quiet", "--prune=now"]);
    }
    bench.write("new", "").end();
    let done = bench.checkpoints.rewind("1", Execute::Really, Extent::Session).unwrap();
    assert_eq!((done.restored, done.removed), (vec!["dir/file".to_owned()], vec!["new".to_owned()]));
    assert_eq!(bench.read("dir/file"), "1");
}

#[test]
fn what_others_changed_between_shared_executions_is_still_theirs() {
    for bench in [Bench::repository(), Bench::plain()] {
        let first = bench.take(1);
        bench.write("by it", "1");
        bench.checkpoints.take_after(1).unwrap();
        bench.write("theirs", "1");
        let second = bench.take(2);
        let until = crate::clock::now().0;
        bench.write("by it, too", "2");
        // Not within the shared records.
        while crate::clock::now().0 <= until {}
        bench.checkpoints.take_after(2).unwrap();
        bench.end();
        let source = bench.checkpoints.clone();
        let mut bench = bench.session("a-fork");
        bench.checkpoints.recorded = BTreeMap::from([(1, first), (2, second)]);
        bench.checkpoints.last_sign = Some(until);
        source.share_with(&bench.checkpoints).unwrap();
        let names: Vec<String> =
            bench.checkpoints.list().unwrap().into_iter().map(|kept| kept.name).collect();
        assert_eq!(names, ["1", "after-1", "2"]);
        bench.checkpoints.take_after(2).unwrap();
        bench.end();
        let done = bench.rewind("1");
        assert_eq!(done.removed, ["by it", "by it, too"]);
        assert_eq!(done.by_others, ["theirs"]);
    }
}

#[test]
fn in_a_repository() {
    check(Bench::repository());
}

#[test]
fn in_a_folder() {
    check(Bench::plain());
}
