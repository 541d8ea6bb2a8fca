//! Memories in a session: recalled before a conversation begins, extracted after an execution, and never fatal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_support;

use rawko_core::ErrorCode;
use rawko_core::memory::{Recalled, RecalledMemory, Unmet, UseOutcome};
use rawko_core::message::StopReason;
use rawko_core::session::{Effect, EffectAnswer, Event, KeptMemory, Note, Override, Status};
use rawko_core::setup::{ExtractSetup, MemorySetup, Setup};
use rawko_core::tool::{SeenFile, ToolOutcome};
use serde_json::{Value, json};
use session_support::{Bench, call, model, setup};

fn with_memory(extract: bool) -> Setup {
    let extract = extract.then(|| ExtractSetup {
        model: model("scribe"),
        prompt: "You keep the memory.".into(),
        max_tokens: 200,
    });
    Setup { memory: Some(MemorySetup { inject: true, extract }), ..setup() }
}

fn recalled() -> Recalled {
    let memory = RecalledMemory {
        path: "tests.md".into(),
        title: "The tests need a port".into(),
        score: 40.0,
        files: vec!["ports.txt".into()],
    };
    Recalled {
        block: "## Background\nport 7".into(),
        memories: vec![memory],
        unmet: Unmet { no_place: 2, ..Unmet::default() },
        problems: vec!["b.md: no title".into()],
    }
}

#[track_caller]
fn recall(bench: &mut Bench, recalled: Recalled) {
    bench.answer(
        |effect| matches!(effect, Effect::Recall { .. }),
        |effect| Event::Answered { effect, answer: EffectAnswer::MemoriesRecalled { recalled } },
    );
}

fn system(bench: &Bench) -> String {
    let effect = bench.open.iter().find(|effect| matches!(effect, Effect::CallModel { .. })).unwrap();
    bench.requests[&effect.awaits_answer().unwrap()].system.to_string()
}

fn complete() -> Value {
    json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"})
}

#[test]
fn memories_end_the_system_prompt_and_their_use_is_reported() {
    let mut plain = Bench::start(setup());
    plain.select("developer");
    let before = system(&plain);

    let mut bench = Bench::start(with_memory(false));
    bench.select("developer");
    let lost = bench.take(|effect| matches!(effect, Effect::Recall { agent, .. } if agent == "developer"));
    bench.give(Event::Answered { effect: lost.awaits_answer().unwrap(), answer: EffectAnswer::EffectLost });
    recall(&mut bench, recalled());
    assert_eq!(system(&bench), format!("{before}\n## Background\nport 7\n"), "all before them is the same");
    assert!(
        bench.notes.iter().any(|note| matches!(note, Note::Warned { message } if message.contains("b.md")))
    );
    let given = bench.notes.iter().find_map(|note| match note {
        Note::MemoriesRecalled { memories, unmet, .. } => Some((memories.len(), *unmet)),
        _ => None,
    });
    assert_eq!(given, Some((1, recalled().unmet)));
    bench.reply(vec![call("a", "Read", json!({}))], StopReason::ToolUse);
    let (read, _) = bench.running()[0].clone();
    let files_seen = vec![SeenFile { path: "ports.txt".into(), digest: "d".into() }];
    bench.finish_tool(read, ToolOutcome { files_seen, ..ToolOutcome::ok("7") });
    bench.report("success");
    let used = bench.notes.iter().find_map(|note| match note {
        Note::MemoriesUsed { uses, .. } => Some(uses[0].clone()),
        _ => None,
    });
    let used = used.unwrap();
    assert_eq!((used.touched, used.cited, used.outcome), (true, false, UseOutcome::Success));
    // The same conversation continues with its memories: its beginning stays unchanged.
    bench.decide(json!({"decision": "CONTINUE", "reason": "r"}));
    assert!(!bench.open.iter().any(|effect| matches!(effect, Effect::Recall { .. })));
    assert!(system(&bench).contains("port 7"));
    bench.report("success");
    bench.decide(complete());
    bench.ended(Status::Claimed);
}

#[test]
fn memories_are_searched_for_the_task_and_the_current_step() {
    let mut bench = Bench::start(with_memory(false));
    bench.select("planner");
    recall(&mut bench, Recalled::default());
    let steps = json!([{"description": "read the logs", "status": "complete"}, {"description": "repair it", "status": "pending"}]);
    bench.reply(vec![call("p", "UpdatePlan", json!({"steps": steps}))], StopReason::ToolUse);
    bench.report("success");
    bench.select("developer");
    let Effect::Recall { task, step, .. } = bench.take(|effect| matches!(effect, Effect::Recall { .. }))
    else {
        unreachable!()
    };
    assert!(!task.is_empty());
    assert_eq!(step.as_deref(), Some("repair it"));
}

fn draft(learned: bool) -> Value {
    json!({"learned": learned, "title": "The tests need a port", "whenToUse": ["running the tests"], "body": "Port 7."})
}

/// The developer reports, and the extractor is asked.
fn until_the_extractor() -> Bench {
    let mut bench = Bench::start(with_memory(true));
    bench.select("developer");
    recall(&mut bench, Recalled::default());
    bench.report("success");
    let asked = bench.asked();
    assert!(asked.starts_with("You keep the memory.") && asked.contains("success it was"), "{asked}");
    bench
}

#[test]
fn a_lesson_is_kept_before_the_work_is_judged() {
    let mut bench = until_the_extractor();
    bench.reply(vec![call("m", "remember", draft(true))], StopReason::ToolUse);
    let lost = bench.take(|effect| matches!(effect, Effect::Remember { .. }));
    bench.give(Event::Answered { effect: lost.awaits_answer().unwrap(), answer: EffectAnswer::EffectLost });
    let kept = KeptMemory::Written { path: "the-tests.md".into() };
    bench.answer(
        |effect| matches!(effect, Effect::Remember { agent, iteration: 1, .. } if agent == "developer"),
        |effect| Event::Answered { effect, answer: EffectAnswer::MemoryKept { kept: kept.clone() } },
    );
    assert!(bench.notes.iter().any(|note| matches!(note, Note::MemoryKept { kept: it, .. } if *it == kept)));
    bench.decide(json!({"decision": "RETRY", "reason": "r"}));
    bench.select("developer");
    recall(&mut bench, Recalled::default());
    bench.report("success");
    bench.reply(vec![call("m", "remember", draft(false))], StopReason::ToolUse);
    // Its budget of 200 tokens is used up: after the third execution it is not asked.
    bench.decide(json!({"decision": "RETRY", "reason": "r"}));
    bench.select("planner");
    recall(&mut bench, Recalled::default());
    bench.report("success");
    assert!(bench.asked().contains("## Last execution"), "220 of 200 are used: {}", bench.asked());
}

#[test]
fn an_extractor_that_fails_is_not_in_the_way() {
    for failure in 0..3 {
        let mut bench = until_the_extractor();
        match failure {
            0 => bench.fail_model(ErrorCode::NetworkError),
            1 => {
                let nonsense = json!({"learned": "yes"});
                let _ = bench.reply(vec![call("m", "remember", nonsense)], StopReason::ToolUse);
            }
            _ => {
                let _ = bench.reply(vec![], StopReason::Refusal);
            }
        }
        assert!(bench.asked().contains("## Last execution"), "{failure}");
        let warned = |note: &Note| matches!(note, Note::Warned { message } if message.contains("memory of this project"));
        assert!(bench.notes.iter().any(warned), "{failure}");
        bench.decide(complete());
        bench.ended(Status::Claimed);
    }
}

#[test]
fn a_cancelled_run_waits_for_no_memory() {
    let mut bench = until_the_extractor();
    bench.give(Event::CancelRequested { reason: "enough".into() });
    bench.ended(Status::Cancelled);
    let mut bench = Bench::start(with_memory(true));
    bench.select("developer");
    bench.give(Event::CancelRequested { reason: "enough".into() });
    bench.ended(Status::Cancelled);
}

fn uses(notes: &[Note]) -> Vec<(&str, bool)> {
    let uses = notes.iter().filter_map(|note| match note {
        Note::MemoriesUsed { agent, uses, .. } => Some((agent.as_str(), uses[0].cited)),
        _ => None,
    });
    uses.collect()
}

/// The developer has worked with its memories; each following case has a session of its own.
fn after_one_execution(setup: Setup) -> Bench {
    let mut bench = Bench::start(setup);
    bench.select("developer");
    recall(&mut bench, recalled());
    bench.report("success");
    assert_eq!(uses(&bench.notes), [("developer", false)]);
    bench.notes.clear();
    bench
}

#[test]
fn the_memories_of_one_execution_are_never_anothers() {
    let without = |bench: &mut Bench, name: &str| {
        let mut agents = setup().agents;
        agents.remove(name);
        bench.give(Event::AgentsReloaded { agents });
    };

    let failed = |bench: &Bench| {
        assert_eq!(uses(&bench.notes), []);
        let history = &bench.session.context().unwrap().history;
        assert_eq!((history.len(), history[1].facts.turns), (2, 0), "{:?}", bench.open);
        assert!(!bench.open.is_empty() || bench.outcome.is_some(), "no phase waits for ever");
    };
    let retry = |bench: &mut Bench| {
        bench.decide(json!({"decision": "RETRY", "reason": "r"}));
        bench.select("planner");
    };

    // The agent is removed before its conversation continues.
    let mut bench = after_one_execution(with_memory(false));
    without(&mut bench, "developer");
    bench.decide(json!({"decision": "CONTINUE", "reason": "r"}));
    failed(&bench);

    // Its budget is used up: no model reads its memories.
    let mut setup = with_memory(false);
    let developer = setup.agents.get_mut("developer").unwrap();
    developer.config.budget = serde_json::from_value(json!({"maxIterations": 1})).unwrap();
    let mut bench = after_one_execution(setup);
    bench.give(Event::OverrideRequested {
        command: Override::ForceAgent { agent: "developer".into() },
        request: None,
    });
    recall(&mut bench, recalled());
    failed(&bench);

    // It is removed when its memories arrive.
    let mut bench = after_one_execution(with_memory(false));
    retry(&mut bench);
    without(&mut bench, "planner");
    recall(&mut bench, recalled());
    failed(&bench);
    assert!(!bench.notes.iter().any(|note| matches!(note, Note::MemoriesRecalled { .. })));

    // It has its memories, and its model does not answer.
    let mut bench = after_one_execution(with_memory(false));
    retry(&mut bench);
    recall(&mut bench, recalled());
    bench.fail_model(ErrorCode::InvalidRequest);
    failed(&bench);

    // It has none of its own.
    let mut bench = after_one_execution(with_memory(false));
    retry(&mut bench);
    recall(&mut bench, Recalled::default());
    bench.report("success");
    assert_eq!(uses(&bench.notes), []);
}

#[test]
fn a_word_that_is_everywhere_is_no_use_of_a_memory() {
    let mut bench = Bench::start(with_memory(false));
    bench.select("developer");
    let memory = RecalledMemory { title: "success".into(), ..recalled().memories[0].clone() };
    recall(&mut bench, Recalled { memories: vec![memory], ..recalled() });
    bench.report("success");
    assert_eq!(uses(&bench.notes), [("developer", false)]);
}

#[test]
fn a_memory_cites_what_it_was_learned_from_and_not_all_that_was_read() {
    let mut bench = Bench::start(with_memory(true));
    bench.select("developer");
    recall(&mut bench, Recalled::default());
    bench.reply(vec![call("a", "Read", json!({}))], StopReason::ToolUse);
    let (read, _) = bench.running()[0].clone();
    let seen = |path: &str| SeenFile { path: path.into(), digest: "d".into() };
    let files_seen = vec![seen("src/a.rs"), seen("src/ports.rs"), seen("src/b.rs")];
    bench.finish_tool(read, ToolOutcome { files_seen, ..ToolOutcome::ok("7") });
    bench.report("success");
    let mut draft = draft(true);
    draft["body"] = json!("Port 7, as `src/ports.rs` has it.");
    bench.reply(vec![call("m", "remember", draft)], StopReason::ToolUse);
    let remember = bench.open.iter().find_map(|effect| match effect {
        Effect::Remember { files, .. } => Some(files.clone()),
        _ => None,
    });
    assert_eq!(remember.unwrap(), ["src/ports.rs"]);
}
