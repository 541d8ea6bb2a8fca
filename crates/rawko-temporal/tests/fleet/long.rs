//! Long tasks and large results.

use rawko_core::session::{Override, Status};
use rawko_temporal::{ApprovalAnswer, Carriage};
use serde_json::json;

use crate::world::commands;

pub(crate) fn a_task_goes_on_in_new_runs_of_its_workflow_and_each_step_is_done_once() {
    let list: Vec<String> =
        (0..24).map(|n| format!("echo {n} >> MARKS/steps; echo {n} > step-{n}.txt")).collect();
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    let Some(world) = commands(&list) else { return };
    let _worker = world.worker("a");
    let fleet = world.fleet();
    let mut spec = world.spec("long", "Take many steps.");
    spec.carriage.history_events = 40;
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    let ended = world.ended(&fleet, "long");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed, "{}", world.logs());
    let steps: Vec<String> = (0..24).map(|step| step.to_string()).collect();
    assert_eq!(world.marked("steps"), steps);
    assert_eq!(world.effects("long").len(), 24);
    // Which runs there were is known to the engine alone.
    let runs = world.runs("long");
    assert!(runs > 3, "only {runs} runs");
}

pub(crate) fn an_answer_that_is_not_applied_yet_is_kept_over_a_new_run() {
    let Some(world) = commands(&["touch MARKS/touched", "echo done > done.txt"]) else { return };
    world.config(json!({
        "provider": {"default": "claude", "claude": {"baseUrl": world.models.claude_url()}},
        "permissions": {"run": ["echo"], "ask": ["commands"], "write": [".", world.marks()]},
    }));
    let _worker = world.worker("a");
    let fleet = world.fleet();
    let mut spec = world.spec("early", "Touch it.");
    spec.carriage = Carriage { history_events: 60, ..spec.carriage };
    world.runtime.block_on(fleet.submit(spec)).unwrap();
    let mut question = None;
    world.until("a question", || {
        let shown = world.runtime.block_on(fleet.show("early")).unwrap();
        question = shown.status.and_then(|status| status.question);
        question.is_some()
    });
    // While it is paused, answers are held back; enough words make a new run necessary.
    world.runtime.block_on(fleet.steer("early", Override::Pause)).unwrap();
    let answer =
        ApprovalAnswer { question: question.unwrap().digest, allowed: true, by: "a test".to_owned() };
    world.runtime.block_on(fleet.approve("early", answer)).unwrap();
    let before = world.runs("early");
    for word in 0..20 {
        world.runtime.block_on(fleet.steer("early", Override::Say { text: format!("word {word}") })).unwrap();
    }
    world.until("a new run", || world.runs("early") > before);
    assert!(!world.marks().join("touched").exists());
    world.runtime.block_on(fleet.steer("early", Override::Go)).unwrap();
    let ended = world.ended(&fleet, "early");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    assert!(world.marks().join("touched").exists());
}

pub(crate) fn a_task_with_large_results_keeps_them_out_of_the_engines_history() {
    let Some(world) = commands(&[
        "seq 1 20000 > numbers.txt; seq 1 20000",
        "for i in 1 2 3; do seq 1 20000; done",
        "cat numbers.txt",
        "echo done > done.txt",
    ]) else {
        return;
    };
    let _worker = world.worker("a");
    let fleet = world.submit("large", "Print much.");
    let ended = world.ended(&fleet, "large");
    assert_eq!(ended.status.unwrap().outcome.unwrap().status, Status::Claimed);
    let largest = world.largest_payload("large");
    assert!(largest <= 64 * 1024, "a payload of {largest} bytes is in the history");
    // All of it can be read.
    let events = world.events(&fleet, "large");
    assert!(serde_json::to_string(&events).unwrap().contains("19999"));
}
