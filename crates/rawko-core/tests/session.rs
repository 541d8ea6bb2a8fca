//! The session as a driver sees it: events in, effects out, folded from a journal or live alike.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_support;

use proptest::prelude::*;
use rawko_core::arbiter::DECIDE;
use rawko_core::facts::{DiffStat, TreeInspection};
use rawko_core::machine::State;
use rawko_core::message::{Content, Message, Role, StopReason, ToolCall};
use rawko_core::session::{
    DecisionSource, Effect, EffectAnswer, EffectId, Event, Note, Override, Session, Stamped, Status,
    TimerPurpose,
};
use rawko_core::setup::{ModelChoice, Setup};
use rawko_core::tool::ToolOutcome;
use rawko_core::{ErrorCode, ErrorInfo, Timestamp, Usage};
use serde_json::json;

use session_support::{Bench, call, model, setup};

#[test]
fn a_task_from_start_to_claimed() {
    let mut bench = Bench::start(setup());
    bench.select("planner");
    let steps = json!({"steps": [{"description": "fix"}]});
    bench.reply(
        vec![
            call("1", "UpdatePlan", steps),
            call("2", "Report", json!({"outcome":"success","summary":"planned"})),
        ],
        StopReason::ToolUse,
    );
    bench.select("developer");
    assert!(bench.asked().contains("[pending] fix"), "the plan is shown to the developer");
    bench.reply(vec![call("3", "Write", json!({"file_path": "a"}))], StopReason::ToolUse);
    let (write, _) = bench.running()[0].clone();
    bench.finish_tool(write, ToolOutcome { files_modified: vec!["a".into()], ..ToolOutcome::ok("done") });
    bench.reply(vec![Content::text("All done.")], StopReason::EndTurn);
    bench.decide(json!({"decision": "COMPLETE", "summary": "works", "reason": "r"}));
    let outcome = bench.ended(Status::Claimed);
    assert_eq!(outcome.summary, "Claimed done, not verified: no command verified it.");
    assert_eq!(outcome.agent_summary.as_deref(), Some("works"));
    assert_eq!(outcome.iterations, 2);
    assert_eq!(outcome.files_modified, ["a"]);
    assert_eq!(outcome.usage.total_tokens(), 6 * 110);
    assert_eq!(outcome.cost_usd, None, "the models of this test have no price");
}

#[test]
fn reads_run_side_by_side_and_a_change_runs_alone() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    let calls = ["Read", "Grep", "Write", "Read"];
    let content = calls.iter().enumerate().map(|(i, name)| call(&i.to_string(), name, json!({}))).collect();
    bench.reply(content, StopReason::ToolUse);
    let first = bench.running();
    assert_eq!(first.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["Read", "Grep"]);
    bench.finish_tool(first[1].0, ToolOutcome::ok("second"));
    assert_eq!(bench.running().len(), 1, "the write waits for the other read");
    bench.finish_tool(first[0].0, ToolOutcome::ok("first"));
    let second = bench.running();
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].1, "Write");
    bench.finish_tool(second[0].0, ToolOutcome::ok("third"));
    let last = bench.running();
    bench.finish_tool(last[0].0, ToolOutcome::ok("fourth"));
    let asked = bench.asked();
    let order =
        ["first", "second", "third", "fourth"].map(|word| asked.find(&format!("\"{word}\"")).unwrap());
    assert!(order.is_sorted(), "results stand in the order of the calls");
}

#[test]
fn continue_goes_on_in_the_same_conversation() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    bench.report("success");
    bench.decide(json!({"decision": "CONTINUE", "reason": "more to do"}));
    let asked = bench.asked();
    assert!(asked.contains("Reported."), "the report's call is answered");
    assert!(asked.contains("more to do") && asked.contains("Go on"));
    assert!(asked.contains("make it work"), "the old opening is still there");
    bench.report("success");
    bench.select("planner");
    let asked = bench.asked();
    assert!(!asked.contains("Go on"), "another agent begins its own conversation");
    assert!(asked.contains("What went before"));
}

#[test]
fn a_bad_answer_is_repaired_once_and_then_the_rules_decide() {
    let mut bench = Bench::start(setup());
    bench.reply(vec![Content::text("I think the planner.")], StopReason::EndTurn);
    assert!(bench.asked().contains("cannot be used"));
    bench.select("unknown");
    let records: Vec<_> = bench
        .notes
        .iter()
        .filter_map(|note| match note {
            Note::DecisionMade(record) => Some(record.as_ref()),
            _ => None,
        })
        .collect();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].source, DecisionSource::Fallback);
    assert_eq!(records[0].rejected.len(), 2);
    assert_eq!(records[0].calls.len(), 2);
    assert_eq!(bench.session.context().unwrap().current_mode, "planner");
}

#[test]
fn an_empty_answer_and_a_refusal_of_the_arbiter_do_not_stop_the_run() {
    let mut bench = Bench::start(setup());
    bench.reply(vec![], StopReason::EndTurn);
    bench.reply(vec![], StopReason::Refusal);
    assert_eq!(bench.session.state(), State::Executing);
}

#[test]
fn provider_errors_are_counted_backed_off_and_end_the_run() {
    let mut bench = Bench::start(setup());
    for _ in 0..2 {
        bench.select("developer");
        bench.fail_model(ErrorCode::RateLimited);
        assert_eq!(bench.session.state(), State::Selecting);
        bench.fire(TimerPurpose::Backoff);
    }
    bench.select("developer");
    bench.fail_model(ErrorCode::RateLimited);
    let outcome = bench.ended(Status::Failed);
    assert_eq!(outcome.error.as_ref().unwrap().code, ErrorCode::RateLimited);

    let mut bench = Bench::start(setup());
    bench.fail_model(ErrorCode::AuthenticationFailed);
    bench.ended(Status::Failed);
}

#[test]
fn another_provider_takes_over_where_one_is_configured() {
    let mut setup = setup();
    setup.fallback = vec![ModelChoice { provider: "q".into(), ..model("spare") }];
    let mut bench = Bench::start(setup);
    bench.fail_model(ErrorCode::AuthenticationFailed);
    let to_spare = |effect: &Effect| matches!(effect, Effect::CallModel { provider, .. } if provider == "q");
    assert!(bench.open.iter().any(to_spare), "the arbiter continues with another provider");
    bench.select("developer");
    bench.fail_model(ErrorCode::Overloaded);
    assert!(bench.open.iter().any(to_spare), "so does the agent");
    assert!(bench.notes.iter().any(|note| matches!(note, Note::Warned { .. })));
    bench.fail_model(ErrorCode::Overloaded);
    assert_eq!(bench.session.state(), State::Selecting, "none is left: the machine deals with it");
}

#[test]
fn turns_are_limited_and_the_agent_is_warned() {
    let mut bench = Bench::start(setup());
    bench.select("planner");
    for turn in 1..=4 {
        bench.reply(vec![call("c", "Read", json!({}))], StopReason::ToolUse);
        let (read, _) = bench.running()[0].clone();
        bench.finish_tool(read, ToolOutcome::ok("text"));
        if turn == 3 {
            assert!(bench.asked().contains("last model turn"));
        }
    }
    assert_eq!(bench.session.state(), State::Evaluating);
    assert!(bench.asked().contains("used up its turns"));
    bench.decide(json!({"decision": "CONTINUE", "reason": "r"}));
    assert_eq!(bench.session.state(), State::Executing);
    bench.report("success");
}

#[test]
fn iterations_are_limited() {
    let mut setup = setup();
    setup.limits.max_iterations = 2;
    let mut bench = Bench::start(setup);
    bench.select("developer");
    bench.report("success");
    bench.decide(json!({"decision": "CONTINUE", "reason": "r"}));
    bench.report("success");
    bench.decide(json!({"decision": "CONTINUE", "reason": "r"}));
    let outcome = bench.ended(Status::Limited);
    assert!(outcome.summary.contains("2 iterations"), "{}", outcome.summary);
    assert_eq!(outcome.agent_summary.as_deref(), Some("success it was"));
}

#[test]
fn budgets_stop_the_run_before_the_call() {
    let mut tokens = setup();
    tokens.limits.max_tokens = Some(2_500);
    let mut bench = Bench::start(tokens);
    while bench.outcome.is_none() {
        bench.decide(json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}));
        if bench.outcome.is_none() {
            bench.report("success");
        }
    }
    let outcome = bench.ended(Status::Limited);
    assert!(outcome.usage.total_tokens() <= 2_500, "{outcome:?}");
    assert_eq!(outcome.error.as_ref().unwrap().code, ErrorCode::BudgetExceeded);

    let mut time = setup();
    time.limits.max_duration_ms = Some(60_000);
    let mut bench = Bench::start(time);
    bench.select("developer");
    bench.fire(TimerPurpose::RunDeadline);
    assert!(bench.ended(Status::Limited).summary.contains("time is up"));
}

#[test]
fn an_execution_that_takes_too_long_is_ended() {
    let mut setup = setup();
    setup.agents.get_mut("developer").unwrap().config.limits.timeout = Some(5_000);
    let mut bench = Bench::start(setup);
    bench.select("developer");
    bench.reply(vec![call("c", "Bash", json!({"command": "sleep 100"}))], StopReason::ToolUse);
    let (bash, _) = bench.running()[0].clone();
    bench.fire(TimerPurpose::ExecutionDeadline);
    assert!(bench.running().is_empty(), "the tool is abandoned");
    let late = bench.give(Event::Answered {
        effect: bash,
        answer: EffectAnswer::ToolFinished { outcome: ToolOutcome::ok("late") },
    });
    assert!(late.ignored);
    assert_eq!(bench.session.state(), State::Selecting);
    bench.fire(TimerPurpose::Backoff);
    assert!(bench.asked().contains("timeout"));
}

#[test]
fn a_call_that_is_not_allowed_is_not_run() {
    let mut setup = setup();
    setup.agents.get_mut("planner").unwrap().config.tools.blocked = vec!["Write".into()];
    let mut bench = Bench::start(setup);
    bench.select("planner");
    let asked = bench.asked();
    let reaction =
        bench.reply(vec![call("c", "Write", json!({})), call("d", "Nope", json!({}))], StopReason::ToolUse);
    assert!(bench.running().is_empty());
    assert!(!asked.contains("name: \"Write\""));
    let denied = |note: &&Note| matches!(note, Note::ToolCalled { allowed: false, .. });
    assert_eq!(reaction.notes.iter().filter(denied).count(), 2);
    let asked = bench.asked();
    assert!(asked.contains("may not use the tool `Write`: it is blocked"), "{asked}");
    assert!(!asked.contains("tools.blocked"), "{asked}");
    let change = "remove `- Write` under tools.blocked of agent `planner`";
    let says = |note: &Note| matches!(note, Note::ToolFinished { outcome, .. } if outcome.would_allow.as_deref() == Some(change));
    assert!(reaction.notes.iter().any(says), "{:?}", reaction.notes);
}

#[test]
fn a_call_that_held_a_secret_is_refused_and_a_report_is_taken_without_it() {
    let held = |id: &str, name: &str, input: serde_json::Value| {
        let Content::ToolUse(mut call) = call(id, name, input) else { panic!("it is a call") };
        call.withheld = Some("`content` holds the value of `A_KEY`".into());
        Content::ToolUse(call)
    };
    let mut bench = Bench::start(setup());
    bench.select("developer");
    let reaction =
        bench.reply(vec![held("c", "Write", json!({"content": "[redacted]"}))], StopReason::ToolUse);
    assert!(bench.running().is_empty());
    let rules: Vec<&str> = reaction.notes.iter().filter_map(denied_by).collect();
    assert_eq!(rules, ["secrets"]);
    let asked = bench.asked();
    assert!(asked.contains("`content` holds the value of `A_KEY`"), "{asked}");
    // A report only informs rawko, and does nothing.
    let report = json!({"outcome": "success", "summary": "the key is [redacted]"});
    bench.reply(vec![held("d", "Report", report)], StopReason::ToolUse);
    assert_eq!(bench.session.state(), State::Evaluating);
}

fn denied_by(note: &Note) -> Option<&str> {
    match note {
        Note::ToolCalled { allowed: false, rule, .. } => Some(rule),
        _ => None,
    }
}

#[test]
fn broken_tool_input_is_given_back_to_the_model() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    let broken = ToolCall {
        id: "c".into(),
        name: "Write".into(),
        input: json!({}),
        invalid_input: Some("{\"file_path\": ".into()),
        withheld: None,
    };
    bench.reply(vec![Content::ToolUse(broken)], StopReason::ToolUse);
    assert!(bench.running().is_empty());
    assert!(bench.asked().contains("not valid JSON"));
    bench.reply(vec![call("c", "Report", json!({"outcome": "maybe"}))], StopReason::ToolUse);
    assert!(bench.asked().contains("required form"));
}

#[test]
fn a_session_that_cannot_be_carried_on_says_what_it_has_done_and_used() {
    let mut bench = Bench::start(setup());
    bench.decide(json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "r"}));
    bench.reply(vec![call("1", "Write", json!({}))], StopReason::ToolUse);
    let Effect::RunTool { id: effect, .. } = bench.take(|effect| matches!(effect, Effect::RunTool { .. }))
    else {
        panic!("a tool was to be run")
    };
    let outcome = ToolOutcome { files_modified: vec!["a.rs".into()], ..ToolOutcome::ok("written") };
    bench.give(Event::Answered { effect, answer: EffectAnswer::ToolFinished { outcome } });
    let end = bench.session.broken_off(Timestamp(2_000), ErrorInfo::new(ErrorCode::Unknown, "disk full"));
    assert_eq!((end.status, end.summary.as_str()), (Status::Failed, "disk full"));
    assert_eq!((end.iterations, end.usage.total_tokens()), (1, 220));
    assert_eq!(end.files_modified, ["a.rs"]);
    assert_eq!(end.duration_ms, 2_000 - 1_010);
}

#[test]
fn cancelling_ends_everything() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    bench.reply(vec![call("c", "Bash", json!({"command": "x"}))], StopReason::ToolUse);
    bench.give(Event::CancelRequested { reason: "test".into() });
    bench.ended(Status::Cancelled);
    assert!(bench.give(Event::CancelRequested { reason: "again".into() }).ignored);
}

#[test]
fn overrides_and_a_forced_first_agent() {
    let mut first = setup();
    first.first_agent = Some("developer".into());
    let mut bench = Bench::start(first);
    assert_eq!(bench.session.state(), State::Executing);
    bench.give(Event::OverrideRequested {
        command: Override::ForceAgent { agent: "planner".into() },
        request: None,
    });
    assert_eq!(bench.session.context().unwrap().current_mode, "planner");
    assert_eq!(bench.open.len(), 1, "the developer's call is abandoned");
    let human =
        |note: &&Note| matches!(note, Note::DecisionMade(record) if record.source == DecisionSource::Human);
    assert_eq!(bench.notes.iter().filter(human).count(), 2);
    bench.report("success");
}

#[test]
fn lost_effects_are_redone_only_where_that_is_harmless() {
    let mut bench = Bench::start(setup());
    let lost = bench.take(|_| true);
    bench.give(Event::Answered { effect: lost.awaits_answer().unwrap(), answer: EffectAnswer::EffectLost });
    bench.select("developer");
    bench.reply(vec![call("a", "Read", json!({})), call("b", "Bash", json!({}))], StopReason::ToolUse);
    let (read, _) = bench.running()[0].clone();
    bench.open.clear();
    bench.give(Event::Answered { effect: read, answer: EffectAnswer::EffectLost });
    let (again, name) = bench.running()[0].clone();
    assert_eq!(name, "Read");
    assert_ne!(again, read);
    bench.finish_tool(again, ToolOutcome::ok("text"));
    let (bash, _) = bench.running()[0].clone();
    bench.open.clear();
    bench.give(Event::Answered { effect: bash, answer: EffectAnswer::EffectLost });
    assert!(bench.running().is_empty());
    assert!(bench.asked().contains("Outcome unknown"));
}

#[test]
fn the_tree_is_kept_once_before_an_execution_changes_it() {
    let mut setup = setup();
    setup.checkpoints = true;
    let mut bench = Bench::start(setup);
    bench.select("developer");
    bench.reply(vec![call("a", "Read", json!({})), call("b", "Write", json!({}))], StopReason::ToolUse);
    let (read, _) = bench.running()[0].clone();
    bench.finish_tool(read, ToolOutcome::ok("text"));
    assert!(bench.running().is_empty(), "the write waits");
    let lost = bench.take(|effect| matches!(effect, Effect::TakeCheckpoint { iteration: 1, .. }));
    bench.give(Event::Answered { effect: lost.awaits_answer().unwrap(), answer: EffectAnswer::EffectLost });
    let again = bench.take(|effect| matches!(effect, Effect::TakeCheckpoint { .. }));
    bench.give(Event::Answered {
        effect: again.awaits_answer().unwrap(),
        answer: EffectAnswer::CheckpointTaken { checkpoint: "c0ffee".into() },
    });
    let (write, name) = bench.running()[0].clone();
    assert_eq!(name, "Write");
    bench.finish_tool(write, ToolOutcome::ok("done"));
    bench.reply(vec![call("c", "Write", json!({}))], StopReason::ToolUse);
    assert_eq!(bench.running().len(), 1, "once is enough for one execution");
    let (write, _) = bench.running()[0].clone();
    bench.finish_tool(write, ToolOutcome::ok("done"));
    bench.report("success");
    let lost = bench.take(|effect| matches!(effect, Effect::InspectTree { iteration: 1, .. }));
    bench.give(Event::Answered { effect: lost.awaits_answer().unwrap(), answer: EffectAnswer::EffectLost });
    let names = vec!["a.txt +1 -0".to_owned()];
    let change = DiffStat { files: 1, insertions: 1, deletions: 0, names };
    let inspection = TreeInspection {
        tree: "t1".into(),
        execution: change.clone(),
        run: change.clone(),
        files: vec!["a.txt".into()],
        execution_files: vec!["a.txt".into()],
        ..TreeInspection::default()
    };
    bench.answer(
        |effect| matches!(effect, Effect::InspectTree { .. }),
        |effect| Event::Answered { effect, answer: EffectAnswer::TreeInspected { inspection } },
    );
    let facts = &bench.session.context().unwrap().history[0].facts;
    assert_eq!(facts.diff, Some(change));
    assert_eq!(facts.files_modified, ["a.txt"], "what a command changed is named too");
    assert!(bench.asked().contains("1 files, +1 -0: a.txt +1 -0"), "the arbiter sees it: {}", bench.asked());
    bench.decide(json!({"decision": "CONTINUE", "reason": "r"}));
    bench.reply(vec![call("d", "Bash", json!({}))], StopReason::ToolUse);
    let next = bench.take(|effect| matches!(effect, Effect::TakeCheckpoint { iteration: 2, .. }));
    bench.give(Event::Answered {
        effect: next.awaits_answer().unwrap(),
        answer: EffectAnswer::CheckpointFailed { message: "no git".into() },
    });
    assert_eq!(bench.running().len(), 1, "a run continues without it");
    assert!(matches!(bench.notes.last(), Some(Note::Warned { .. })));
}

/// A command was running when the run was cancelled: the end is complete once the tree was inspected.
#[test]
fn what_a_cut_off_execution_changed_is_read_from_the_tree() {
    let mut bench = Bench::start(Setup { checkpoints: true, ..setup() });
    bench.select("developer");
    bench.reply(vec![call("a", "Bash", json!({"command": "make"}))], StopReason::ToolUse);
    bench.answer(
        |effect| matches!(effect, Effect::TakeCheckpoint { .. }),
        |effect| Event::Answered {
            effect,
            answer: EffectAnswer::CheckpointTaken { checkpoint: "c0ffee".into() },
        },
    );
    let inspection = TreeInspection {
        run: DiffStat { files: 3, ..DiffStat::default() },
        files: vec!["a.txt".into(), "b.txt".into()],
        ..TreeInspection::default()
    };
    let seen = || Event::FinalTreeInspected { inspection: inspection.clone() };
    assert!(bench.give(seen()).ignored, "it has not ended");
    bench.give(Event::CancelRequested { reason: "enough".into() });
    let outcome = bench.ended(Status::Cancelled).clone();
    assert_eq!((outcome.files_modified_partial, outcome.files_modified), (true, Vec::<String>::new()));
    assert_eq!(bench.session.unseen_tree(), Some(1));
    assert!(!bench.give(seen()).ignored);
    let outcome = bench.ended(Status::Cancelled).clone();
    assert_eq!(outcome.files_modified, ["a.txt", "b.txt"]);
    assert_eq!((outcome.more_files_modified, outcome.files_modified_partial), (1, false));
    assert!(bench.give(seen()).ignored, "once is enough");
}

#[test]
fn a_resumed_run_does_not_get_its_time_again() {
    let mut setup = setup();
    setup.limits.max_duration_ms = Some(60_000);
    let mut bench = Bench::start(setup);
    bench.clock += 20_000;
    bench.select("developer");
    bench.clock += 3_600_000;
    bench.give(Event::SessionResumed {
        changed_files: vec![],
        verify: None,
        limits: None,
        lost: rawko_core::session::Lost::default(),
    });
    let lost = bench.take(|effect| matches!(effect, Effect::StartTimer { .. }));
    bench.give(Event::Answered { effect: lost.awaits_answer().unwrap(), answer: EffectAnswer::EffectLost });
    let left = bench.open.iter().find_map(|effect| match effect {
        Effect::StartTimer { after_ms, purpose: TimerPurpose::RunDeadline, .. } => Some(*after_ms),
        _ => None,
    });
    assert_eq!(left, Some(60_000 - 20_020));
}

#[test]
fn a_plan_made_before_an_error_is_not_lost() {
    let mut bench = Bench::start(setup());
    bench.select("planner");
    bench.reply(
        vec![call("1", "UpdatePlan", json!({"steps": [{"description": "fix"}]}))],
        StopReason::ToolUse,
    );
    bench.fail_model(ErrorCode::NetworkError);
    bench.fire(TimerPurpose::Backoff);
    bench.select("developer");
    assert!(bench.asked().contains("[pending] fix"));
    bench.report("success");
    assert_eq!(bench.session.context().unwrap().plan.as_ref().unwrap().steps.len(), 1);
}

#[test]
fn a_request_shares_the_messages_of_its_conversation() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let requests = std::mem::take(&mut bench.requests);
        let messages = requests.into_values().last().unwrap().messages;
        seen.insert(std::sync::Arc::as_ptr(&messages));
        drop(messages);
        let effect = bench.take(|effect| matches!(effect, Effect::CallModel { .. })).awaits_answer().unwrap();
        let message = Message { role: Role::Assistant, content: vec![call("c", "Read", json!({}))] };
        bench.give(Event::Answered {
            effect,
            answer: EffectAnswer::ModelReplied {
                message,
                usage: Usage::default(),
                stop_reason: StopReason::ToolUse,
                duration_ms: 5,
                cached: false,
            },
        });
        let (read, _) = bench.running()[0].clone();
        bench.finish_tool(read, ToolOutcome::ok("text"));
    }
    assert_eq!(seen.len(), 1, "the list is not copied when it grows");
}

#[test]
fn requests_only_grow_at_their_end() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    let mut before: Option<rawko_core::request::ModelRequest> = None;
    for _ in 0..5 {
        let open = bench.open.iter().find(|effect| matches!(effect, Effect::CallModel { .. })).unwrap();
        let request = bench.requests[&open.awaits_answer().unwrap()].clone();
        if let Some(before) = &before {
            assert_eq!(request.messages[..before.messages.len()], before.messages[..]);
            assert_eq!((&request.system, &request.tools), (&before.system, &before.tools));
        }
        before = Some(request);
        bench.reply(vec![call("c", "Read", json!({}))], StopReason::ToolUse);
        let (read, _) = bench.running()[0].clone();
        bench.finish_tool(read, ToolOutcome::ok("text"));
    }
}

/// A random answer to a random open effect, or an event without an effect.
fn any_move() -> impl Strategy<Value = (u8, u8)> {
    (any::<u8>(), any::<u8>())
}

fn event_of(kind: u8, effect: EffectId) -> Event {
    let reply = |content: Vec<Content>| Event::Answered {
        effect,
        answer: EffectAnswer::ModelReplied {
            message: Message { role: Role::Assistant, content },
            usage: Usage::default(),
            stop_reason: StopReason::ToolUse,
            duration_ms: 1,
            cached: false,
        },
    };
    match kind % 22 {
        0 | 1 => {
            reply(vec![call("d", DECIDE, json!({"decision":"SELECT_MODE","mode":"developer","reason":"r"}))])
        }
        2 => reply(vec![call("d", DECIDE, json!({"decision":"CONTINUE","reason":"r"}))]),
        3 => reply(vec![call("d", DECIDE, json!({"decision":"RETRY","reason":"r"}))]),
        4 => reply(vec![call("r", "Report", json!({"outcome":"failure","summary":"s"}))]),
        5 => reply(vec![call("a", "Read", json!({})), call("b", "Write", json!({}))]),
        6 => reply(vec![]),
        7 => Event::Answered {
            effect,
            answer: EffectAnswer::ModelFailed {
                error: ErrorInfo::new(ErrorCode::Timeout, "m"),
                duration_ms: 1,
                usage: None,
            },
        },
        8 | 9 => {
            Event::Answered { effect, answer: EffectAnswer::ToolFinished { outcome: ToolOutcome::ok("x") } }
        }
        10 | 11 => Event::Answered { effect, answer: EffectAnswer::TimerFired },
        12 => Event::Answered { effect, answer: EffectAnswer::EffectLost },
        13 => Event::OverrideRequested { command: Override::Retry, request: None },
        14 => Event::OverrideRequested { command: Override::SkipStep, request: None },
        16 | 17 => Event::OverrideRequested { command: Override::Pause, request: None },
        18 | 19 => Event::OverrideRequested { command: Override::Go, request: None },
        15 => Event::OverrideRequested { command: Override::Reset, request: None },
        20 => Event::OverrideRequested {
            command: Override::Say { text: "s".into() },
            request: Some("r".into()),
        },
        21 => Event::OverrideRequested {
            command: Override::ForceAgent { agent: "planner".into() },
            request: None,
        },
        _ => reply(vec![call("p", "UpdatePlan", json!({"steps":[{"description":"s"}]})), Content::text("t")]),
    }
}

proptest! {
    /// No sequence of events panics, no id is used for two effects, the open effects are those that were issued and
    /// neither answered nor abandoned, and folding a prefix and then the rest equals folding all.
    #[test]
    fn any_sequence_holds(moves in proptest::collection::vec(any_move(), 0..120), cut in 0usize..120) {
        let mut setup = setup();
        setup.limits.max_iterations = 6;
        let mut session = Session::new();
        let mut journal = vec![];
        let mut issued = std::collections::BTreeSet::new();
        let mut open = std::collections::BTreeSet::new();
        let start = Event::TaskStarted { task: "t".into(), setup: Box::new(setup), shared_events: 0 };
        let mut events = vec![start];
        let mut moves = moves.into_iter();
        let mut clock = 0;
        let mut finished = 0;
        while let Some(event) = events.pop() {
            clock += 1;
            let stamped = Stamped { at: Timestamp(clock), event };
            let reaction = session.apply(&stamped);
            match &stamped.event {
                Event::Answered { effect, answer: EffectAnswer::ModelReplied { .. } } | Event::Answered { effect, answer: EffectAnswer::ModelFailed { .. } }
                | Event::Answered { effect, answer: EffectAnswer::ToolFinished { .. } } | Event::Answered { effect, answer: EffectAnswer::TimerFired }
                | Event::Answered { effect, answer: EffectAnswer::EffectLost } if !session.open_effects().any(|id| id == *effect) => {
                    open.remove(effect);
                }
                _ => {}
            }
            for effect in &reaction.effects {
                match effect {
                    Effect::Abandon { id } => prop_assert!(open.remove(id)),
                    Effect::Finish { .. } => finished += 1,
                    other => {
                        let id = other.awaits_answer().unwrap();
                        prop_assert!(issued.insert(id));
                        open.insert(id);
                    }
                }
            }
            prop_assert_eq!(session.open_effects().collect::<Vec<_>>(), open.iter().copied().collect::<Vec<_>>());
            prop_assert!(finished <= 1);
            prop_assert!(session.state().is_final() == (finished == 1));
            let is_paused = session.paused_since().is_some();
            prop_assert!(!is_paused || reaction.effects.is_empty(), "a pause begins nothing");
            prop_assert!(finished == 1 || is_paused || !open.is_empty(), "a run that is not over waits for something");
            journal.push(stamped);
            if let Some((kind, pick)) = moves.next() {
                let choices: Vec<EffectId> = open.iter().copied().chain([EffectId(1), EffectId(999)]).collect();
                events.push(event_of(kind, choices[usize::from(pick) % choices.len()]));
            }
        }
        let mut folded = Session::new();
        for (at, stamped) in journal.iter().enumerate() {
            if at == cut.min(journal.len() - 1) {
                // A journal is JSON: events must survive it.
                let text = serde_json::to_string(stamped).unwrap();
                prop_assert_eq!(&serde_json::from_str::<Stamped>(&text).unwrap(), stamped);
            }
            let _ = folded.apply(stamped);
        }
        prop_assert_eq!(folded, session);
    }
}
