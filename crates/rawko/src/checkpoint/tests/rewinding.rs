//! Restoring trees.

use super::bench::{Bench, header};
use crate::checkpoint::{CheckpointError, Execute, Extent};
use crate::journal::SessionLock;

#[test]
fn a_rewind_brings_the_tree_back_and_can_be_undone() {
    let bench = Bench::repository();
    bench
        .write(".gitignore", "*.log\n")
        .write("a.log", "ignored")
        .write("changed", "1")
        .write("deleted/deep", "d");
    bench
        .write("run", "#!")
        .executable("run", 0o755)
        .link("link", "changed")
        .write("file", "f")
        .write("dir/x", "x");
    bench.take(1);
    let before = bench.tree();
    bench.write("changed", "2").executable("run", 0o644).remove("link").link("link", "tracked");
    std::fs::remove_dir_all(bench.path("deleted")).unwrap();
    bench.remove("file").write("file/is/a/folder", "now");
    std::fs::remove_dir_all(bench.path("dir")).unwrap();
    bench.write("dir", "is a file").write("made/by/it", "new").write("a.log", "ignored, and other");
    bench.git(&["add", "changed"]);
    bench.git(&["commit", "--quiet", "--message", "the session commits"]);
    bench.end();
    let after = bench.tree();
    let own = bench.users_own();

    let dry = bench.checkpoints.rewind("1", Execute::DryRun, Extent::Session).unwrap();
    assert_eq!(bench.tree(), after);
    let done = bench.rewind("1");
    assert_eq!((&dry.restored, &dry.removed), (&done.restored, &done.removed));
    assert_eq!(done.restored, ["changed", "deleted/deep", "dir/x", "file", "link", "run"]);
    assert_eq!(done.removed, ["dir", "file/is/a/folder", "made/by/it"]);
    assert_eq!(done.left_alone, []);
    let mut expected = before;
    expected.insert("a.log".to_owned(), "ignored, and other".to_owned());
    assert_eq!(bench.tree(), expected);
    assert!(!bench.path("made").exists(), "empty folders go, too");
    assert_eq!(bench.users_own(), own, "index and branch are the user's");

    let undone = bench.rewind(&done.before.unwrap().name);
    assert_eq!(undone.left_alone, []);
    assert_eq!(bench.tree(), after);
    assert_eq!(bench.users_own(), own);
    // And undoing the undoing.
    bench.rewind(&undone.before.unwrap().name);
    assert_eq!(bench.tree(), expected);
}

#[test]
fn a_number_means_the_tree_before_that_execution() {
    let bench = Bench::repository();
    bench.write("file", "1").take(1);
    bench.write("file", "3").take(3);
    bench.write("file", "end").end();
    for (to, content) in [("2", "3"), ("1", "1"), ("3", "3"), ("end", "end"), ("0", "1")] {
        bench.rewind(to);
        assert_eq!(bench.read("file"), content, "{to}");
    }
    for to in ["4", "nothing", "", "rewind-99", "-1"] {
        let error = bench.checkpoints.rewind(to, Execute::Really, Extent::Session).unwrap_err();
        assert!(
            matches!(&error, CheckpointError::Unknown { kept, .. } if kept.contains(&"3".to_owned())),
            "{to}: {error}"
        );
    }
}

#[test]
fn what_somebody_made_after_the_session_stays() {
    let bench = Bench::repository();
    bench.take(1);
    bench.write("by the session", "").end();
    bench.write("by the user", "");
    let done = bench.rewind("1");
    assert_eq!(done.removed, ["by the session"]);
    assert!(bench.path("by the user").exists());
}

#[test]
fn what_somebody_made_after_the_session_stays_however_often_it_is_rewound() {
    let bench = Bench::repository();
    bench.take(1);
    bench.write("by the session", "").end();
    bench.write("by the user", "");
    bench.rewind("1");
    bench.rewind("end");
    assert_eq!(bench.rewind("1").removed, ["by the session"]);
    assert!(bench.path("by the user").exists());
}

#[test]
fn a_session_that_was_killed_has_no_end_and_all_that_is_new_is_taken_for_its_own() {
    let bench = Bench::repository();
    bench.take(1);
    bench.write("new", "");
    assert_eq!(bench.rewind("1").removed, ["new"]);
    bench.rewind("rewind-1");
    assert!(bench.path("new").exists());
}

#[test]
fn what_was_ignored_then_is_not_removed_now() {
    let bench = Bench::repository();
    bench.write(".gitignore", ".env\n").write(".env", "precious").take(1);
    // The session takes the rule away, so that the file counts now.
    bench.write(".gitignore", "").write("new", "").end();
    let done = bench.rewind("1");
    assert_eq!(done.removed, ["new"]);
    assert_eq!(bench.read(".env"), "precious");
    assert_eq!(bench.read(".gitignore"), ".env\n");
}

#[test]
fn what_became_ignored_is_kept_before_it_is_restored() {
    let bench = Bench::repository();
    bench.write("notes", "then").take(1);
    bench.write(".gitignore", "notes\n").write("notes", "now").end();
    let done = bench.rewind("1");
    assert_eq!(bench.read("notes"), "then");
    bench.rewind(&done.before.unwrap().name);
    assert_eq!(bench.read("notes"), "now");
}

#[test]
fn what_cannot_be_kept_now_is_not_overwritten() {
    let bench = Bench::repository();
    bench.write("grows", "small").write("shrinks", "").take(1);
    std::fs::File::create(bench.path("grows")).unwrap().set_len(100 * 1024 * 1024 + 1).unwrap();
    bench.write("tracked", "changed\n").end();
    let done = bench.rewind("1");
    assert_eq!(done.restored, ["tracked"]);
    assert_eq!(done.left_alone[0].path, "grows");
    assert!(done.left_alone[0].why.contains("larger than 100 MB"), "{:?}", done.left_alone);
    assert_eq!(bench.path("grows").metadata().unwrap().len(), 100 * 1024 * 1024 + 1);
}

#[test]
fn what_could_not_be_kept_then_is_not_removed_now() {
    let bench = Bench::repository();
    std::fs::File::create(bench.path("shrinks")).unwrap().set_len(100 * 1024 * 1024 + 1).unwrap();
    bench.take(1);
    bench.write("shrinks", "small").write("new", "").end();
    assert_eq!(bench.rewind("1").removed, ["new"]);
    assert_eq!(bench.read("shrinks"), "small");
}

#[test]
fn nothing_is_written_through_a_link() {
    let bench = Bench::repository();
    bench.write("dir/file", "kept").write("dir/other", "kept").take(1);
    std::fs::create_dir(bench.outside().join("elsewhere")).unwrap();
    std::fs::write(bench.outside().join("elsewhere/file"), "not the project's").unwrap();
    std::fs::remove_dir_all(bench.path("dir")).unwrap();
    bench.link("dir", bench.outside().join("elsewhere")).write("tracked", "x");
    let elsewhere = || std::fs::read_dir(bench.outside().join("elsewhere")).unwrap().count();
    // The link is known, and goes.
    let done = bench.rewind("1");
    assert_eq!((done.restored.len(), done.removed), (3, vec!["dir".to_owned()]));
    assert_eq!(bench.read("dir/file"), "kept");
    assert_eq!(std::fs::read(bench.outside().join("elsewhere/file")).unwrap(), b"not the project's");
    assert_eq!(elsewhere(), 1);
    // The link is ignored, so it stays, and nothing that it leads to is touched.
    std::fs::remove_dir_all(bench.path("dir")).unwrap();
    bench.link("dir", bench.outside().join("elsewhere"));
    std::fs::write(bench.top().join(".git/info/exclude"), "/dir\n").unwrap();
    let done = bench.rewind("1");
    assert_eq!(
        done.left_alone.iter().map(|left| left.path.as_str()).collect::<Vec<_>>(),
        ["dir/file", "dir/other"]
    );
    assert_eq!(std::fs::read(bench.outside().join("elsewhere/file")).unwrap(), b"not the project's");
    assert_eq!(elsewhere(), 1);
}

#[test]
fn a_folder_with_ignored_files_in_place_of_a_file_stays() {
    let bench = Bench::repository();
    bench.write(".gitignore", "*.log\n").write("was a file", "x").take(1);
    bench.remove("was a file").write("was a file/a.log", "ignored").end();
    let done = bench.rewind("1");
    assert_eq!(done.left_alone.len(), 1, "{done:?}");
    assert_eq!(bench.read("was a file/a.log"), "ignored");
}

#[test]
fn the_sessions_themselves_are_never_part_of_a_tree() {
    let bench = Bench::repository();
    // A user has added a journal to the index.
    bench.git(&["add", "--force", ".rawko"]);
    bench.write(".rawko/config.yaml", "a: 1\n");
    assert_eq!(bench.kept(&bench.take(1)), [".rawko/config.yaml", "tracked"]);
    bench.write(".rawko/config.yaml", "a: 2\n");
    let journal = format!(".rawko/sessions/{}/journal.jsonl", super::bench::SESSION);
    bench.write(&journal, "longer now");
    bench.rewind("1");
    assert_eq!(
        (bench.read(&journal).as_str(), bench.read(".rawko/config.yaml").as_str()),
        ("longer now", "a: 1\n")
    );
}

#[test]
fn nothing_is_rewound_while_a_session_runs() {
    let bench = Bench::repository();
    bench.take(1);
    bench.write("tracked", "changed\n").end();
    let journal = bench.path(format!(".rawko/sessions/{}/journal.jsonl", super::bench::SESSION));
    let held = SessionLock::acquire(&journal).unwrap();
    let error = bench.checkpoints.rewind("1", Execute::Really, Extent::Session).unwrap_err();
    assert!(matches!(error, CheckpointError::Running { .. }), "{error}");
    assert_eq!(bench.read("tracked"), "changed\n");
    assert_eq!(
        bench.checkpoints.rewind("1", Execute::DryRun, Extent::Session).unwrap().restored,
        ["tracked"]
    );
    drop(held);
    bench.rewind("1");
    // Another session of this project, with a journal that can be read.
    let sessions = crate::journal::SessionStore::of_project(&bench.project());
    let writer = sessions.create(&header("20271122-094512-417-other")).unwrap();
    let error = bench.checkpoints.rewind("1", Execute::Really, Extent::Session).unwrap_err();
    assert!(matches!(&error, CheckpointError::Running { session } if session.ends_with("other")), "{error}");
    drop(writer);
    bench.rewind("1");
}
