//! `rawko [run] TASK`: how each kind of run ends, and what is said where.

use serde_json::{Value, json};

use crate::place::{Place, names};
use crate::support::Said;

fn select(mode: &str) -> Value {
    json!({"for": "select", "decision": {"decision": "SELECT_MODE", "mode": mode, "reason": "it is time"}})
}

fn complete() -> Value {
    json!({"for": "evaluate", "decision": {"decision": "COMPLETE", "reason": "done", "summary": "It is done."}})
}

fn report() -> Value {
    json!({"for": "developer", "text": "Working \u{1b}]0;evil\u{7}hard\u{1b}[31m.", "tools": [
        {"name": "Write", "input": {"file_path": "new.txt", "content": "hello\n"}},
        {"name": "Report", "input": {"outcome": "success", "summary": "Written."}},
    ]})
}

fn only_report() -> Value {
    json!({"for": "developer", "tools": [
        {"name": "Report", "input": {"outcome": "failure", "summary": "I may not write."}},
    ]})
}

fn done() -> Value {
    json!([select("developer"), report(), complete()])
}

fn error(code: &str) -> Value {
    json!([{"for": "select", "error": {"code": code, "message": "the server said no"}, "repeat": true},
           {"for": "developer", "error": {"code": code, "message": "the server said no"}, "repeat": true},
           {"for": "planner", "error": {"code": code, "message": "the server said no"}, "repeat": true}])
}

#[test]
fn a_run_without_git_says_so_and_goes_on() {
    let place = Place::scripted(&done());
    let output = place.command(&["write", "a", "file", "--yes"]).env("PATH", "").output().unwrap();
    Said::of(output)
        .ends(0)
        .complains(&["warning: git is not installed", "could not be kept before this change"]);
    assert_eq!(std::fs::read_to_string(place.project().join("new.txt")).unwrap(), "hello\n");
}

#[test]
fn a_run_that_is_claimed_to_be_done() {
    let place = Place::scripted(&done());
    let run = place.rawko(&["write", "a", "file", "--yes"]).ends(0);
    assert_eq!(std::fs::read_to_string(place.project().join("new.txt")).unwrap(), "hello\n");
    let run = run.says(&[
        "Claimed done, not verified: no check was found.",
        "It is done.",
        "Files changed: new.txt",
        "Iterations:    1",
        "journal.jsonl",
        "next: review the change",
    ]);
    let run = run.complains(&[
        "write a file",
        "commands are confined by",
        "decision: next: developer",
        "developer: Working hard.",
        "developer> Write new.txt",
        "session ended: claimed",
    ]);
    for text in [&run.out, &run.err] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "no control codes: {text:?}");
    }
}

#[test]
fn quiet_says_the_result_alone() {
    let run = Place::scripted(&done()).rawko(&["-qy", "write it"]).ends(0).says(&["Claimed done"]);
    assert_eq!(run.err, "");
}

#[test]
fn verbose_says_rules_and_more() {
    Place::scripted(&done()).rawko(&["-vy", "write it"]).ends(0).complains(&[
        "[tools.allowed",
        "usage: developer:",
        "agents developer",
    ]);
}

#[track_caller]
fn check_failure(script: &Value, arguments: &[&str], code: i32, parts: &[&str]) {
    let arguments = [&["--yes", "--output", "stream-json", "do it"], arguments].concat();
    let run = Place::scripted(script).rawko(&arguments).ends(code);
    let events = run.json_lines();
    assert_eq!(events[0]["type"], "session_started");
    let finished: Vec<_> = events.iter().filter(|event| event["type"] == "session_finished").collect();
    assert_eq!(finished.len(), 1);
    assert_eq!(finished[0], events.last().unwrap(), "it is the last one");
    run.says(parts);
}

#[test]
fn failures_end_in_their_status() {
    check_failure(&error("authentication_failed"), &[], 4, &["\"status\":\"failed\"", "the server said no"]);
    check_failure(&error("model_unavailable"), &[], 4, &["\"status\":\"failed\""]);
    check_failure(&error("invalid_request"), &[], 4, &["\"status\":\"failed\""]);
    check_failure(&error("context_length_exceeded"), &[], 4, &["\"status\":\"failed\""]);
    check_failure(&error("permission_error"), &[], 1, &["\"status\":\"failed\""]);
    let goes_on =
        json!({"for": "evaluate", "repeat": true, "decision": {"decision": "CONTINUE", "reason": "more"}});
    let busy = json!({"for": "developer", "repeat": true, "tools": [
        {"name": "Report", "input": {"outcome": "success", "summary": "More to do."}}]});
    let endless = json!([select("developer"), busy, goes_on]);
    check_failure(&endless, &["--max-iterations", "2"], 3, &["\"status\":\"limited\""]);
}

#[test]
fn without_a_key_nothing_is_begun() {
    let place = Place::new();
    let said = ["ANTHROPIC_API_KEY", "hint: set it", "rawko demo"];
    place.rawko(&["do it", "--provider", "claude"]).ends(4).complains(&said);
    place.without_servers();
    place.rawko(&["do it"]).ends(4).complains(&["ANTHROPIC_API_KEY is not set", "rawko demo"]);
    assert_eq!(names(&place.project()), Vec::<String>::new(), "nothing is left");
    let run = place.rawko(&["do it", "--output", "json"]).ends(4);
    assert_eq!(run.json()["status"], "failed");
    assert_eq!(run.json()["error"]["code"], "authentication_failed");
    let lines = place.rawko(&["do it", "--output", "stream-json"]).ends(4).json_lines();
    assert_eq!(
        lines.iter().map(|line| line["type"].clone()).collect::<Vec<_>>(),
        ["error", "session_finished"]
    );
}

#[test]
fn json_is_one_object() {
    let run = Place::scripted(&done()).rawko(&["--yes", "--output", "json", "write it"]).ends(0);
    let value = run.json();
    for key in ["status", "summary", "iterations", "usage", "costUsd", "filesModified", "durationMs"] {
        assert!(value.get(key).is_some(), "{key} is missing in {value}");
    }
    assert!(run.out.starts_with("{\"type\":\"session_finished\""));
    assert_eq!((&value["status"], &value["filesModified"]), (&json!("claimed"), &json!(["new.txt"])));
    assert!(run.err.contains("session ended: claimed"), "progress is beside it: {}", run.err);
}

#[test]
fn the_stream_puts_the_type_first_and_keeps_what_was_said() {
    let place = Place::scripted(&done());
    let output = place.command(&["--yes", "write it"]).env("RAWKO_OUTPUT", "stream-json").output().unwrap();
    let run = crate::support::Said::of(output).ends(0);
    assert!(run.out.lines().all(|line| line.starts_with("{\"type\":\"")));
    assert!(!run.out.contains('\u{1b}'), "escaped, as JSON has it");
    let said: String = run
        .json_lines()
        .iter()
        .filter(|event| event["type"] == "text_delta" && event["agent"] == "developer")
        .filter_map(|event| event["text"].as_str())
        .collect();
    assert_eq!(said, "Working \u{1b}]0;evil\u{7}hard\u{1b}[31m.", "a program gets it as it was");
}

#[test]
fn the_task_may_come_from_standard_input() {
    let place = Place::scripted(&done());
    let run = place.rawko_with(&["--yes", "--output", "stream-json", "-"], "häng\nit\n".as_bytes()).ends(0);
    assert_eq!(run.json_lines()[0]["task"], "häng\nit");
    place.rawko_with(&["-"], b" \n").ends(2).complains(&["no task was given"]);
    place.rawko_with(&["-"], b"\xff\xfe").ends(2).complains(&["not UTF-8"]);
    place.rawko_with(&["-"], &[b'x'; 1_100_000]).ends(2).complains(&["longer than 1 MiB"]);
}

#[test]
fn words_after_two_dashes_are_the_task() {
    let place = Place::scripted(&done());
    let run = place.rawko(&["--yes", "--output", "stream-json", "--", "init", "--verbose", "mode"]).ends(0);
    assert_eq!(run.json_lines()[0]["task"], "init --verbose mode");
}

#[test]
fn a_dry_run_changes_nothing() {
    // The write is refused, so the report beside it does not count, and the developer is asked once more.
    let place = Place::scripted(&json!([select("developer"), report(), only_report(), complete()]));
    let before = names(&place.project());
    let run = place.rawko(&["--yes", "--dry-run", "write it"]).ends(0);
    run.says(&["Dry run", "nothing was changed"]);
    assert_eq!(names(&place.project()), before);
    assert!(!place.project().join(".rawko/sessions").exists());
}

#[test]
fn a_dry_run_shows_the_exact_input_and_prompt_of_the_first_decision() {
    let script = json!([select("developer"), report(), only_report(), complete()]);
    let place = Place::scripted(&script);
    let run = place.rawko(&["--yes", "--dry-run", "write it"]).ends(0);
    run.says(&[
        "Decision 1 of",
        "## How to decide",
        "## Execution history",
        "Nothing has been done yet",
        "\"availableAgents\"",
    ]);
    let finished = place.rawko(&["--yes", "--dry-run", "--output", "json", "write it"]).ends(0).json();
    let first = &finished["decisions"][0];
    assert_eq!((&first["point"], &first["input"]["task"]), (&"select".into(), &"write it".into()));
    let question = first["calls"][0]["messages"][0]["content"][0]["text"].as_str().unwrap();
    assert!(question.starts_with("## Task\nwrite it"), "{question}");
    assert!(first["calls"][0]["system"].as_str().unwrap().contains("## Agents"));
    let kept = Place::scripted(&done()).rawko(&["--yes", "--output", "json", "write it"]).ends(0).json();
    assert!(kept.get("decisions").is_none(), "a run that is kept has its journal");
}

#[test]
fn broken_configuration_is_reported_whole_before_anything_runs() {
    let place = Place::new();
    place.write(".rawko/config.yaml", "constraints:\n  maxIteratons: 5\n");
    place.write(".rawko/agents/own.yaml", "name: own\n");
    let run = place.rawko(&["do it"]).ends(2);
    insta::assert_snapshot!(place.normal(&run.err));
    assert!(!place.project().join(".rawko/sessions").exists());
}
