//! Runs that would go on for ever: the loop breaker stops each within the bounds that `docs/arbiter.md` states.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, Who};

use crate::answers::{always, bash, call, complete, decide, report, select};
use crate::trial::{Ended, Trial};

/// No more executions in a row than this change neither the tree nor the plan.
const MOST_WITHOUT_PROGRESS: u64 = 9;

/// The run ends as limited, because nothing new came, and says what came again and again.
#[track_caller]
fn stalled(server: ModelServer, words: &str) -> Ended {
    let ended = Trial::new(server).run("Do it.");
    ended.exits(3);
    let finish = ended.finish();
    assert_eq!((&finish["status"], &finish["limit"]), (&json!("limited"), &json!("stalled")), "{finish}");
    let summary = finish["summary"].as_str().unwrap();
    assert!(summary.contains("circles") && summary.contains(words), "{summary}");
    ended
}

/// An arbiter that always answers this is stopped, whichever agent works; before that, another agent was tried.
#[track_caller]
fn check_arbiter(evaluate: &Answer) {
    let ended = stalled(always(select("developer"), evaluate.clone(), report("I think it is fine")), "");
    assert!(ended.finish()["iterations"].as_u64().unwrap() <= MOST_WITHOUT_PROGRESS, "{}", ended.finish());
    let started = ended.events_of("agent_started");
    assert!(started.iter().any(|event| event["agent"] != started[0]["agent"]), "{started:?}");
    let is_warned = |asked: &Asked| asked.last_text().contains("Going round in circles");
    assert!(ended.trial.server.asked().iter().any(is_warned), "the arbiter is warned first");
}

#[test]
fn always_retry() {
    check_arbiter(&decide(json!({"decision": "RETRY", "reason": "again"})));
}

#[test]
fn always_continue() {
    check_arbiter(&decide(json!({"decision": "CONTINUE", "reason": "more"})));
}

#[test]
fn always_the_same_agent() {
    check_arbiter(&select("developer"));
}

#[test]
fn two_agents_that_hand_over_to_each_other() {
    let behaviour = move |asked: &Asked| match asked.who() {
        Who::Select => select("developer"),
        Who::Evaluate if asked.last_text().contains("## Last execution\n- **developer**") => {
            select("reviewer")
        }
        Who::Evaluate => select("developer"),
        // Other words each time are nothing new.
        Who::Agent => report(&format!("it is the other one's turn, number {}", asked.number)),
    };
    let ended = stalled(ModelServer::start(behaviour), "");
    assert!(ended.finish()["iterations"].as_u64().unwrap() <= MOST_WITHOUT_PROGRESS);
}

/// An agent that never does anything but this.
#[track_caller]
fn check_agent(endless: &Answer, tool: &str) -> Ended {
    let go_on = decide(json!({"decision": "CONTINUE", "reason": "let it finish"}));
    let ended = stalled(always(select("developer"), go_on, endless.clone()), tool);
    // The ninth time is the last. An agent that may not do it is refused: another result, with a count of its own.
    let calls = ended.events_of("tool_called");
    let refused = calls.iter().filter(|call| call["allowed"] == false).count();
    assert!(
        calls.len() - refused <= 9 && refused <= 9,
        "{} calls, {refused} refused: {:#?}",
        calls.len(),
        ended.events_of("tool_finished")
    );
    let asked = ended.trial.server.asked();
    let is_warned =
        |asked: &Asked| asked.who() == Who::Agent && asked.last_text().contains("nothing changed in between");
    assert!(asked.iter().any(is_warned), "the agent is warned first");
    let decided = ended.events_of("decision_made");
    assert!(
        decided.iter().any(|decision| decision["source"] == "rule"),
        "another agent had to work: {decided:?}"
    );
    ended
}

#[test]
fn the_same_command_for_ever() {
    // What differs in nothing but figures is the same.
    let ended = check_agent(&bash("echo took $RANDOM ms; exit 3"), "Bash");
    let outputs: Vec<Value> =
        ended.events_of("tool_finished").into_iter().map(|it| it["outcome"]["content"].clone()).collect();
    assert!(outputs.iter().any(|output| *output != outputs[0]), "the figures did differ: {outputs:?}");
}

#[test]
fn the_same_file_for_ever() {
    check_agent(&call("Read", &json!({"file_path": "none.txt"})), "Read");
}

#[test]
fn a_call_that_is_denied_for_ever() {
    let go_on = decide(json!({"decision": "CONTINUE", "reason": "let it finish"}));
    let denied = call("Teleport", &json!({"to": "the end"}));
    let ended = stalled(always(select("developer"), go_on, denied), "Teleport");
    assert_eq!(ended.events_of("tool_called").len(), 9);
}

#[test]
fn no_permission_and_no_trust_sets_the_counts_back() {
    let go_on = decide(json!({"decision": "CONTINUE", "reason": "let it finish"}));
    let server = always(select("developer"), go_on, bash("false"));
    let trial = Trial::new(server).args(&[
        "--yes",
        "--allow-run=*",
        "--allow-write=/",
        "--allow-read=/",
        "--allow-net=*",
    ]);
    let ended = trial.run("Do it.");
    ended.exits(3);
    assert_eq!(ended.finish()["limit"], "stalled");
    assert!(ended.events_of("tool_finished").len() <= 18, "no more than without");
}

/// However new it looks, work that comes to nothing ends within so many model calls.
const MOST_CALLS: usize = 150;

/// An agent that does something else in each turn, without any progress.
#[track_caller]
fn check_useless(turn: impl Fn(usize) -> Answer + Send + Sync + 'static) {
    let ended = stalled(
        ModelServer::start(move |asked: &Asked| match asked.who() {
            Who::Select => select("developer"),
            Who::Evaluate => decide(json!({"decision": "CONTINUE", "reason": "let it finish"})),
            Who::Agent => turn(asked.number),
        }),
        "a model call with no check that is better",
    );
    let asked = ended.trial.server.asked().len();
    assert!(asked <= MOST_CALLS, "{asked} model calls");
}

#[test]
fn a_counter_in_a_file() {
    check_useless(|number| bash(&format!("echo {number} >> counter.txt")));
}

#[test]
fn another_useless_command_each_time() {
    check_useless(|number| bash(&format!("echo attempt {number}; sleep 0")));
}

#[test]
fn another_plan_each_time() {
    check_useless(|number| {
        let step = json!({"description": format!("think of {}", "x".repeat(number)), "status": "pending"});
        call("UpdatePlan", &json!({"steps": [step]}))
    });
}

#[test]
fn another_blank_in_a_file() {
    check_useless(|number| {
        let content = format!("a note{}", "\n".repeat(number + 1));
        call("Write", &json!({"file_path": "notes.txt", "content": content}))
    });
}

#[test]
fn other_output_without_a_change() {
    check_useless(|_| bash("head -c 30 /dev/urandom | base64"));
}

#[test]
fn sleeping() {
    check_useless(|number| bash(&format!("sleep 0.00{number}")));
}

#[test]
fn other_words_at_the_end_of_a_file() {
    check_useless(|number| bash(&format!("echo {} >> notes.md", word(number))));
}

/// A word of its own for each number, without a figure.
fn word(number: usize) -> String {
    let letters = number.to_string().into_bytes();
    letters.into_iter().map(|digit| char::from(digit - b'0' + b'a')).collect()
}

/// After such a stop, `rawko resume` takes the newest session like any other that can go on.
#[test]
fn a_run_that_was_stopped_is_resumed() {
    let is_resumed = Arc::new(AtomicBool::new(false));
    let resumed = Arc::clone(&is_resumed);
    let ended = stalled(
        ModelServer::start(move |asked: &Asked| match (asked.who(), resumed.load(Ordering::SeqCst)) {
            (Who::Select, _) => select("developer"),
            (Who::Evaluate, false) => decide(json!({"decision": "CONTINUE", "reason": "let it finish"})),
            (Who::Agent, false) => bash(&format!("echo {} >> notes.md", word(asked.number))),
            (Who::Agent, true) => report("it is enough now"),
            (Who::Evaluate, true) => complete("the notes are there"),
        }),
        "140 times: a model call with no check",
    );
    is_resumed.store(true, Ordering::SeqCst);
    let before = ended.trial.server.asked().len();
    let (code, out, err) = ended.trial.resume();
    assert_eq!(code, Some(0), "{out}{err}");
    let asked = ended.trial.server.asked();
    assert!(asked.len() - before <= 4, "{} calls", asked.len() - before);
    assert!(
        asked[before..]
            .iter()
            .any(|asked| asked.who() == Who::Agent && format!("{:?}", asked.messages()).contains("notes.md"))
    );
}
