//! A task from a failing test suite to a passing one, by four agents, over all wire formats.

use rawko_core::session::{EffectAnswer, Event};
use serde_json::json;
use testkit::{Answer, ModelServer, Say, Wire};

use crate::answers::{bash, call, complete, report, select};
use crate::journal;
use crate::trial::Trial;

const BROKEN: &str = "add() {\n  echo $(($1 - $2))\n}\n";
const SUITE: &str = "#!/bin/bash\n. ./calc.sh\ngot=$(add 2 3)\nif [ \"$got\" != 5 ]; then\n  echo \"FAIL: add 2 3 gave $got\"\n  exit 1\nfi\necho \"ok: add\"\n";

fn scenario() -> Vec<Answer> {
    let plan = json!({"steps": [{"description": "Make add add"}, {"description": "Run the tests"}]});
    vec![
        select("planner"),
        bash("ls && cat calc.sh"),
        Say {
            text: "The suite expects 5.\n".into(),
            thinking: "Minus is the culprit.".into(),
            ..Say::default()
        }
        .with_call("Read", &json!({"file_path": "tests/run.sh"}))
        .with_call("UpdatePlan", &plan)
        .into(),
        report("add subtracts; one character is wrong"),
        select("developer"),
        bash("bash tests/run.sh"),
        call("Read", &json!({"file_path": "calc.sh"})),
        call("Edit", &json!({"file_path": "calc.sh", "old_string": "$1 - $2", "new_string": "$1 + $2"})),
        report("add adds now"),
        select("tester"),
        bash("bash tests/run.sh"),
        report("the suite passes"),
        select("reviewer"),
        bash("git diff"),
        report("a change of one character, and the right one"),
        complete("add adds; the suite passes"),
    ]
}

#[track_caller]
fn check(wire: Wire) {
    let trial = Trial::new(ModelServer::sequence(scenario()))
        .wire(wire)
        .file("calc.sh", BROKEN)
        .file("tests/run.sh", SUITE);
    trial.git(&["add", "."]);
    trial.git(&["commit", "--quiet", "-m", "broken"]);
    let ended = trial.run("Make the test suite pass.");
    ended.exits(0);

    let finish = ended.finish();
    assert_eq!((&finish["status"], &finish["iterations"]), (&json!("claimed"), &json!(4)));
    assert_eq!(finish["filesModified"], json!(["calc.sh"]));
    let diff = ended.trial.git(&["diff", "--unified=0"]);
    assert!(diff.contains("-  echo $(($1 - $2))") && diff.contains("+  echo $(($1 + $2))"), "{diff}");
    assert_eq!(ended.trial.git(&["status", "--porcelain"]).trim(), "M calc.sh", "nothing else is left");

    let agents: Vec<_> =
        ended.events_of("agent_started").into_iter().map(|event| event["agent"].clone()).collect();
    assert_eq!(agents, ["planner", "developer", "tester", "reviewer"]);
    let shell = ended.results("Bash");
    let failed = shell.iter().filter(|(output, _)| output.contains("FAIL: add 2 3 gave -1")).count();
    let passed = shell.iter().filter(|(output, is_error)| output.contains("ok: add") && !is_error).count();
    assert_eq!((failed, passed), (1, 1), "{shell:?}");
    assert!(!ended.events_of("plan_updated").is_empty());
    let texts: String = ended.events_of("text_delta").iter().filter_map(|e| e["text"].as_str()).collect();
    assert!(texts.contains("The suite expects 5."), "{texts}");

    // What the agents did reached those who came after them.
    let asked = ended.trial.server.asked();
    assert_eq!(asked.len(), scenario().len(), "every answer was asked for once");
    let tester = asked.iter().find(|asked| asked.is_for("tester") && asked.messages().len() == 1).unwrap();
    assert!(tester.last_text().contains("add adds now"), "{}", tester.last_text());
    let replies = journal::events(&ended.journal())
        .filter(|e| matches!(e, Event::Answered { answer: EffectAnswer::ModelReplied { .. }, .. }))
        .count();
    assert_eq!(replies, asked.len());
}

#[test]
fn four_agents_make_a_suite_pass_over_the_messages_api() {
    check(Wire::Claude);
}

#[test]
fn four_agents_make_a_suite_pass_over_chat_completions() {
    check(Wire::OpenAi);
}

#[test]
fn four_agents_make_a_suite_pass_over_responses() {
    check(Wire::Responses);
}

#[test]
fn people_read_what_happened_and_what_to_do_next() {
    let ended = Trial::new(ModelServer::sequence(scenario()))
        .file("calc.sh", BROKEN)
        .file("tests/run.sh", SUITE)
        .output("text")
        .run("Make the test suite pass.");
    ended.exits(0).says(&["planner", "Edit", "FAIL"]);
    for part in
        ["Claimed done", "no command verified it", "add adds; the suite passes", "calc.sh", "rawko diff"]
    {
        assert!(ended.stdout.contains(part), "{part:?} is missing in:\n{}", ended.stdout);
    }
    let (folded, recorded) = journal::ends(&ended.journal());
    assert_eq!(folded, recorded);
}

#[test]
fn programs_can_have_the_result_alone() {
    let ended =
        Trial::new(ModelServer::sequence([select("developer"), report("did it"), complete("all done")]))
            .output("json")
            .run("Do it.");
    ended.exits(0);
    let result: serde_json::Value = serde_json::from_str(&ended.stdout).expect(&ended.stdout);
    assert_eq!((&result["type"], &result["agentSummary"]), (&json!("session_finished"), &json!("all done")));
}
