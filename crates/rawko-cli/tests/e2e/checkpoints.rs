//! What a run changed, reported and taken back.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::ModelServer;

use crate::answers::{bash, call, complete, developer, report, select};
use crate::trial::{Ended, Trial};

/// Two executions that change something, with one between them that only looks.
fn run(trial: impl FnOnce(ModelServer) -> Trial) -> Ended {
    let read = |file: &str| call("Read", &json!({"file_path": file}));
    let server = ModelServer::sequence(vec![
        select("developer"),
        read("a.txt"),
        call("Edit", &json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})),
        bash("rm gone.txt && mkdir made && echo new > made/new.txt"),
        report("changed"),
        select("planner"),
        read("a.txt"),
        report("looked"),
        select("developer"),
        bash("echo three > a.txt"),
        report("changed again"),
        complete("all done"),
    ]);
    let trial = trial(server).file("a.txt", "one\n").file("gone.txt", "g\n").file("user.txt", "untracked\n");
    let ended = trial.run("Change it.");
    ended.exits(0);
    ended
}

#[track_caller]
fn ok(ended: &Ended, arguments: &[&str]) -> String {
    let (code, out, err) = ended.trial.rawko(arguments);
    assert_eq!(code, Some(0), "{arguments:?}\n{out}\n{err}");
    out
}

#[track_caller]
fn check(ended: &Ended) {
    let read = |name: &str| std::fs::read_to_string(ended.trial.project().join(name)).unwrap_or_default();
    let kept = ended.events_of("checkpoint_taken");
    assert_eq!(kept.iter().map(|event| event["iteration"].clone()).collect::<Vec<_>>(), [1, 3]);

    let whole = ok(ended, &["diff"]);
    assert!(whole.contains("-one\n+three\n") && whole.contains("made/new.txt"), "{whole}");
    assert!(!whole.contains("user.txt"), "{whole}");
    assert_eq!(
        ok(ended, &["diff", "last", "--execution", "1", "--stat"]),
        "M a.txt  +1 -1\nD gone.txt  +0 -1\nA made/new.txt  +1 -0\n"
    );
    let third: Value = serde_json::from_str(&ok(ended, &["diff", "--execution", "3", "--json"])).unwrap();
    assert_eq!(third["files"], json!([{"path": "a.txt", "kind": "modified", "added": 1, "removed": 1}]));
    assert_eq!((&third["from"]["name"], &third["to"]["name"]), (&json!("3"), &json!("after-3")));
    let (code, _, err) = ended.trial.rawko(&["diff", "--execution", "2"]);
    assert!(code == Some(2) && err.contains("there are 1, 3"), "{err}");

    let dry = ok(ended, &["rewind", "last", "--to", "1", "--dry-run"]);
    assert!(dry.contains("would restore a.txt\n") && dry.contains("nothing was changed"), "{dry}");
    assert_eq!(read("a.txt"), "three\n");
    let done = ok(ended, &["rewind", "last", "--to", "1"]);
    assert!(done.contains("restored gone.txt\nremoved made/new.txt\n"), "{done}");
    assert_eq!(
        (read("a.txt").as_str(), read("gone.txt").as_str(), read("user.txt").as_str()),
        ("one\n", "g\n", "untracked\n")
    );
    assert!(!ended.trial.project().join("made").exists());
    let undo = done.lines().last().unwrap().strip_prefix("to undo: rawko ").unwrap();
    ok(ended, &undo.split(' ').collect::<Vec<_>>());
    assert_eq!(
        (read("a.txt").as_str(), read("gone.txt").as_str(), read("made/new.txt").as_str()),
        ("three\n", "", "new\n")
    );
    ok(ended, &["rewind", "last", "--to", "2"]);
    assert_eq!(read("a.txt"), "two\n");
    let names: Value = serde_json::from_str(&ok(ended, &["rewind", "last", "--list", "--json"])).unwrap();
    let names: Vec<&str> =
        names.as_array().unwrap().iter().map(|kept| kept["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["1", "after-1", "3", "after-3", "end", "rewind-1", "rewind-2", "rewind-3"]);
}

#[test]
fn in_a_repository() {
    let ended = run(|server| {
        let trial = Trial::new(server);
        trial.git(&["commit", "--quiet", "--allow-empty", "-m", "begin"]);
        trial
    });
    let before = ended.trial.git(&["status", "--porcelain", "--branch"]);
    assert_eq!(before.lines().filter(|line| line.starts_with("??")).count(), 3, "{before}");
    check(&ended);
    assert_eq!(ended.trial.git(&["diff", "--cached"]), "");
    assert_eq!(ended.trial.git(&["stash", "list"]), "");
}

#[test]
fn without_one() {
    check(&run(Trial::without_git));
}

#[test]
fn a_run_that_changes_nothing_keeps_nothing() {
    let server = ModelServer::sequence(vec![select("planner"), report("nothing to do"), complete("done")]);
    let ended = Trial::new(server).run("Look.");
    ended.exits(0);
    assert_eq!(ended.trial.git(&["for-each-ref"]), "");
    let (code, out, err) = ended.trial.rawko(&["diff"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    assert!(err.contains("0 files differ"), "{err}");
    let printed: Value = serde_json::from_str(&ok(&ended, &["diff", "--json"])).unwrap();
    assert_eq!((&printed["from"], &printed["files"]), (&Value::Null, &json!([])));
}

#[test]
fn what_others_changed_is_named_and_left_unless_all_is_asked_for() {
    let ended = run(Trial::new);
    let (project, read) = (ended.trial.project(), |name: &str| {
        std::fs::read_to_string(ended.trial.project().join(name)).unwrap_or_default()
    });
    std::fs::write(project.join("user.txt"), "edited\n").unwrap();
    std::fs::write(project.join("a.txt"), "edited after the session\n").unwrap();
    std::fs::write(project.join("mine.txt"), "new\n").unwrap();
    let (code, out, err) = ended.trial.rawko(&["rewind", "last", "--to", "1", "--dry-run"]);
    assert_eq!(code, Some(1), "{out}{err}");
    let (code, out, err) = ended.trial.rawko(&["rewind", "last", "--to", "1"]);
    assert_eq!(code, Some(1), "{out}{err}");
    for line in [
        "restored gone.txt\n",
        "removed made/new.txt\n",
        "not restored: a.txt (the session changed it, and somebody else did since)\n",
        "changed since, not by this session: mine.txt\nchanged since, not by this session: user.txt\n",
        "restored 2 files to the checkpoint before execution 1 of ",
        "to restore 2 other files and remove 1 other file, too: rawko rewind ",
        " --to 1 --all\n",
    ] {
        assert!(out.contains(line), "{line:?} is missing in {out}");
    }
    assert_eq!(
        (read("a.txt").as_str(), read("user.txt").as_str()),
        ("edited after the session\n", "edited\n")
    );
    std::fs::remove_file(project.join("a.txt")).unwrap();
    let (_, out, _) = ended.trial.rawko(&["rewind", "last", "--to", "1", "--json"]);
    let printed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(printed["rewound"]["byOthers"], json!(["mine.txt", "user.txt"]));
    assert_eq!(printed["rewound"]["leftAlone"][0]["path"], "a.txt");
    // Without a terminal --all is asked for by its name.
    let (code, _, err) = ended.trial.rawko(&["rewind", "last", "--to", "1", "--yes"]);
    assert!(code == Some(2) && err.contains("--all"), "{err}");
    let all = ok(&ended, &["rewind", "last", "--to", "1", "--all"]);
    assert!(all.contains("removed mine.txt\n") && all.contains("restored 3 files"), "{all}");
    assert!(!all.contains("--all"), "{all}");
    assert_eq!((read("a.txt").as_str(), read("user.txt").as_str()), ("one\n", "untracked\n"));
    let one = ok(&ended, &["diff", "--execution", "3", "--stat"]);
    assert_eq!(one, "M a.txt  +1 -1\n");
    let (_, _, err) = ended.trial.rawko(&["diff", "--execution", "3", "--stat"]);
    assert!(err.contains("1 file differs, from before execution 3 to after execution 3"), "{err}");
    let end = ok(&ended, &["rewind", "last", "--to", "end", "--all"]);
    assert!(end.contains(" to the checkpoint at the end of "), "{end}");
    let again = ok(&ended, &["rewind", "last", "--to", "end"]);
    assert!(again.starts_with("no file differs from the checkpoint at the end of "), "{again}");
}

/// A run that was killed in the middle of a command, after which someone else changed something.
fn killed(later: &str) -> Ended {
    let turns = [bash("echo by it > made"), bash("echo $$ > child; sleep 300; touch survived"), bash(later)];
    let trial = Trial::new(developer(turns)).file("gone.txt", "g\n").file("user.txt", "before\n");
    let running = trial.start("Change it.");
    let child = running.wait_for_line("child");
    running.signal(Signal::KILL);
    let ended = running.end_unchecked();
    let child = child.parse().ok().and_then(Pid::from_raw).unwrap();
    let _ = kill_process(child, Signal::KILL);
    let project = ended.trial.project();
    std::fs::write(project.join("user.txt"), "edited\n").unwrap();
    std::fs::write(project.join("mine.txt"), "new\n").unwrap();
    ended
}

/// `rewind` with these arguments leaves what changed after the kill, says why, and exits with 1.
#[track_caller]
fn leaves_what_is_unclear(ended: &Ended, arguments: &[&str]) -> String {
    let (code, out, err) = ended.trial.rawko(&[&["rewind", "last", "--to", "1"], arguments].concat());
    assert_eq!(code, Some(1), "{out}{err}");
    for file in ["child", "mine.txt", "user.txt"] {
        assert!(out.contains(&format!("not restored: {file} (changed after the last record")), "{out}");
        assert!(ended.trial.project().join(file).exists(), "{file}");
    }
    assert!(!out.contains("not by this session"), "the unfinished work may be the session's: {out}");
    out
}

#[test]
fn a_rewind_after_a_kill_does_what_its_dry_run_says() {
    let ended = killed("true");
    let made = ended.trial.project().join("made");
    let dry = leaves_what_is_unclear(&ended, &["--dry-run"]);
    assert!(dry.starts_with("would remove made\n") && dry.contains("1 file would be restored"), "{dry}");
    assert!(made.exists());
    let done = leaves_what_is_unclear(&ended, &[]);
    assert!(done.starts_with("removed made\n") && !made.exists(), "{done}");
    let again = leaves_what_is_unclear(&ended, &[]);
    assert!(again.contains("no file was changed"), "{again}");
    let hint = "to restore 1 other file and remove 2 other files, too: rawko ";
    let all = again.lines().find_map(|line| line.strip_prefix(hint)).unwrap();
    ok(&ended, &all.split(' ').collect::<Vec<_>>());
    assert_eq!(std::fs::read_to_string(ended.trial.project().join("user.txt")).unwrap(), "before\n");
    assert!(!ended.trial.project().join("mine.txt").exists());
}

#[test]
fn what_was_changed_while_a_killed_session_lay_still_stays() {
    let ended = killed("echo by it > later; rm gone.txt");
    let diff = ok(&ended, &["diff", "--stat"]);
    assert!(diff.contains("A made") && diff.contains("M user.txt"), "it may be the session's: {diff}");
    let (code, out, err) = ended.trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, diff, err) = ended.trial.rawko(&["diff", "--stat"]);
    assert_eq!(
        (code, diff.as_str()),
        (Some(0), "D gone.txt  +0 -1\nA later  +1 -0\nA made  +1 -0\n"),
        "{err}"
    );
    assert!(
        err.contains("user.txt: changed after the session's last record") && err.contains("; left out"),
        "{err}"
    );
    let printed: Value = serde_json::from_str(&ok(&ended, &["diff", "--json"])).unwrap();
    assert_eq!(printed["others"][2], json!({"path": "user.txt", "by": "unclear", "shown": false}));
    let done = leaves_what_is_unclear(&ended, &[]);
    assert!(done.starts_with("restored gone.txt\nremoved later\nremoved made\n"), "{done}");
    assert_eq!(std::fs::read_to_string(ended.trial.project().join("user.txt")).unwrap(), "edited\n");
}

#[test]
fn a_session_that_was_cancelled_after_a_kill_has_an_end() {
    let ended = killed("true");
    let (_, _, err) = ended.trial.rawko(&["diff", "--stat"]);
    assert!(err.contains("because the session has no end yet"), "{err}");
    ok(&ended, &["cancel", "last"]);
    let (_, _, err) = ended.trial.rawko(&["diff", "--stat"]);
    assert!(err.contains("because the files were not saved when the session ended"), "{err}");
}
