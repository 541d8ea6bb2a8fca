//! What `rawko agents show` and `rawko tools check --batch` say of an agent's rights.

use serde_json::{Value, json};

use crate::place::Place;

/// The lines about rights.
fn rights(place: &Place, agent: &str) -> String {
    let out = place.rawko(&["agents", "show", agent]).ends(0).out;
    let from = out.find("May do").unwrap();
    let to = out[from..].find("\n\n").unwrap() + from;
    format!("{agent}\n{}", &out[from..to])
}

#[test]
fn the_effective_rights_are_shown_with_their_sources() {
    let place = Place::new();
    // Not every machine has a sandbox.
    place.write(".rawko/config.yaml", "permissions:\n  sandbox: off\n");
    let builtin = ["planner", "developer", "tester", "reviewer"].map(|agent| rights(&place, agent));
    insta::assert_snapshot!("rights_of_built_in_agents", builtin.join("\n\n"));
    place.write(
        ".rawko/config.yaml",
        "permissions:\n  write: [src, docs]\n  deny: [.env]\n  net: [cargo]\n  sandbox: off\n",
    );
    place.write(
        ".rawko/agents/own.yaml",
        "name: own\nsystemPrompt: Do it.\nwhenToUse: Always.\ntools:\n  allowed: [Read, Write, Bash]\n  bashFilter:\n    \
         allowedCommands: [ls]\npermissions:\n  write: [src]\n  run: [ls]\n",
    );
    insta::assert_snapshot!("rights_of_a_configured_agent", rights(&place, "own"));
    let shown = place.rawko(&["agents", "show", "own", "--json"]).ends(0).json();
    let write = shown["rights"].as_array().unwrap().iter().find(|right| right["name"] == "write").unwrap();
    assert_eq!(write["grants"], json!(["src"]));
    assert_eq!(write["source"], ".rawko/agents/own.yaml:9, .rawko/config.yaml:2");
    assert_eq!(shown["sandbox"], json!({"confined": false, "source": ".rawko/config.yaml:5"}));
}

/// The answers to a batch, and its exit status.
#[track_caller]
fn batch(place: &Place, agent: &[&str], questions: &str, code: i32) -> Vec<Value> {
    place.write("questions.jsonl", questions);
    let arguments = [&["tools", "check", "--batch", "questions.jsonl"], agent].concat();
    let out = place.rawko(&arguments).ends(code).out;
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_batch_is_answered_line_by_line() {
    let place = Place::new();
    place.write("a.txt", "x");
    let questions = r#"{"id": "1", "command": "ls | wc", "filter": {"allowedCommands": ["ls", "wc"]}, "why": "ignored"}
{"id": "2", "command": "ls >x", "filter": {"allowedCommands": ["ls"]}}
{"id": "3", "command": "ls >x", "filter": {"allowedCommands": ["ls"]}, "enforced": true}
{"id": "4", "command": "ls >../x", "filter": {"allowedCommands": ["ls"]}, "enforced": true}
{"id": 5, "command": "rm x", "filter": {"allowedCommands": ["ls"]}}
{"id": "6", "command": "sudo x", "filter": {"blockedPatterns": ["sudo "]}}
{"id": "7", "command": "ls", "filter": {"blockedPatterns": ["("]}}

{"id": "8", "path": "a.txt"}
{"id": "9", "path": "/etc/passwd"}
{"id": "10", "path": "../x", "access": "write"}
{"id": "11", "path": "a.txt", "access": "write", "permissions": {"write": []}}
{"id": "12", "path": "a.txt", "tool": "Edit", "permissions": {"write": ["."], "deny": ["a.txt"]}}
"#;
    let answers = batch(&place, &[], questions, 0);
    let outline: Vec<String> = answers
        .iter()
        .map(|answer| {
            assert_eq!(answer["reason"].is_null(), answer["verdict"] == "allow", "{answer}");
            let text = |field: &str| answer[field].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", answer["id"], text("verdict"), text("rule"))
        })
        .collect();
    insta::assert_snapshot!("batch_answers", outline.join("\n"));
    let reason = answers[4]["reason"].as_str().unwrap();
    assert!(reason.contains("add `- rm` under tools.bashFilter.allowedCommands"), "{reason}");
}

#[test]
fn a_line_that_is_no_question_is_an_error_and_the_others_are_answered() {
    let place = Place::new();
    let questions = "{\"id\": 1, \"command\": \"ls\"}\nnonsense\n{\"id\": 3}\n{\"id\": 4, \"path\": \"a\", \"tool\": \"Bash\"}\n{\"id\": 5, \"command\": \"ls\"}";
    let answers = batch(&place, &[], questions, 2);
    let lines: Vec<&Value> = answers.iter().map(|answer| &answer["line"]).collect();
    assert_eq!(lines, [&Value::Null, &json!(2), &json!(3), &json!(4), &Value::Null]);
    assert_eq!((&answers[0]["id"], &answers[4]["id"]), (&json!(1), &json!(5)));
    place.rawko(&["tools", "check", "--batch", "none.jsonl"]).ends(2).complains(&["cannot read none.jsonl"]);
    place.rawko(&["tools", "check"]).ends(2);
}

#[test]
fn a_batch_for_an_agent_has_its_rights() {
    let place = Place::new();
    let questions = "{\"id\": 1, \"command\": \"ls; touch x\"}\n{\"id\": 2, \"path\": \"x\", \"access\": \"write\"}\n\
                     {\"id\": 3, \"command\": \"touch x\", \"filter\": {\"allowedCommands\": [\"touch\"]}}";
    let verdicts = |agent: &str| {
        let answers = batch(&place, &["--agent", agent], questions, 0);
        answers.iter().map(|answer| answer["verdict"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(verdicts("planner"), ["deny", "deny", "allow"]);
    assert_eq!(verdicts("developer"), ["allow", "allow", "allow"]);
}
