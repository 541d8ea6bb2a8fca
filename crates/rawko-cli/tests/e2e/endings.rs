//! What people can rely on after an ending: their own edits are not the run's, costs are counted once, and the command
//! that the ending names works.

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Answer, ModelServer, Say};

use crate::answers::{bash, complete, report, select};
use crate::trial::Trial;

/// A repository with a file of the user's.
fn trial(answers: impl IntoIterator<Item = Answer>) -> Trial {
    let trial = Trial::new(ModelServer::sequence(answers))
        .file("notes.txt", "before\n")
        .file("check.sh", "grep -q fixed code.txt\n")
        .file("code.txt", "broken\n");
    trial.git(&["add", "--all"]);
    trial.git(&["commit", "--quiet", "-m", "first"]);
    trial
}

fn last(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap_or_default()).unwrap_or_else(|_| panic!("{out}"))
}

/// How a file is named that others changed.
const OTHERS: &str = "changed since, not by this session";

/// The user works on, a next task changes nothing, and then the first one is taken back.
#[track_caller]
fn check_rewind(trial: &Trial, by: &str) {
    let project = trial.project();
    std::fs::write(project.join("notes.txt"), "edited\n").unwrap();
    std::fs::write(project.join("mine.txt"), "new\n").unwrap();
    let (code, out, err) = trial.ask(&["continue", "--yes", "last", "And this."]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, out, err) = trial.rawko(&["rewind", "last", "--to", "1"]);
    assert!(out.starts_with("removed made.txt\n"), "{code:?} {out}{err}");
    for file in ["mine.txt", "notes.txt"] {
        let is_named = out.contains(&format!("{by}: {file}"));
        assert!(is_named, "{out}");
    }
    assert_eq!(std::fs::read_to_string(project.join("notes.txt")).unwrap(), "edited\n");
    assert!(project.join("mine.txt").exists() && !project.join("made.txt").exists());
}

fn next_task() -> [Answer; 3] {
    [select("developer"), report("looked"), complete("nothing to do")]
}

fn cut_off_and_next() -> impl Iterator<Item = Answer> {
    let begin = [select("developer"), bash("echo by it > made.txt"), Answer::Silence];
    begin.into_iter().chain(next_task())
}

#[test]
fn a_rewind_spares_what_was_edited_after_ctrl_c_and_before_a_task_without_changes() {
    let running = trial(cut_off_and_next()).start("Do it.");
    running.wait_until("the third question", || running.trial.server.asked().len() == 3);
    running.signal(Signal::INT);
    let ended = running.end();
    // What an abandoned call has used is an estimate.
    assert_eq!(ended.finish()["usage"]["estimated"], true, "{:#}", ended.finish());
    check_rewind(&ended.trial, OTHERS);
}

#[test]
fn a_rewind_spares_what_was_edited_after_the_provider_failed() {
    let begin = [select("developer"), bash("echo by it > made.txt"), Answer::unauthorized()];
    check_rewind(&trial(begin.into_iter().chain(next_task())).run("Do it.").trial, OTHERS);
}

#[test]
fn a_rewind_spares_what_was_edited_after_a_kill_and_a_cancel() {
    let running = trial(cut_off_and_next()).start("Do it.");
    running.wait_until("the third question", || running.trial.server.asked().len() == 3);
    running.signal(Signal::KILL);
    let ended = running.end_unchecked();
    let (code, out, err) = ended.trial.rawko(&["cancel", "last"]);
    assert_eq!(code, Some(0), "{out}{err}");
    // The end of the execution was not seen.
    check_rewind(&ended.trial, "not restored");
}

/// The user does the work while the session is stopped. The run itself has changed nothing.
#[track_caller]
fn check_unchanged(trial: &Trial, limit: &[&str]) {
    std::fs::write(trial.project().join("code.txt"), "fixed\n").unwrap();
    let (code, out, err) = trial.resume_with(&[limit, &["--yes", "--require-verified"]].concat());
    let end = last(&out);
    assert_eq!((code, &end["status"]), (Some(1), &json!("claimed")), "{end:#}{err}");
    assert_eq!(
        (&end["doubt"]["reason"], &end["filesModified"]),
        (&json!("unchanged"), &json!([])),
        "{end:#}"
    );
}

#[test]
fn the_users_work_in_a_pause_within_an_execution_verifies_nothing() {
    let answers =
        [select("developer"), bash("true"), Answer::Silence, report("it is fixed"), complete("done")];
    let trial = trial(answers).args(&["--verify", "sh check.sh", "--timeout", "3s"]);
    let ended = trial.run("Fix it.");
    ended.exits(3);
    check_unchanged(&ended.trial, &["--timeout", "1m"]);
}

#[test]
fn the_users_work_in_a_pause_between_executions_verifies_nothing() {
    let answers = [
        select("developer"),
        bash("true"),
        report("looked"),
        Answer::Silence,
        select("developer"),
        report("it is fixed"),
        complete("done"),
    ];
    let trial = trial(answers).args(&["--verify", "sh check.sh", "--timeout", "3s"]);
    let ended = trial.run("Fix it.");
    ended.exits(3);
    check_unchanged(&ended.trial, &["--timeout", "1m"]);
}

#[test]
fn the_runs_own_work_after_a_pause_is_verified() {
    let answers = [
        select("developer"),
        bash("true"),
        Answer::Silence,
        bash("echo fixed >> code.txt"),
        report("it is fixed"),
        complete("done"),
    ];
    let trial = trial(answers).args(&["--verify", "sh check.sh", "--timeout", "3s"]);
    let ended = trial.run("Fix it.");
    ended.exits(3);
    std::fs::write(ended.trial.project().join("notes.txt"), "edited\n").unwrap();
    let (code, out, err) = ended.trial.resume_with(&["--timeout", "1m", "--yes", "--require-verified"]);
    let end = last(&out);
    assert_eq!((code, &end["status"]), (Some(0), &json!("verified")), "{end:#}{err}");
    assert_eq!(end["filesModified"], json!(["code.txt"]), "{end:#}");
}

#[test]
fn a_fork_of_a_continued_session_counts_no_call_again() {
    let task = |file: &str| {
        [select("developer"), bash(&format!("echo > {file}")), report("did it"), complete("it is there")]
    };
    let answers = task("one.txt").into_iter().chain(task("two.txt")).chain([complete("done again")]);
    let ended = trial(answers).run("Write one.");
    ended.exits(0);
    let trial = ended.trial;
    let (code, out, err) = trial.ask(&["continue", "last", "Write two."]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, out, err) = trial.ask(&["fork", "last", "--no-run"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, out, err) = trial.resume_with(&[]);
    assert_eq!(code, Some(0), "{out}{err}");
    let end = last(&out);
    let own = end["costUsd"].as_f64().expect("the price is known");
    let earlier = &end["earlierTasks"][0];
    assert_eq!((&earlier["task"], &earlier["costUsd"]), (&json!("Write one."), &json!(0.0)), "{end:#}");
    assert_eq!(earlier["usage"]["inputTokens"], 0, "{end:#}");
    assert!(end["shared"]["costUsd"].as_f64().unwrap() > 0.0, "{end:#}");
    for arguments in
        [&["sessions", "show", "last", "--json"][..], &["sessions", "export", "--format", "json"]]
    {
        let (_, out, err) = trial.rawko(arguments);
        let printed: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(printed["costUsd"].as_f64(), Some(own), "{arguments:?}: {err}");
    }
    let (_, out, _) = trial.rawko(&["sessions", "list", "--json"]);
    let listed: Value = serde_json::from_str(&out).unwrap();
    let fork = listed.as_array().unwrap().iter().find(|it| it["id"] == end["session"]);
    assert_eq!(fork.unwrap()["costUsd"].as_f64(), Some(own), "{listed:#}");
    let (_, replayed, err) = trial.rawko(&["replay", "last"]);
    assert!(replayed.contains("everything matches the record"), "{replayed}{err}");
}

/// More than a file may hold where files are short.
fn long() -> Answer {
    let file = json!({"file_path": "long.txt", "content": "long ".repeat(150_000)});
    Say::default().with_call("Write", &file).into()
}

/// The journal cannot be written to its end, as on a full disk.
#[test]
fn the_ending_of_a_journal_without_an_end_names_the_command_that_goes_on() {
    let long = long();
    let answers = [select("developer"), long.clone(), report("did it"), complete("done")];
    let trial = trial(answers);
    let (code, out, err) = trial.ask_with_short_files(&["--output", "json", "Do it."]);
    let end: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!((code, &end["error"]["code"]), (Some(1), &json!("journal_incomplete")), "{end:#}{err}");
    let trial = trial.served_by(ModelServer::sequence([long, report("did it"), complete("done")]));
    let (code, out, err) = trial.ask(&["continue", "last", "Go on."]);
    assert!(code == Some(2) && err.contains("rawko resume"), "{out}{err}");
    let (code, out, err) = trial.ask(&["resume", "--yes"]);
    assert_eq!(code, Some(0), "{out}{err}");
}

#[test]
fn the_hint_of_a_journal_without_an_end_is_to_resume() {
    let trial = trial([select("developer"), long()]);
    let (code, out, err) = trial.ask_with_short_files(&["Do it."]);
    assert!(code == Some(1) && out.contains("go on where it stopped: rawko resume"), "{out}{err}");
    assert!(!out.contains("rawko continue"), "{out}");
}

#[test]
fn changed_checks_are_no_dead_end() {
    let answers =
        [select("developer"), bash("echo true > check.sh"), report("it is fixed"), complete("done")];
    let trial = trial(answers);
    let (code, out, err) = trial.ask(&["--yes", "--verify", "sh check.sh", "Fix it."]);
    assert!(code == Some(0) && out.contains("Checks changed:"), "{out}{err}");
    assert!(out.contains("Files changed:") && out.contains(" check.sh\n"), "{out}");
    assert!(out.contains("--allow-changed-checks") && out.contains("rawko continue 20"), "{out}");
}

#[test]
fn the_dots_of_a_hint_are_no_task() {
    let ended = trial(next_task()).run("Look.");
    for arguments in [&["continue", "last", "…"][..], &["-c", "..."], &["run", "--yes", "?!"]] {
        let (code, out, err) = ended.trial.ask(arguments);
        assert_eq!((code, err.contains("has no word")), (Some(2), true), "{out}{err}");
    }
    assert_eq!(ended.trial.server.asked().len(), 3, "no model was asked");
}

/// The end of the command was not seen, so anything that it may have changed counts as the run's.
#[test]
fn what_a_killed_command_changed_is_listed() {
    let answers = [
        select("developer"),
        bash("echo by it > made.txt; sleep 300"),
        report("it is made"),
        complete("done"),
    ];
    let running = trial(answers).start("Make it.");
    running.wait_for_line("made.txt");
    running.signal(Signal::KILL);
    let ended = running.end_unchecked();
    let (_, out, err) = ended.trial.resume_with(&["--yes"]);
    let files = last(&out)["filesModified"].clone();
    assert!(files.as_array().unwrap().contains(&json!("made.txt")), "{files} {err}");
}

/// Without them the next run would have less than this one, and a fork would be refused.
#[test]
fn the_commands_that_go_on_repeat_what_was_granted() {
    let (code, out, err) =
        trial(next_task()).ask(&["--allow-net=example.com", "--no-sandbox", "Look at it."]);
    assert!(code == Some(0) && out.contains(" --allow-net=example.com --no-sandbox \"…\""), "{out}{err}");
    let failed = trial([Answer::unauthorized()]);
    let (_, out, err) = failed.ask(&["--allow-read", "--max-iterations", "3", "Look at it."]);
    let line =
        out.lines().find(|line| line.contains(": rawko resume")).unwrap_or_else(|| panic!("{out}{err}"));
    assert!(line.ends_with(" --allow-read"), "{line}");
    let (code, out, err) = trial(next_task()).ask(&["Look at it."]);
    assert!(code == Some(0) && !out.contains("--allow") && !out.contains("--no-sandbox"), "{out}{err}");
}

#[test]
fn a_run_that_had_something_to_learn_says_how_until_somebody_decides() {
    let offer = "mkdir -p .rawko/memories";
    let solved = |trial: Trial| {
        let (code, out, err) = trial.ask(&["--verify", "sh check.sh", "Do it."]);
        assert_eq!(code, Some(0), "{out}{err}");
        (out, trial)
    };
    let work = || [select("developer"), bash("echo fixed > code.txt"), report("done"), complete("done")];
    let (out, first) = solved(trial(work()));
    assert!(out.contains(offer), "{out}");
    assert!(!first.project().join(".rawko/memories").exists());
    let (code, out, err) = trial(work()).ask(&["--quiet", "--verify", "sh check.sh", "Do it."]);
    assert!(code == Some(0) && !out.contains(offer), "with --quiet nothing is offered: {out}{err}");
    let (out, _) = solved(trial(work()).user_config("/memory/extract", json!(false)));
    assert!(!out.contains(offer), "{out}");
}

#[test]
fn what_runs_later_on_the_users_machine_is_named_and_other_work_is_not() {
    let work = |command: &str| [select("developer"), bash(command), report("written"), complete("written")];
    let ended = trial(work("echo 'echo hello' > .envrc; echo fixed > code.txt")).run("Do it.");
    assert_eq!(ended.finish()["runsLater"], json!([".envrc"]));
    let (_, out, err) = ended.trial.rawko(&["diff", "last"]);
    assert!(err.contains("runs later: .envrc") && !out.contains("runs later"), "{out}{err}");
    // Files that git ignores, and those beyond the files that are listed, are named too; those that are gone are not.
    let many = "echo .vscode >> .gitignore; mkdir .vscode gen; echo {} > .vscode/tasks.json; touch gen/{1..1005} zz.code-workspace; \
                touch .npmrc; rm .npmrc";
    let ended = trial(work(many)).file(".envrc", "theirs\n").run("Do it.");
    assert_eq!(ended.finish()["runsLater"], json!(["zz.code-workspace", ".vscode/tasks.json"]));
    let (_, _, err) = ended.trial.rawko(&["diff", "last", "--stat"]);
    assert!(err.contains("runs later: zz.code-workspace, .vscode/tasks.json"), "{err}");
    // What has its old content is not changed, whatever its times say.
    let touched = "echo fixed > code.txt; touch CLAUDE.md; chmod 600 CLAUDE.md; chmod 644 CLAUDE.md";
    let ended = trial(work(touched)).file("CLAUDE.md", "theirs\n").run("Do it.");
    assert_eq!(ended.finish().get("runsLater"), None);
    let (_, _, err) = ended.trial.rawko(&["diff", "last"]);
    assert!(!err.contains("runs later"), "{err}");
}
