//! The record sees what models do: they pipe their test runs through `tail`, and write files with Bash.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, Say, Who};

use crate::answers::{bash, complete, report, select};
use crate::trial::{Ended, Trial};

const TASK: &str = "Write the answer to life, the universe and everything into answer.txt, check that it is the right one, and have somebody read it.";
const SUITE: &str = "#!/bin/sh\necho running\nif grep -qx 42 answer.txt; then echo '=== 1 passed in 0.01s ==='; exit 0; fi\necho '=== 1 failed in 0.01s ==='\nexit 1\n";

/// A project whose suite wants 42 in `answer.txt`, and which rawko does not verify: what agents ran is all there is.
fn project(server: ModelServer, mode: &str) -> Trial {
    let trial = Trial::new(server).file("test.sh", SUITE).user_config("/arbiter/mode", json!(mode));
    let trial = trial.user_config("/verify", json!([]));
    let script = trial.project().join("test.sh");
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    trial
}

fn plan(status: &str) -> Value {
    json!({"steps": [{"description": "Write answer.txt", "status": status}]})
}

/// A run by rules alone, in which the agents give these answers one after the other, and report success whenever they have none.
fn by_rules<const N: usize>(work: [(&'static str, Vec<Answer>); N]) -> Ended {
    let planner = Say::default()
        .with_call("UpdatePlan", &plan("pending"))
        .with_call("Report", &json!({"outcome": "success", "summary": "one step"}));
    let mut left: BTreeMap<&str, VecDeque<Answer>> =
        work.into_iter().map(|(agent, answers)| (agent, answers.into())).collect();
    let server = ModelServer::start(move |asked: &Asked| {
        let has = |tool: &str| asked.tool_names().contains(&tool);
        let agent = match (has("Write"), has("Bash")) {
            (true, _) if asked.system().contains("tester") => "tester",
            (true, _) => "developer",
            (false, _) if asked.is_for("planner") => return planner.clone().into(),
            (false, _) => "reviewer",
        };
        let next = left.get_mut(agent).and_then(VecDeque::pop_front);
        next.unwrap_or_else(|| report("my part is done"))
    });
    project(server, "rules").run(TASK)
}

fn writes(content: &str) -> Answer {
    Say::default()
        .with_call("Write", &json!({"file_path": "answer.txt", "content": content}))
        .with_call("UpdatePlan", &plan("complete"))
        .into()
}

/// The decisions: the agent that was selected, or what else was decided.
fn decisions(ended: &Ended) -> Vec<String> {
    let shown = |event: Value| {
        let decision = &event["decision"];
        let name = decision["mode"].as_str().or_else(|| decision["type"].as_str());
        name.unwrap_or_default().to_owned()
    };
    ended.events_of("decision_made").into_iter().map(shown).collect()
}

#[test]
fn a_red_check_behind_a_pipe_is_no_completion() {
    let piped = "./test.sh 2>&1 | tail -5";
    let ended = by_rules([
        ("developer", vec![writes("41\n"), report("done"), bash("echo 42 > answer.txt"), report("done now")]),
        ("tester", vec![bash(piped), report("it passes"), bash(piped), report("it passes")]),
    ]);
    ended.exits(0);
    assert_eq!(
        decisions(&ended),
        ["planner", "developer", "tester", "developer", "tester", "reviewer", "COMPLETE"],
        "{}",
        ended.stdout
    );
}

#[test]
fn a_write_by_bash_makes_an_earlier_check_stale() {
    let ended = by_rules([
        ("developer", vec![writes("42\n"), report("done")]),
        (
            "tester",
            vec![
                bash("./test.sh"),
                bash("sed -i s/42/41/ answer.txt"),
                report("it passes"),
                bash("sed -i s/41/42/ answer.txt && ./test.sh"),
                report("it passes"),
            ],
        ),
    ]);
    ended.exits(0);
    assert_eq!(
        decisions(&ended),
        ["planner", "developer", "tester", "CONTINUE", "reviewer", "COMPLETE"],
        "{}",
        ended.stdout
    );
}

#[test]
fn the_arbiter_is_shown_the_status_of_each_member() {
    let mut turn = 0;
    let server = ModelServer::start(move |asked: &Asked| match asked.who() {
        Who::Select => select("developer"),
        Who::Evaluate => complete("all done"),
        Who::Agent => {
            turn += 1;
            match turn {
                1 => bash("./test.sh 2>&1 | tail -1"),
                2 => bash("./test.sh > /dev/null | cat"),
                3 => bash("cat answer.txt"),
                _ => report("it passes"),
            }
        }
    });
    // The red check is an objection to each COMPLETE.
    let ended = project(server, "llm").args(&["--max-iterations", "2"]).run(TASK);
    ended.exits(3);
    let asked = ended.trial.server.asked();
    let question = asked.iter().find(|asked| asked.who() == Who::Evaluate).unwrap().last_text();
    for line in [
        "Recorded check: exit 1 (its pipeline: 1 | 0), FAILED by its own summary `=== 1 failed in 0.01s ===`: ./test.sh 2>&1 | tail -1",
        "Recorded check: exit 1 (its pipeline: 1 | 0): ./test.sh > /dev/null | cat",
        "Recorded command: exit 1: cat answer.txt",
    ] {
        assert!(question.contains(line), "`{line}` is missing in {question}");
    }
}
