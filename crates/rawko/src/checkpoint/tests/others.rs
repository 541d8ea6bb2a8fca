//! The session must not take back what someone else changed.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;

use super::bench::Bench;
use crate::checkpoint::listing::TreePath;
use crate::checkpoint::store::TreeToKeep;
use crate::checkpoint::{ChangedBy, DiffRange, Execute, Extent, More, OthersChange, Rewound};
use crate::clock::now;

/// Two executions and someone who works beside them, then a rewind to the first.
#[track_caller]
fn check(bench: &Bench) {
    for name in ["a", "b", "c", "both", "first theirs", "put back"] {
        bench.write(name, "0");
    }
    bench.take(1);
    bench.write("a", "1").write("both", "1").write("put back", "1").write("made", "by it");
    bench.checkpoints.take_after(1).unwrap();
    bench.write("b", "theirs").write("both", "theirs").write("first theirs", "theirs").write("put back", "0");
    bench.write("notes", "theirs");
    bench.take(2);
    bench.write("c", "2").write("first theirs", "2").write("put back", "2");
    bench.checkpoints.take_after(2).unwrap();
    bench.end();
    let seen = |by, shown, paths: &[&str]| -> Vec<(String, ChangedBy, bool)> {
        paths.iter().map(|path| ((*path).to_owned(), by, shown)).collect()
    };
    let changes = bench.changes(DiffRange::Session);
    let files: Vec<String> = changes.files.iter().map(|file| file.path.clone()).collect();
    assert_eq!(files, ["a", "both", "c", "first theirs", "made", "put back"]);
    let others: Vec<_> = changes.others.into_iter().map(|it| (it.path, it.by, it.shown)).collect();
    let (alone, both) = (ChangedBy::Others, ChangedBy::Both);
    let expected = [
        seen(alone, false, &["b"]),
        seen(both, true, &["both", "first theirs"]),
        seen(alone, false, &["notes"]),
    ];
    assert_eq!(others, expected.concat());
    bench.write("made later", "theirs");
    let after = bench.tree();
    let done = bench.rewind("1");
    assert_eq!((done.restored, done.removed), (vec_of(&["a", "c", "put back"]), vec_of(&["made"])));
    assert_eq!(left(&done.left_alone), ["both", "first theirs"]);
    assert!(done.left_alone.iter().all(|left| left.why.contains("somebody else")), "{:?}", done.left_alone);
    assert_eq!(done.by_others, ["b", "made later", "notes"]);
    assert_eq!(done.more, More { restored: 3, removed: 2 });
    for (name, text) in [("b", "theirs"), ("both", "theirs"), ("first theirs", "2"), ("notes", "theirs")] {
        assert_eq!(bench.read(name), text, "{name}");
    }
    // A second rewind finds nothing more to do, and undoing it restores what was there.
    let again = bench.rewind("1");
    assert_eq!((again.restored.len(), again.removed.len(), again.by_others.len()), (0, 0, 3), "{again:?}");
    bench.rewind("rewind-1");
    assert_eq!(bench.tree(), after);
    // All of it.
    let done = bench.checkpoints.rewind("1", Execute::Really, Extent::Everything).unwrap();
    assert_eq!((done.left_alone, done.by_others), (vec![], vec![]));
    assert_eq!(bench.read("both"), "0");
    assert!(!bench.path("notes").exists() && !bench.path("made later").exists());
    bench.rewind(&done.before.unwrap().name);
    assert_eq!(bench.tree(), after);
}

fn vec_of(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn left(left: &[crate::checkpoint::LeftAlone]) -> Vec<&str> {
    left.iter().map(|left| left.path.as_str()).collect()
}

#[test]
fn in_a_repository() {
    check(&Bench::repository());
}

#[test]
fn in_a_folder() {
    check(&Bench::plain());
}

#[test]
fn the_end_of_a_session_counts_where_its_last_execution_was_not_seen_to_end() {
    let bench = Bench::repository();
    bench.take(1);
    bench.write("by it", "").end();
    bench.write("theirs", "");
    // The session goes on.
    bench.take(2);
    bench.write("by it, too", "").end();
    let done = bench.rewind("1");
    assert_eq!((done.removed, done.by_others), (vec_of(&["by it", "by it, too"]), vec_of(&["theirs"])));
}

#[test]
fn what_verification_changed_is_the_sessions_if_no_one_else_changed_it() {
    let bench = Bench::repository();
    bench.write("lock", "0").take(1);
    bench.write("a", "1");
    bench.checkpoints.take_after(1).unwrap();
    let was = bench.checkpoints.tree().unwrap();
    bench.write("lock", "1");
    bench.checkpoints.take_after_again(&was).unwrap();
    bench.write("theirs", "");
    let was = bench.checkpoints.tree().unwrap();
    bench.write("lock", "2");
    bench.checkpoints.take_after_again(&was).unwrap();
    bench.end();
    let done = bench.rewind("1");
    assert_eq!((done.removed, done.by_others), (vec_of(&["a"]), vec_of(&["theirs"])));
    assert_eq!(left(&done.left_alone), ["lock"]);
}

#[test]
fn an_end_that_was_seen_is_not_seen_again() {
    let bench = Bench::repository();
    bench.take(1);
    bench.write("by it", "");
    bench.checkpoints.take_after(1).unwrap();
    bench.write("theirs", "");
    // A resumed session asks once more.
    bench.checkpoints.take_after(1).unwrap();
    bench.end();
    assert_eq!(bench.rewind("1").by_others, ["theirs"]);
}

/// The clock of the file system goes on.
fn wait_for_the_clock(bench: &Bench, ms: u64) {
    let probe = bench.outside().join("probe");
    loop {
        std::fs::write(&probe, "").unwrap();
        std::fs::set_permissions(&probe, std::fs::Permissions::from_mode(0o600)).unwrap();
        let found = probe.metadata().unwrap();
        if u64::try_from(found.ctime() * 1_000 + found.ctime_nsec() / 1_000_000).unwrap() > ms {
            return;
        }
    }
}

/// A session that changed something and was killed; then someone else changed something.
fn killed() -> Bench {
    let mut bench = Bench::repository();
    bench.write("gone", "g").write("dir/theirs", "0").write("stays", "0").take(1);
    bench.write("tracked", "by it\n").remove("gone").write("new", "by it");
    let last_sign = now().0;
    bench.checkpoints.last_sign = Some(last_sign);
    wait_for_the_clock(&bench, last_sign);
    bench.write("theirs/new", "theirs").remove("dir/theirs").write("stays", "theirs");
    bench
}

#[track_caller]
fn is_taken_back(bench: &Bench, done: &Rewound) {
    assert_eq!((bench.read("tracked").as_str(), bench.read("gone").as_str()), ("one\n", "g"), "{done:?}");
    assert!(!bench.path("new").exists());
    assert_eq!((bench.read("theirs/new").as_str(), bench.read("stays").as_str()), ("theirs", "theirs"));
    assert!(!bench.path("dir/theirs").exists());
}

#[test]
fn what_changed_after_the_last_sign_of_a_killed_session_stays() {
    let bench = killed();
    // The folder of what is gone has changed since: that it went before cannot be known.
    bench.write("gone", "g");
    let dry = bench.checkpoints.rewind("1", Execute::DryRun, Extent::Session).unwrap();
    assert_eq!((dry.restored, dry.removed), (vec_of(&["tracked"]), vec_of(&["new"])));
    assert_eq!(left(&dry.left_alone), ["dir/theirs", "stays", "theirs/new"]);
    assert!(dry.left_alone.iter().all(|left| left.why.contains("was killed")), "{:?}", dry.left_alone);
    let done = bench.rewind("1");
    is_taken_back(&bench, &done);
    assert_eq!((&done.left_alone, &done.by_others), (&dry.left_alone, &dry.by_others));
    // What it was is known from now on, although the files that were restored are new.
    bench.rewind("rewind-1");
    assert_eq!(bench.read("tracked"), "by it\n");
    let again = bench.rewind("1");
    is_taken_back(&bench, &again);
    assert_eq!(again.left_alone, dry.left_alone);
}

#[test]
fn what_changed_between_a_kill_and_its_resume_stays() {
    let bench = killed();
    bench.write("gone", "g");
    let store = bench.checkpoints.store().unwrap();
    bench.checkpoints.keep_what_it_left(&store, true).unwrap();
    bench.write("new", "once more by it").write("later", "by it");
    bench.checkpoints.take_after(1).unwrap();
    bench.end();
    let done = bench.rewind("1");
    is_taken_back(&bench, &done);
    assert_eq!(done.removed, ["later", "new"]);
    assert_eq!(left(&done.left_alone), ["dir/theirs", "stays", "theirs/new"]);
    let names: Vec<String> = bench.checkpoints.list().unwrap().into_iter().map(|kept| kept.name).collect();
    assert_eq!(names, ["1", "after-1", "stopped-1", "resumed-1", "end", "rewind-1"]);
    for span in [DiffRange::Session, DiffRange::Execution(1)] {
        let changes = bench.changes(span);
        let files: Vec<&str> = changes.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(files, ["later", "new", "tracked"]);
        let of = |path: &str| OthersChange { path: path.to_owned(), by: ChangedBy::Unclear, shown: false };
        assert_eq!(changes.others, [of("dir/theirs"), of("stays"), of("theirs/new")]);
    }
}

#[test]
fn a_session_that_goes_on_after_a_rewind_keeps_what_it_does_then() {
    let bench = killed();
    bench.write("gone", "g");
    bench.rewind("1");
    bench.write("theirs, too", "theirs");
    let store = bench.checkpoints.store().unwrap();
    bench.checkpoints.keep_what_it_left(&store, true).unwrap();
    bench.write("later", "by it");
    bench.checkpoints.take_after(1).unwrap();
    bench.end();
    let done = bench.rewind("1");
    assert_eq!((done.removed, done.by_others), (vec_of(&["later"]), vec_of(&["theirs, too"])));
    assert_eq!(left(&done.left_alone), ["dir/theirs", "stays", "theirs/new"]);
}

#[test]
fn what_changed_after_an_end_that_was_none_stays() {
    let bench = Bench::repository();
    bench.take(1);
    bench.write("by it", "1").end();
    bench.write("theirs", "");
    // A limit ended it in mid-execution; it is taken up.
    let store = bench.checkpoints.store().unwrap();
    bench.checkpoints.keep_what_it_left(&store, true).unwrap();
    bench.write("by it", "2");
    bench.checkpoints.take_after(1).unwrap();
    bench.end();
    let done = bench.rewind("1");
    assert_eq!((done.removed, done.by_others), (vec_of(&["by it"]), vec_of(&["theirs"])));
}

#[test]
fn a_rewind_that_was_killed_is_completed_or_undone() {
    for undo in [false, true] {
        let bench = Bench::repository();
        bench.write("a", "0").write("b", "0").write("dir/c", "0");
        let to = bench.take(1);
        let begun = bench.tree();
        bench.write("a", "1").write("b", "1").write("made/deep/new", "1");
        std::fs::remove_dir_all(bench.path("dir")).unwrap();
        bench.checkpoints.take_after(1).unwrap();
        bench.end();
        let ended = bench.tree();
        // It has kept the tree, restored one file, made one folder, emptied another, and then was killed.
        let store = bench.checkpoints.store().unwrap();
        let listing = store.list(&[].into()).unwrap();
        store.keep("rewind-1", &TreeToKeep::before(listing, &to), None).unwrap();
        std::fs::create_dir_all(store.folder.join("staging")).unwrap();
        std::fs::write(store.folder.join("staging/.rawko-restored"), "half").unwrap();
        bench.write("a", "0").remove("made/deep/new");
        std::fs::create_dir(bench.path("dir")).unwrap();
        bench.write("theirs", "since");
        let done = bench.rewind(if undo { "rewind-1" } else { "1" });
        assert_eq!((done.left_alone, done.by_others), (vec![], vec_of(&["theirs"])));
        bench.remove("theirs");
        assert_eq!(bench.tree(), if undo { ended } else { begun });
        assert_eq!(bench.path("made").exists(), undo);
        assert_eq!(std::fs::read_dir(store.folder.join("staging")).unwrap().count(), 0);
    }
}

#[test]
fn permissions_come_back() {
    let bench = Bench::repository();
    bench.write("secret", "s").executable("secret", 0o600).write("open", "o").executable("open", 0o644);
    bench.write("run", "#!").executable("run", 0o750).write("theirs", "").executable("theirs", 0o640);
    bench.take(1);
    bench.executable("secret", 0o644).executable("run", 0o755).executable("open", 0o666).remove("open");
    bench.checkpoints.take_after(1).unwrap();
    bench.executable("theirs", 0o600).end();
    let done = bench.rewind("1");
    let mode = |name: &str| bench.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("secret"), mode("run"), mode("open"), mode("theirs")), (0o600, 0o750, 0o644, 0o600));
    assert_eq!(done.by_others, ["theirs"]);
}

#[test]
fn empty_folders_come_back_and_go() {
    let bench = Bench::repository();
    let make = |name: &str| std::fs::create_dir_all(bench.path(name)).unwrap();
    let there = |name: &str| bench.path(name).is_dir();
    for name in ["empty/deep", "filled", "becomes a file"] {
        make(name);
    }
    bench.take(1);
    std::fs::remove_dir_all(bench.path("empty")).unwrap();
    std::fs::remove_dir(bench.path("becomes a file")).unwrap();
    bench.write("filled/x", "").write("becomes a file", "").write("in theirs/x", "");
    make("made/deep");
    bench.checkpoints.take_after(1).unwrap();
    make("theirs");
    make("also theirs");
    bench.take(2);
    bench.write("theirs/x", "by it");
    bench.checkpoints.take_after(2).unwrap();
    bench.end();
    let done = bench.rewind("1");
    assert!(there("empty/deep") && there("filled") && there("becomes a file"), "{done:?}");
    assert!(!there("made") && !there("in theirs"), "{done:?}");
    assert!(there("theirs") && there("also theirs") && !bench.path("theirs/x").exists(), "{done:?}");
    bench.rewind("rewind-1");
    assert!(!there("empty") && there("made/deep") && bench.path("filled/x").exists());
}

#[test]
fn what_was_ignored_then_is_named_also_where_the_rule_is_somebody_elses_now() {
    let bench = Bench::repository();
    bench.write(".gitignore", "*.env\n/out/\n").write("a.env", "precious").write("out/x", "built").take(1);
    bench.write(".gitignore", "").write("new", "");
    bench.checkpoints.take_after(1).unwrap();
    bench.write(".gitignore", "# theirs\n").end();
    for execute in [Execute::DryRun, Execute::Really] {
        let done = bench.checkpoints.rewind("1", execute, Extent::Session).unwrap();
        assert_eq!(done.removed, ["new"]);
        assert_eq!(left(&done.left_alone), [".gitignore", "a.env", "out/x"]);
        assert!(done.left_alone[1].why.contains("ignored then"), "{:?}", done.left_alone);
        assert_eq!(done.more, More { restored: 1, removed: 0 }, "what was ignored then is never restored");
    }
    assert_eq!((bench.read("a.env").as_str(), bench.read("out/x").as_str()), ("precious", "built"));
    bench.checkpoints.rewind("1", Execute::Really, Extent::Everything).unwrap();
    assert_eq!(bench.read("a.env"), "precious", "what it was is not known");
}

#[test]
fn what_the_session_made_and_then_had_ignored_goes() {
    let bench = Bench::repository();
    bench.take(1);
    bench.write("made.log", "1");
    bench.checkpoints.take_after(1).unwrap();
    bench.take(2);
    bench.write(".gitignore", "*.log\n").write("made.log", "2");
    bench.checkpoints.take_after(2).unwrap();
    bench.end();
    assert_eq!(bench.rewind("1").removed, [".gitignore", "made.log"]);
    bench.rewind("rewind-1");
    assert_eq!(bench.read("made.log"), "2");
}

#[test]
fn a_rule_above_the_project_counts() {
    let bench = Bench::at("inner");
    bench.init();
    std::fs::write(bench.top().join(".gitignore"), "*.env\n").unwrap();
    bench.write("a.env", "precious").write("x", "").take(1);
    // The index says what git tracks, ignored or not.
    bench.git(&["add", "--force", "inner/a.env"]);
    bench.write("y", "").end();
    let done = bench.rewind("1");
    assert_eq!((left(&done.left_alone), done.removed), (vec!["a.env"], vec_of(&["y"])));
}

#[test]
fn a_session_that_an_older_rawko_kept_is_rewound_as_far_as_is_known() {
    let bench = Bench::repository();
    // An older commit says nothing of permissions, folders and time.
    std::fs::create_dir(bench.path("empty")).unwrap();
    let old = |name: &str| {
        let id = bench.take(9);
        let tree = bench.git(&["rev-parse", &format!("{id}^{{tree}}")]);
        let commit = bench.git(&["commit-tree", tree.trim(), "-m", "rawko session"]);
        let reference = format!("refs/rawko/{}/{name}", super::bench::SESSION);
        bench.git(&["update-ref", &reference, commit.trim()]);
    };
    old("1");
    bench.write("tracked", "2\n").write("new", "").executable("tracked", 0o600);
    old("2");
    bench.write("tracked", "3\n");
    old("end");
    let reference = format!("refs/rawko/{}/9", super::bench::SESSION);
    bench.git(&["update-ref", "-d", &reference]);
    let own = bench.path(format!(".rawko/sessions/{}/checkpoints/names", super::bench::SESSION));
    std::fs::remove_dir_all(own).unwrap();
    let bench = bench.session(super::bench::SESSION);
    std::fs::remove_dir(bench.path("empty")).unwrap();
    let done = bench.rewind("1");
    assert_eq!((done.restored, done.removed), (vec_of(&["tracked"]), vec_of(&["new"])));
    assert_eq!((done.left_alone, done.by_others), (vec![], vec![]));
    let known: TreePath = b"tracked".to_vec();
    assert!(bench.checkpoints.store().unwrap().snapshot(&done.to.id).unwrap().contains_key(&known));
}
