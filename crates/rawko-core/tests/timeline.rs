//! The timeline of a session: which entries its events have, and that an entry names the call that it answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_support;

use rawko_core::ErrorCode;
use rawko_core::message::StopReason;
use rawko_core::session::{Effect, EffectAnswer, Event, Note, Override, Session, Status};
use rawko_core::setup::{CallRetry, Setup};
use rawko_core::timeline::{Fact, Timeline, TimelineEntry};
use rawko_core::tool::ToolOutcome;
use serde_json::json;

use session_support::{Bench, call, setup};

/// The entries of what the bench has seen; the event number `n` is record `n`, from 1.
fn entries(bench: &Bench) -> Vec<TimelineEntry> {
    let mut timeline = Timeline::default();
    let entries = (1..).zip(&bench.journal).flat_map(|(record, stamped)| timeline.apply(record, stamped));
    let entries = entries.collect();
    assert_eq!(timeline.session(), &bench.session);
    entries
}

/// A session in which an agent has read a file.
fn read(priced: bool) -> Bench {
    let mut setup = setup();
    if priced {
        let model = setup.agents["developer"].model.model.clone();
        let (input, output) = (1_000_000.0, 0.0);
        let price = serde_json::from_value(json!({"input": input, "output": output})).unwrap();
        setup.prices.insert(model, price);
    }
    let mut bench = Bench::start(setup);
    bench.select("developer");
    bench.reply(vec![call("c1", "Read", json!({"file_path": "a"}))], StopReason::ToolUse);
    bench
}

#[test]
fn an_answer_names_its_call_and_what_it_cost() {
    let mut bench = read(true);
    let (effect, _) = bench.running()[0].clone();
    bench.finish_tool(effect, ToolOutcome::ok("text"));
    let all = entries(&bench);
    let replied: Vec<String> = all
        .iter()
        .filter_map(|entry| match &entry.fact {
            Fact::ModelReplied(reply) => Some(reply.call.purpose.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(replied, ["select", "developer"]);
    let paid = all.iter().find_map(|entry| match &entry.fact {
        Fact::ModelPaid { call, usage, cost_usd } if call.purpose.to_string() == "developer" => {
            Some((usage.input_tokens, *cost_usd))
        }
        _ => None,
    });
    assert_eq!(paid, Some((100, Some(100.0))));
    let ended = all.iter().find_map(|entry| match &entry.fact {
        Fact::ToolEnded(end) => {
            Some((entry.record, end.call_id.as_str(), end.agent.as_str(), end.tool.as_str(), end.is_noted))
        }
        _ => None,
    });
    assert_eq!(ended, Some((bench.journal.len() as u64, "c1", "developer", "Read", true)));
}

#[test]
fn the_result_of_a_call_that_ends_in_a_pause_is_noted_later() {
    let mut bench = read(false);
    bench.give(Event::OverrideRequested { command: Override::Pause, request: None });
    let (effect, _) = bench.running()[0].clone();
    bench.finish_tool(effect, ToolOutcome::ok("text"));
    bench.give(Event::OverrideRequested { command: Override::Go, request: None });
    let all = entries(&bench);
    let ended = all.iter().position(|it| matches!(&it.fact, Fact::ToolEnded(end) if !end.is_noted)).unwrap();
    let noted = all.iter().position(|it| matches!(it.fact, Fact::Note(Note::ToolFinished { .. }))).unwrap();
    assert!(ended < noted);
}

#[test]
fn a_lost_or_late_answer_is_no_answer() {
    let mut bench = read(false);
    let lost = bench.open.remove(0).awaits_answer().unwrap();
    bench.give(Event::Answered { effect: lost, answer: EffectAnswer::EffectLost });
    let all = entries(&bench);
    let is_lost = |fact: &Fact| matches!(fact, Fact::WorkEnded { effect, answer: EffectAnswer::EffectLost } if *effect == lost);
    assert_eq!(all.iter().filter(|it| is_lost(&it.fact)).count(), 1);
    // An answer to nothing that is open has no entry.
    let before = entries(&bench).len();
    bench.give(Event::Answered {
        effect: lost,
        answer: EffectAnswer::ToolFinished { outcome: ToolOutcome::ok("late") },
    });
    assert_eq!(entries(&bench).len(), before);
}

#[test]
fn a_failed_call_that_is_made_again_says_so_and_how_long_the_run_waits() {
    let retry = Some(CallRetry { patience_ms: 60_000 });
    let mut bench = Bench::start(Setup { retry, ..setup() });
    bench.select("developer");
    bench.fail_model(ErrorCode::RateLimited);
    let facts: Vec<Fact> = entries(&bench).into_iter().map(|entry| entry.fact).collect();
    assert!(facts.iter().any(|fact| matches!(fact, Fact::ModelFailed { is_retried: true, .. })));
    let waiting = facts.iter().find_map(|fact| match fact {
        Fact::Waiting { error, attempt, .. } => Some((error.code, *attempt)),
        _ => None,
    });
    assert_eq!(waiting, Some((ErrorCode::RateLimited, 2)));
}

#[test]
fn the_beginning_of_a_fork_is_shared() {
    let mut bench = read(false);
    let (effect, _) = bench.running()[0].clone();
    bench.finish_tool(effect, ToolOutcome::ok("text"));
    let Event::TaskStarted { shared_events, .. } = &mut bench.journal[0].event else { panic!() };
    *shared_events = 2;
    let mut timeline = Timeline::default();
    for (record, stamped) in (1..).zip(&bench.journal) {
        for entry in timeline.apply(record, stamped) {
            assert_eq!(entry.shared, record <= 2, "{entry:?}");
        }
    }
}

#[test]
fn any_other_effect_is_work_that_begins_and_ends() {
    let mut bench = read(false);
    let (effect, _) = bench.running()[0].clone();
    bench.finish_tool(effect, ToolOutcome::ok("text"));
    bench.report("success");
    let open = |effect: &Effect| !matches!(effect, Effect::CallModel { .. } | Effect::StartTimer { .. });
    let begun: Vec<_> = bench.open.iter().filter(|it| open(it)).filter_map(Effect::awaits_answer).collect();
    let facts: Vec<Fact> = entries(&bench).into_iter().map(|entry| entry.fact).collect();
    for id in begun {
        let is_it = |fact: &Fact| matches!(fact, Fact::WorkBegun(it) if it.awaits_answer() == Some(id));
        assert!(facts.iter().any(is_it), "{id}");
    }
}

#[test]
fn the_timeline_of_a_resumed_session_begins_with_what_follows() {
    let mut bench = read(false);
    let before = bench.session.clone();
    let (effect, _) = bench.running()[0].clone();
    bench.finish_tool(effect, ToolOutcome::ok("text"));
    let mut timeline = Timeline::after(before);
    let entries = timeline.apply(9, bench.journal.last().unwrap());
    // Which call it was is not known here; its note and what follows are.
    assert!(entries.iter().any(|it| matches!(it.fact, Fact::Note(Note::ToolFinished { .. }))));
    assert!(!entries.iter().any(|it| matches!(it.fact, Fact::ToolEnded(_))));
    assert_eq!(timeline.session(), &bench.session);
}

#[test]
fn the_end_is_the_last_entry() {
    let mut bench = Bench::start(setup());
    bench.give(Event::CancelRequested { reason: "enough".into() });
    bench.ended(Status::Cancelled);
    let all = entries(&bench);
    assert!(matches!(&all.last().unwrap().fact, Fact::Ended(end) if end.status == Status::Cancelled));
    assert!(all.iter().any(|it| matches!(&it.fact, Fact::CancelRequested { reason } if reason == "enough")));
    assert_ne!(Session::new(), bench.session);
}
