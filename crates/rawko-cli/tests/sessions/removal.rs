//! Removing sessions.

use rawko::journal::JournalWriter;

use crate::bench::{Bench, short};
use crate::support::Said;

fn with_sessions(count: usize) -> (Bench, Vec<String>) {
    let bench = Bench::new(&short());
    for _ in 0..count {
        bench.rawko(&["run", "--quiet", "Do it."]).check(0, &[]);
    }
    let ids = ids(&bench);
    assert_eq!(ids.len(), count);
    (bench, ids)
}

fn ids(bench: &Bench) -> Vec<String> {
    bench.store().list().unwrap().into_iter().map(|session| session.id).collect()
}

#[track_caller]
fn rm(bench: &Bench, arguments: &[&str]) -> Said {
    bench.rawko(&[&["sessions", "rm"], arguments].concat())
}

#[test]
fn a_session_that_has_ended_goes_when_it_is_named() {
    let (bench, all) = with_sessions(3);
    rm(&bench, &[]).check(2, &["ID"]);
    rm(&bench, &["nobody"]).check(2, &["no session `nobody`"]);
    rm(&bench, &["20"]).check(2, &["several sessions"]);
    assert_eq!(ids(&bench), all);
    rm(&bench, &[&all[1]]).check(0, &["removed", &all[1]]);
    assert_eq!(ids(&bench), [all[0].clone(), all[2].clone()]);
}

#[test]
fn what_could_still_be_needed_goes_with_yes_alone() {
    let (bench, all) = with_sessions(2);
    // The second one is cut off before its end: it could be resumed.
    let path = bench.journal_path();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.lines().take(5).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    rm(&bench, &[&all[1]]).check(2, &["this would remove", "can be resumed", "nothing was removed", "--yes"]);
    rm(&bench, &["--all-ended-before", "soon"]).check(2, &["2026-01-31"]);
    rm(&bench, &["--all-ended-before", "2020-01-01", "--yes"]).check(0, &["no session ended"]);
    rm(&bench, &["--all-ended-before", "2999-01-01"]).check(2, &[&all[0], "--yes"]);
    assert_eq!(ids(&bench), all);
    rm(&bench, &["--all-ended-before", "2999-01-01", "--yes"]).check(0, &["removed", &all[0]]);
    assert_eq!(ids(&bench), [all[1].clone()], "what has no end did not end before any day");
    rm(&bench, &[&all[1], "--yes"]).check(0, &["removed"]);
    assert_eq!(ids(&bench), Vec::<String>::new());
}

#[test]
fn a_running_session_stays() {
    let (bench, all) = with_sessions(1);
    let (running, _) = JournalWriter::reopen(&bench.journal_path()).unwrap();
    rm(&bench, &[&all[0], "--yes"]).check(1, &["is running", "rawko cancel"]);
    drop(running);
    assert_eq!(ids(&bench), all);
}

#[test]
fn what_git_kept_of_a_session_goes_with_it() {
    let (bench, _) = with_sessions(0);
    let git =
        |arguments: &str| bench.shell(&format!("git -c user.name=t -c user.email=t@example.com {arguments}"));
    git("init --quiet").check(0, &[]);
    git("add . ").check(0, &[]);
    git("commit --quiet -m begin").check(0, &[]);
    bench.rawko(&["run", "--quiet", "Do it."]).check(0, &[]);
    let id = ids(&bench).remove(0);
    git("for-each-ref").check(0, &[&format!("refs/rawko/{id}")]);
    rm(&bench, &[&id]).check(0, &["removed"]);
    let refs = git("for-each-ref").check(0, &["refs/heads"]).out;
    assert!(!refs.contains("rawko"), "{refs}");
}
