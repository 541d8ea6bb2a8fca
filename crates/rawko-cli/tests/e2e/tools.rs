//! Tools that hang, and turns with several calls.

use std::time::{Duration, Instant};

use rawko::journal::{JournaledEffect, Record};
use serde_json::{Value, json};
use testkit::Wire;

use crate::answers::{always, bash, call, calls, complete, developer, report, select};
use crate::signals::nothing_is_left;
use crate::trial::Trial;

#[test]
fn a_command_that_hangs_is_ended_by_its_own_time() {
    let hang = json!({"command": "echo before; sleep 1000", "timeout": 300});
    let ended = Trial::new(developer([call("Bash", &hang)])).run("Hang.");
    ended.exits(0);
    let (output, is_error) = ended.results("Bash").remove(0);
    assert!(is_error && output.contains("timed out") && output.contains("before"), "{output}");
    assert!(ended.trial.server.asked()[2].last_text().contains("timed out"), "the model learns of it");
    assert!(nothing_is_left(&ended.trial), "the command outlived its time");
}

#[test]
fn a_command_that_hangs_is_ended_by_the_agents_time() {
    let agent = json!({"name": "sleeper", "systemPrompt": "Sleep.", "limits": {"timeout": 700}});
    let server = always(select("sleeper"), complete("never asked"), bash("sleep 1000"));
    let begun = Instant::now();
    let trial = Trial::new(server).agent(&agent).args(&["--yes"]).env("RAWKO_MAX_CONSECUTIVE_FAILURES", "1");
    let ended = trial.run("Hang.");
    ended.exits(1);
    assert_eq!(ended.finish()["error"]["code"], "timeout");
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(nothing_is_left(&ended.trial), "the command outlived the run");
}

/// The results of the last message, in order: the ids they answer and what they say.
fn answers_of(messages: &[&Value], wire: Wire) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let pair = |id: &Value, content: &Value| (id.as_str().unwrap().to_owned(), text(content));
    match wire {
        Wire::Claude => {
            let parts = messages.last().unwrap()["content"].as_array().unwrap().iter();
            parts
                .filter(|part| part["type"] == "tool_result")
                .map(|part| pair(&part["tool_use_id"], &part["content"]))
                .collect()
        }
        Wire::OpenAi => {
            let tools = messages.iter().filter(|message| message["role"] == "tool");
            tools.map(|message| pair(&message["tool_call_id"], &message["content"])).collect()
        }
        Wire::Responses => {
            let outputs = messages.iter().filter(|item| item["type"] == "function_call_output");
            outputs.map(|item| pair(&item["call_id"], &item["output"])).collect()
        }
    }
}

#[test]
fn calls_of_one_turn_are_answered_together_and_in_order() {
    for wire in Wire::ALL {
        let reads = calls(&[
            ("Read", json!({"file_path": "one.txt"})),
            ("Read", json!({"file_path": "two.txt"})),
            ("Write", json!({"file_path": "three.txt", "content": "third"})),
            ("Read", json!({"file_path": "three.txt"})),
        ]);
        let ended = Trial::new(developer([reads]))
            .wire(wire)
            .file("one.txt", "first\n")
            .file("two.txt", "second\n")
            .run("Read.");
        ended.exits(0);
        let asked = &ended.trial.server.asked()[2];
        let answers = answers_of(&asked.messages(), wire);
        let ids: Vec<&str> = answers.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["call_1_0", "call_1_1", "call_1_2", "call_1_3"]);
        for ((_, text), part) in answers.iter().zip(["first", "second", "three.txt", "third"]) {
            assert!(text.contains(part), "{part:?} is missing in {text:?}");
        }
        assert_eq!(ended.trial.server.asked().len(), 4, "one request brings all the answers");
    }
}

#[test]
fn reads_of_one_turn_run_side_by_side_and_writes_alone() {
    let read = |path: &str| ("Read", json!({ "file_path": path }));
    let write = ("Write", json!({"file_path": "c", "content": "c"}));
    let turn = calls(&[read("a"), read("b"), write, read("a"), read("c")]);
    let ended = Trial::new(developer([turn])).file("a", "a\n").file("b", "b\n").run("Read.");
    ended.exits(0);
    let mut batches = Vec::new();
    for record in &ended.journal().records {
        let Record::Step(step) = record else { continue };
        let tools = step.effects.iter().filter_map(|effect| match effect {
            JournaledEffect::RunTool { call, .. } => Some(call.name.clone()),
            JournaledEffect::Whole(_) => None,
        });
        batches.extend(Some(tools.collect::<Vec<_>>()).filter(|tools| !tools.is_empty()));
    }
    assert_eq!(batches, [vec!["Read", "Read"], vec!["Write"], vec!["Read", "Read"]]);
    assert_eq!(ended.results("Read").len(), 4);
}

#[test]
fn background_processes_end_with_their_call() {
    let turn = bash("sleep 300 & echo started");
    let ended = Trial::new(developer([turn, report("")])).run("Start a server.");
    assert!(nothing_is_left(&ended.trial));
}

#[test]
fn an_edit_with_line_numbers_or_escapes_gets_exactly_that_reason() {
    let edit = |old: &str, new: &str| {
        call("Edit", &json!({"file_path": "a.rs", "old_string": old, "new_string": new}))
    };
    let server = developer([
        call("Read", &json!({"file_path": "a.rs"})),
        edit("     1\tfn a() {\n     2\t    b();\n", "     1\tfn a() {\n"),
        edit(r"fn a() {\n    b();", "x"),
        edit("fn a() {\n    b();", "fn a() {\n    c();"),
    ]);
    let ended = Trial::new(server).file("a.rs", "fn a() {\n    b();\n}\n").run("Edit it.");
    ended.exits(0);
    let results = ended.results("Edit");
    assert!(results[0].1 && results[0].0.contains("line numbers that Read shows"), "{results:?}");
    assert!(
        results[0].0.contains("matches at line 1")
            && results[0].0.contains("new_string has line numbers too")
    );
    assert!(results[1].1 && results[1].0.contains("a backslash and an n"), "{results:?}");
    assert!(!results[2].1, "{results:?}");
    let now = std::fs::read_to_string(ended.trial.project().join("a.rs")).unwrap();
    assert_eq!(now, "fn a() {\n    c();\n}\n", "nothing was corrected, and the last edit was made");
}
