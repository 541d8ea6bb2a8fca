//! `arbiter.mode: hybrid`: what the record settles is decided by rules, and only the rest is put to a model.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, Say, Who};

use crate::answers::{bash, complete, report, select};
use crate::trial::{Ended, Trial};

pub(crate) const LONG: &str = "Write the answer to life, the universe and everything into answer.txt, check that it is the right one, and have somebody read it.";
const SHORT: &str = "Write the answer.";

/// Four agents that do their part; the model judges nothing but what it is asked.
pub(crate) fn agents(asked: &Asked) -> Answer {
    let has = |tool: &str| asked.tool_names().contains(&tool);
    let system = asked.system();
    let turn = asked.messages().len();
    let step = |status: &str| json!({"steps": [{"description": "Write answer.txt", "status": status}]});
    if system.contains("planner") && !has("Write") {
        return Say::default()
            .with_call("UpdatePlan", &step("pending"))
            .with_call("Report", &json!({"outcome": "success", "summary": "one step"}))
            .into();
    }
    match turn {
        1 if has("Write") && !system.contains("tester") => Say::default()
            .with_call("Write", &json!({"file_path": "answer.txt", "content": "42\n"}))
            .with_call("UpdatePlan", &step("complete"))
            .into(),
        1 if has("Write") => bash("./test.sh"),
        _ => report("my part is done"),
    }
}

#[track_caller]
fn run(task: &str) -> Ended {
    trial().run(task)
}

fn trial() -> Trial {
    let server = ModelServer::start(|asked: &Asked| match asked.who() {
        Who::Select => select("developer"),
        Who::Evaluate => complete("all done"),
        Who::Agent => agents(asked),
    });
    tested(Trial::new(server)).user_config("/arbiter/mode", json!("hybrid"))
}

/// A project with a test of the answer.
pub(crate) fn tested(trial: Trial) -> Trial {
    let trial = trial.file("test.sh", "#!/bin/sh\ngrep -qx 42 answer.txt\n");
    let script = trial.project().join("test.sh");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    trial
}

fn questions(ended: &Ended) -> usize {
    ended.trial.server.asked().iter().filter(|asked| asked.who() != Who::Agent).count()
}

fn decisions(ended: &Ended) -> Vec<(Value, Value)> {
    let decision = |event: Value| (event["source"].clone(), event["decision"]["mode"].clone());
    ended.events_of("decision_made").into_iter().map(decision).collect()
}

#[test]
fn what_the_record_settles_asks_no_model() {
    // rawko would run the tester's check itself, and know enough.
    let ended = trial().user_config("/verify", json!([])).run(LONG);
    ended.exits(0);
    let rule = |mode: Option<&str>| (json!("rule"), json!(mode));
    let expected = [
        rule(Some("planner")),
        rule(Some("developer")),
        rule(Some("tester")),
        rule(Some("reviewer")),
        rule(None),
    ];
    assert_eq!(decisions(&ended), expected, "{}", ended.stdout);
    assert_eq!(questions(&ended), 0);
    let (_, explained, _) = ended.trial.ask(&["explain", "last", "--json"]);
    for rule in ["beginning", "plan-made", "changed-not-tested", "tested-not-reviewed", "tested-and-reviewed"]
    {
        assert!(explained.contains(&format!("\"{rule}\"")), "{rule} is missing in {explained}");
    }
}

#[test]
fn what_it_does_not_settle_is_put_to_the_model() {
    let ended = run(SHORT);
    ended.exits(0);
    let decisions = decisions(&ended);
    assert_eq!(decisions[0], (json!("llm"), json!("developer")), "{}", ended.stdout);
    assert_eq!(questions(&ended), 1, "only the first question is open: {decisions:?}");
}
