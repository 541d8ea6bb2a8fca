//! `rawko machine`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::json;

use crate::place::Place;

const EVENTS: &str = r#"{"type":"START_TASK","task":"t"}

{"type":"AGENT_SELECTED","decision":{"type":"SELECT_MODE","mode":"solo","reason":"r"}}
{"type":"AGENT_COMPLETE","result":{"success":true,"output":"o"}}
{"type":"ARBITER_DECISION","decision":{"type":"COMPLETE","summary":"s"}}
"#;

#[track_caller]
fn check(arguments: &[&str], input: &str, code: i32, lines: usize, parts: &[&str]) {
    let arguments = [&["machine", "simulate"], arguments].concat();
    let done = Place::new().rawko_with(&arguments, input.as_bytes()).ends(code).complains(parts);
    assert_eq!(done.json_lines().len(), lines, "{}", done.out);
}

#[test]
fn every_event_gets_a_line() {
    let done = Place::new()
        .rawko_with(&["machine", "simulate", "--agents", "solo, other"], EVENTS.as_bytes())
        .ends(0);
    let lines = done.json_lines();
    let states: Vec<_> = lines.iter().map(|line| line["state"].clone()).collect();
    assert_eq!(states, [json!("selecting"), json!("executing"), json!("evaluating"), json!("complete")]);
    let keys = [
        "state",
        "ignored",
        "currentMode",
        "iterationCount",
        "consecutiveFailures",
        "totalFailures",
        "historyLength",
        "planStep",
        "lastDecision",
        "effects",
    ];
    let at: Vec<_> = keys.map(|key| done.out.find(&format!("\"{key}\"")).expect(key)).to_vec();
    assert!(at.is_sorted(), "the documented order: {}", done.out);
    assert_eq!(lines[1]["currentMode"], "solo");
    assert_eq!(lines[0]["currentMode"], "");
}

#[test]
fn limits_and_agents_are_those_of_the_options() {
    check(&[], "", 0, 0, &[]);
    check(&["-"], EVENTS, 0, 4, &[]);
    let place = Place::new();
    let last = |arguments: &[&str]| {
        let arguments = [&["machine", "simulate"], arguments].concat();
        place.rawko_with(&arguments, EVENTS.as_bytes()).ends(0).json_lines()[1]["state"].clone()
    };
    assert_eq!(last(&["--agents", "solo"]), "executing");
    assert_eq!(last(&["--agents", "planner"]), "selecting", "an unknown agent is an error that passes");
    assert_eq!(last(&["--agents", "planner", "--max-consecutive-failures", "1"]), "failed");
}

#[test]
fn a_bad_line_ends_in_2_and_is_named() {
    check(
        &[],
        "{\"type\":\"START_TASK\",\"task\":\"t\"}\n\nnonsense\n{\"type\":\"CANCEL\"}\n",
        2,
        1,
        &["line 3"],
    );
    check(&[], "{\"type\":\"STRAT_TASK\"}\n", 2, 0, &["line 1", "did you mean START_TASK?"]);
    check(&["--max-iterations", "0"], "", 2, 0, &["--max-iterations"]);
    check(&["nowhere.jsonl"], "", 2, 0, &["cannot read nowhere.jsonl", "hint:"]);
    check(&["."], "", 2, 0, &["cannot read"]);
    let done = Place::new().rawko_with(&["machine", "simulate"], b"{\"type\":\"CANCEL\"}\n\xff\n").ends(2);
    assert_eq!(done.json_lines().len(), 1);
    done.complains(&["line 2", "not UTF-8"]);
}

#[test]
fn a_file_does_as_well_as_standard_input() {
    let place = Place::new();
    place.write("events.jsonl", EVENTS.trim_end());
    assert_eq!(place.rawko(&["machine", "simulate", "events.jsonl"]).ends(0).json_lines().len(), 4);
}

#[test]
fn an_answer_comes_before_the_next_line_is_read() {
    let place = Place::new();
    let mut command = place.command(&["machine", "simulate"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for (line, state) in
        [(r#"{"type":"START_TASK","task":"t"}"#, "selecting"), (r#"{"type":"CANCEL"}"#, "cancelled")]
    {
        writeln!(input, "{line}").unwrap();
        assert!(answers.next().unwrap().unwrap().contains(state));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_machine_is_printed_in_every_form() {
    let place = Place::new();
    place.rawko(&["machine", "export"]).ends(0).says(&["stateDiagram-v2"]);
    place
        .rawko(&["machine", "export", "--format", "mermaid"])
        .ends(0)
        .says(&["stateDiagram-v2", "START_TASK"]);
    place.rawko(&["machine", "export", "--format", "dot"]).ends(0).says(&["digraph rawko {"]);
    let xstate = place.rawko(&["machine", "export", "--format", "xstate"]).ends(0).json();
    assert_eq!(xstate["initial"], "idle");
    place.rawko(&["machine", "export", "--format", "svg"]).ends(2).complains(&["mermaid", "xstate", "dot"]);
}
