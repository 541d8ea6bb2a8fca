//! What a killed process leaves: its commands, its background jobs, and a journal that may be damaged.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use crate::answers::{bash, call, complete, developer, report, select};
use crate::trial::{Ended, Running, Trial};

/// Ends the process as `kill -9` does.
fn kill(running: Running) -> Trial {
    running.end_after(Signal::KILL).trial
}

/// A command that writes all the time and ignores what can be ignored. It says who started it.
const BUSY: &str = "trap '' TERM INT HUP; echo $PPID > parent; \
                    while :; do echo x >> ticks; sleep 0.01; done";

/// The run is resumed at once, and its first command keeps what the old one has written by then.
#[track_caller]
fn check_nothing_is_written_during(trial: Trial) {
    let (code, out, err) = trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(!is_busy(&trial), "the old command outlived the resumed run");
    let read = |name: &str| std::fs::read_to_string(trial.project().join(name)).unwrap();
    assert!(!read("ticks").is_empty());
    assert_eq!(
        read("ticks"),
        read("ticks-at-first"),
        "the old command wrote after the resumed run had begun"
    );
    assert!(trial.server.asked()[2].last_text().contains("Outcome unknown"));
    let names = std::fs::read_dir(trial.outside()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("rawko-")).collect();
    assert_eq!(left, Vec::<std::ffi::OsString>::new(), "what the killed run left is removed by the next");
}

fn is_busy(trial: &Trial) -> bool {
    testkit::processes_in(&trial.project()).iter().any(|(_, line)| line.contains("echo x >> ticks"))
}

fn busy(sandbox: &str) -> Running {
    let server = developer([bash(BUSY), bash("cp ticks ticks-at-first; sleep 0.2")]);
    let running = Trial::new(server).user_config("/permissions/sandbox", json!(sandbox)).start("Write.");
    running.wait_for_line("ticks");
    assert!(is_busy(&running.trial));
    running
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_runs_command_writes_nothing_during_the_resumed_run() {
    for sandbox in ["auto", "off"] {
        check_nothing_is_written_during(kill(busy(sandbox)));
    }
}

/// The processes whose parent is `parent`, with their command lines.
fn children(parent: &str) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let text = |name: &str| std::fs::read_to_string(process.path().join(name)).unwrap_or_default();
        let stat = text("stat");
        let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>());
        if fields.and_then(|fields| fields.get(1).map(|id| *id == parent)) == Some(true) {
            let pid = process.file_name().to_string_lossy().parse().unwrap();
            found.push((pid, text("cmdline").replace('\0', " ")));
        }
    }
    found
}

#[test]
#[cfg(target_os = "linux")]
fn so_it_is_where_nothing_is_left_that_would_end_it() {
    // A sandbox needs no reaper.
    let running = busy("off");
    let parent = running.wait_for_line("parent");
    let of_rawko = children(&parent);
    let reaper = of_rawko.iter().find(|(_, line)| line.contains("rawko-orphan-reaper"));
    let (reaper, _) = reaper.unwrap_or_else(|| panic!("no reaper: {of_rawko:?}"));
    kill_process(Pid::from_raw(*reaper).unwrap(), Signal::KILL).unwrap();
    let trial = kill(running);
    assert!(is_busy(&trial), "somebody else ended it");
    check_nothing_is_written_during(trial);
}

fn in_background(command: &str) -> Answer {
    call("Bash", &json!({"command": command, "run_in_background": true}))
}

/// The numbers of the warnings that contain `words`.
fn warnings(out: &str, words: &str) -> usize {
    let events = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events
        .filter(|event| event["type"] == "warned" && event["message"].as_str().unwrap().contains(words))
        .count()
}

#[test]
fn the_end_of_background_jobs_that_went_with_a_kill_is_reported_once() {
    let answers = [
        select("developer"),
        in_background("echo here > job; sleep 300.5"),
        in_background("exit 3"),
        bash("until [ -e job ]; do sleep 0.01; done; sleep 0.1"),
        Answer::Silence,
        in_background("sleep 300"),
        Answer::Silence,
        report("did it"),
        complete("done"),
    ];
    let running = Trial::new(ModelServer::sequence(answers)).start("Begin a job.");
    running.wait_for_line("job");
    running.wait_until("the turn", || running.trial.server.asked().len() == 5);
    let trial = kill(running);
    let resumed = trial.start_with("resume", "");
    resumed.wait_for_event("warned");
    resumed.wait_until("another turn", || resumed.trial.server.asked().len() == 7);
    let left = testkit::processes_in(&resumed.trial.project());
    assert!(!left.iter().any(|(_, line)| line.starts_with("sleep 300.5")), "{left:?}");
    let asked = resumed.trial.server.asked();
    // The one that had ended, and was reported, is not reported again.
    let text = asked[5].last_text();
    assert!(text.contains("[background job 1: lost with the process that ran it"), "{text}");
    assert!(text.contains("sleep 300") && text.contains("do not use it"), "{text}");
    assert!(!text.contains("background job 2"), "{text}");
    let started = asked[6].json["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(started.contains("[background job 3: started]"), "{started}");
    let ended = resumed.end_after(Signal::KILL);
    assert_eq!(warnings(&ended.stdout, "background job 1 of developer"), 1, "{}", ended.stdout);
    let (code, out, err) = ended.trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(warnings(&out, "background job 3 of developer"), 1, "{out}");
    assert_eq!(warnings(&out, "background job 1"), 0, "it was reported before: {out}");
    let text = ended.trial.server.asked()[7].last_text();
    assert!(text.contains("background job 3: lost") && !text.contains("background job 1"), "{text}");
    assert_eq!(ended.trial.rawko(&["replay", "last"]).0, Some(0));
}

/// A run that wrote a file and a line in a log, whose journal is then damaged in the record that `is_it` finds.
#[track_caller]
fn damaged(is_it: impl Fn(&str) -> bool) -> (Ended, String) {
    let write = call("Write", &json!({"file_path": "a.txt", "content": "x".repeat(2_000)}));
    let answers = [
        select("developer"),
        write,
        bash("echo one >> log"),
        report("did it"),
        complete("all done"),
        // After the repair.
        bash("cat log; cp log seen"),
        report("it was there"),
        complete("all is there"),
    ];
    let ended = Trial::new(ModelServer::sequence(answers)).run("Write.");
    ended.exits(0);
    let id = ended.finish()["session"].as_str().unwrap().to_owned();
    let path = journal_of(&ended.trial.project(), &id);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = lines.iter().position(|line| is_it(line)).expect("the record to damage");
    lines[at] = lines[at].replacen("\"data\"", "\"datA\"", 1);
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    (ended, id)
}

fn journal_of(project: &Path, id: &str) -> std::path::PathBuf {
    project.join(".rawko/sessions").join(id).join("journal.jsonl")
}

/// Repairs the session and gives the copy's id.
#[track_caller]
fn repair(ended: &Ended, id: &str, words: &[&str]) -> String {
    let (code, out, err) = ended.trial.rawko(&["sessions", "repair", id]);
    assert_eq!(code, Some(0), "{err}");
    for word in words {
        assert!(out.contains(word), "{word:?} is missing in:\n{out}");
    }
    out.trim_end().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn a_repaired_session_reports_what_may_have_been_done_and_keeps_its_checkpoints() {
    // The answer with the command is damaged: the model is asked for it again.
    let (ended, id) = damaged(|line| line.contains("ModelReplied") && line.contains("echo one"));
    let copy = repair(&ended, &id, &["outcome is unknown", "Bash: echo one >> log"]);
    let (code, out, err) = ended.trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains(&copy), "{out}");
    assert_eq!(warnings(&out, "the work after record"), 1, "{out}");
    let asked = ended.trial.server.asked();
    let text = asked[5].last_text();
    for words in ["damaged and repaired", "Bash: echo one >> log", "Look at what"] {
        assert!(text.to_lowercase().contains(&words.to_lowercase()), "{words} is missing in: {text}");
    }
    assert!(!text.contains("Write: a.txt"), "that is known: {text}");
    // The arbiter judges knowing of it.
    let question = asked[7].last_text();
    assert!(question.contains("Bash: echo one >> log"), "{question}");
    let log = std::fs::read_to_string(ended.trial.project().join("log")).unwrap();
    assert_eq!(log, "one\n");
    let (code, diff, err) = ended.trial.rawko(&["diff", &copy]);
    assert_eq!(code, Some(0), "{err}");
    assert!(diff.contains("a.txt") && diff.contains("log"), "{diff}");
    // It is not certain who wrote what the lost records were about.
    assert!(err.contains("log: changed after the session's last record"), "{err}");
    assert_eq!(ended.trial.rawko(&["replay", &copy]).0, Some(0));
    let (code, out, err) = ended.trial.rawko(&["rewind", &copy, "--to", "1"]);
    assert_eq!(code, Some(1), "{err}");
    assert!(out.contains("not restored: log (changed after the last record"), "{out}");
    assert!(!ended.trial.project().join("a.txt").exists());
    // The damaged one has been dealt with: there is nothing left to resume.
    let (code, _, err) = ended.trial.resume();
    assert_eq!((code, err.contains("no unfinished session")), (Some(2), true), "{err}");
}

#[test]
fn what_a_repaired_session_had_announced_is_not_done_again() {
    // The answer is intact, the record that announced the command is not: it was run all the same.
    let (ended, id) = damaged(|line| line.contains("\"RunTool\"") && line.contains("echo one"));
    repair(&ended, &id, &["outcome is unknown"]);
    let (code, out, err) = ended.trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    let log = std::fs::read_to_string(ended.trial.project().join("log")).unwrap();
    assert_eq!(log, "one\n", "the command was run again");
    let last = ended.trial.server.asked()[5].json["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(last.contains("Outcome unknown") && last.contains("damaged and repaired"), "{last}");
}

#[test]
fn long_arguments_of_lost_calls_are_found_and_reach_new_conversations_and_tasks() {
    // Nothing but the task is left: the arbiter is asked anew.
    let (ended, id) = damaged(|line| line.contains("ModelReplied"));
    let copy = repair(&ended, &id, &["Write: a.txt; Bash: echo one >> log"]);
    let asks = [select("developer"), report("nothing was left to do"), complete("all is there")];
    let trial = ended.trial.served_by(ModelServer::sequence(asks));
    let (code, out, err) = trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    let asked = trial.server.asked();
    for question in &asked[..3] {
        let text = question.json["messages"].to_string();
        assert!(text.contains("Write: a.txt") && text.contains("Bash: echo one >> log"), "{text}");
    }
    assert_eq!(trial.rawko(&["replay", &copy]).0, Some(0));
}
