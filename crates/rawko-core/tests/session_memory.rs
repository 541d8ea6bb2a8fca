//! Memories in a session: recalled before a conversation begins, made behind an execution, and never in the way.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_support;

use rawko_core::ErrorCode;
use rawko_core::memory::{Recalled, RecalledMemory, UseOutcome};
use rawko_core::message::StopReason;
use rawko_core::session::{Effect, Event, KeptMemory, Note, Status};
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
        problems: vec!["b.md: no title".into()],
    }
}

#[track_caller]
fn recall(bench: &mut Bench, recalled: Recalled) {
    bench.answer(
        |effect| matches!(effect, Effect::Recall { .. }),
        |effect| Event::MemoriesRecalled { effect, recalled },
    );
}

fn system(bench: &Bench) -> String {
    let effect = bench.open.iter().find(|effect| matches!(effect, Effect::CallModel { .. })).unwrap();
    bench.session.request(effect.awaits_answer().unwrap()).unwrap().system.to_string()
}

fn complete() -> Value {
    json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"})
}

#[test]
fn memories_stand_at_the_end_of_the_system_prompt_and_what_helped_is_told() {
    let mut plain = Bench::start(setup());
    plain.select("developer");
    let before = system(&plain);

    let mut bench = Bench::start(with_memory(false));
    bench.select("developer");
    let lost = bench.take(|effect| matches!(effect, Effect::Recall { agent, .. } if agent == "developer"));
    bench.give(Event::EffectLost { effect: lost.awaits_answer().unwrap() });
    recall(&mut bench, recalled());
    assert_eq!(system(&bench), format!("{before}\n## Background\nport 7\n"), "all before them is the same");
    assert!(
        bench.notes.iter().any(|note| matches!(note, Note::Warned { message } if message.contains("b.md")))
    );
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
    // The same conversation goes on with what it was given: its beginning stays as it is.
    bench.decide(json!({"decision": "CONTINUE", "reason": "r"}));
    assert!(!bench.open.iter().any(|effect| matches!(effect, Effect::Recall { .. })));
    assert!(system(&bench).contains("port 7"));
    bench.report("success");
    bench.decide(complete());
    bench.ended(Status::Claimed);
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
fn what_was_learned_is_kept_before_anybody_judges() {
    let mut bench = until_the_extractor();
    bench.reply(vec![call("m", "remember", draft(true))], StopReason::ToolUse);
    let lost = bench.take(|effect| matches!(effect, Effect::Remember { .. }));
    bench.give(Event::EffectLost { effect: lost.awaits_answer().unwrap() });
    let kept = KeptMemory::Written { path: "the-tests.md".into() };
    bench.answer(
        |effect| matches!(effect, Effect::Remember { agent, iteration: 1, .. } if agent == "developer"),
        |effect| Event::MemoryKept { effect, kept: kept.clone() },
    );
    assert!(bench.notes.iter().any(|note| matches!(note, Note::Remembered { kept: it, .. } if *it == kept)));
    bench.decide(json!({"decision": "RETRY", "reason": "r"}));
    bench.select("developer");
    recall(&mut bench, Recalled::default());
    bench.report("success");
    bench.reply(vec![call("m", "remember", draft(false))], StopReason::ToolUse);
    // Its budget of 200 tokens is used up: behind the third execution it is not asked.
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
