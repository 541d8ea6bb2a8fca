//! `rawko tools`: verdicts, and calls with an agent's rights.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::place::{Place, wait_for};

#[track_caller]
fn check(question: &[&str], code: i32, parts: &[&str]) {
    let arguments = [&["tools", "check", "--agent"], question].concat();
    Place::new().rawko(&arguments).ends(code).says(parts);
}

#[test]
fn verdicts_name_the_rule() {
    check(
        &["planner", "--tool", "Write"],
        1,
        &["denied by tools.allowed", "add `- Write` under tools.allowed"],
    );
    check(&["developer", "--tool", "Write"], 0, &["allowed by tools.allowed"]);
    check(&["planner", "--tool", "Report"], 0, &["allowed by control tool"]);
    check(&["planner", "--tool", "write"], 1, &["denied by unknown tool", "`Write`"]);
    check(&["planner", "--", "git log | head"], 0, &["allowed by"]);
    check(
        &["planner", "--", "git log | sh"],
        1,
        &["denied by tools.bashFilter.allowedCommands", "`sh` is not listed"],
    );
    check(&["planner", "--", "git", "log", "--format=%h | sh"], 0, &["allowed by"]);
    check(
        &["planner", "--tool", "Bash", "--input", r#"{"command": "curl x"}"#],
        1,
        &["`curl` is not listed"],
    );
    check(&["developer", "--", "rm", "-rf", "build"], 0, &["allowed by"]);
}

#[test]
fn a_question_that_makes_no_sense_ends_in_2() {
    let place = Place::new();
    place.rawko(&["tools", "check", "--", "ls"]).ends(2).complains(&["--agent"]);
    place
        .rawko(&["tools", "check", "--agent", "nobody", "--", "ls"])
        .ends(2)
        .complains(&["there is no agent `nobody`"]);
    place
        .rawko(&["tools", "call", "Read", "--agent", "planner", "--input", "{"])
        .ends(2)
        .complains(&["not JSON"]);
    place
        .rawko(&["tools", "call", "Read", "--agent", "planner", "--input", "@no.json"])
        .ends(2)
        .complains(&["no.json"]);
    place.rawko(&["tools", "call", "Report", "--agent", "planner"]).ends(2).complains(&["control tool"]);
}

#[test]
fn verdicts_are_for_programs_too() {
    let place = Place::new();
    let verdict =
        place.rawko(&["tools", "check", "--agent", "planner", "--tool", "Edit", "--json"]).ends(1).json();
    assert_eq!((&verdict["verdict"], &verdict["rule"]), (&json!("denied"), &json!("tools.allowed")));
    let list = place.rawko(&["tools", "list", "--agent", "planner", "--json"]).ends(0).json();
    let edit = list.as_array().unwrap().iter().find(|tool| tool["name"] == "Edit").unwrap();
    assert_eq!(edit["verdict"]["verdict"], "denied");
    assert!(edit["inputSchema"]["properties"]["file_path"].is_object());
}

fn call(place: &Place, agent: &str, tool: &str, input: &Value) -> crate::place::Done {
    place.rawko(&["tools", "call", tool, "--agent", agent, "--input", &input.to_string()])
}

#[test]
fn a_call_has_the_rights_of_its_agent() {
    let place = Place::new();
    place.write("a.txt", "one\n\u{1b}[31mtwo\n");
    let read = call(&place, "planner", "Read", &json!({"file_path": "a.txt"})).ends(0).says(&["one", "two"]);
    assert!(!read.out.contains('\u{1b}'));
    let write = json!({"file_path": "b.txt", "content": "x"});
    call(&place, "planner", "Write", &write).ends(1).complains(&["denied by tools.allowed"]);
    assert!(!place.project().join("b.txt").exists());
    call(&place, "developer", "Write", &write).ends(0);
    assert!(place.project().join("b.txt").exists());
    call(&place, "developer", "Read", &json!({"file_path": "/etc/passwd"})).ends(1);
    call(&place, "developer", "Read", &json!({"file": "a.txt"})).ends(1).says(&["file_path"]);
    let bash = call(&place, "developer", "Bash", &json!({"command": "exit 7"})).ends(1);
    bash.says(&["7"]);
    place.write("input.json", r#"{"pattern": "*.txt"}"#);
    place
        .rawko(&["tools", "call", "Glob", "--agent", "planner", "--input", "@input.json"])
        .ends(0)
        .says(&["a.txt"]);
    let outcome = place
        .rawko(&["tools", "call", "Glob", "--agent", "planner", "--input", "@input.json", "--json"])
        .ends(0);
    assert_eq!(outcome.json()["isError"], false);
}

#[test]
fn an_interrupted_call_leaves_no_process_behind() {
    let place = Place::new();
    let input = json!({"command": "echo $$ > pid; sleep 1000"}).to_string();
    let mut command = place.command(&["tools", "call", "Bash", "--agent", "developer", "--input", &input]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid_file = place.project().join("pid");
    let pid = wait_for(|| std::fs::read_to_string(&pid_file).ok()?.trim().parse::<i32>().ok());
    let signalled =
        std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_for(|| (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
}
