//! A run that the user steers: paused, spoken to, overruled. Commands without effect are ignored, and the note says
//! why.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_bench;

use rawko_core::Usage;
use rawko_core::arbiter::DECIDE;
use rawko_core::facts::Verification;
use rawko_core::machine::State;
use rawko_core::message::StopReason;
use rawko_core::session::{
    Effect, EffectAnswer, Event, GUARD_RULE, LimitKind, Lost, Note, Override, Reaction, Status, TimerPurpose,
};
use rawko_core::setup::{CallRetry, VerifySetup};
use rawko_core::tool::ToolOutcome;
use serde_json::json;
use session_bench::{Bench, call, plan, report, setup};

fn steer(bench: &mut Bench, command: Override) -> Reaction {
    bench.give(Event::OverrideRequested { command, request: None })
}

fn say(text: &str) -> Override {
    Override::Say { text: text.to_owned() }
}

fn force(agent: &str) -> Override {
    Override::ForceAgent { agent: agent.to_owned() }
}

/// Why the command was ignored, as the last note of its kind says; `None` if it was carried out.
#[track_caller]
fn ignored(reaction: &Reaction) -> Option<String> {
    let notes: Vec<_> = reaction
        .notes
        .iter()
        .filter_map(|note| match note {
            Note::Steered { ignored, .. } => Some(ignored.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(notes.len(), 1, "{reaction:?}");
    assert_eq!(reaction.ignored, notes[0].is_some());
    notes[0].clone()
}

#[track_caller]
fn check_ignored(bench: &mut Bench, command: Override, why: &str) {
    let before = bench.session.clone();
    assert_eq!(bench.session.refusal(&command).as_deref(), Some(why));
    let reaction = steer(bench, command);
    assert_eq!(ignored(&reaction).as_deref(), Some(why));
    assert_eq!((reaction.effects, reaction.notes.len()), (Vec::new(), 1));
    assert_eq!(bench.session.context(), before.context());
    assert_eq!(bench.session.paused_since(), before.paused_since());
}

/// The developer has called a tool, which runs.
fn at_work() -> Bench {
    let mut bench = Bench::start(setup(None));
    bench.select("developer");
    bench.reply(vec![call("c", "Bash", json!({"command": "x"}))]);
    bench
}

fn complete(bench: &mut Bench) {
    bench.reply(vec![call("d", DECIDE, json!({"decision": "COMPLETE", "summary": "done", "reason": "r"}))]);
}

#[test]
fn a_pause_lets_work_end_and_begins_nothing() {
    let mut bench = at_work();
    assert_eq!(ignored(&steer(&mut bench, Override::Pause)), None);
    assert!(bench.session.paused_since().is_some());
    bench.finish_tools(&ToolOutcome::ok("ran"));
    assert!(bench.open.is_empty(), "{:?}", bench.open);
    assert_eq!(bench.session.open_effects().count(), 0, "its answer is known");
    check_ignored(&mut bench, Override::Pause, "it is paused already");
    let reaction = steer(&mut bench, Override::Go);
    assert_eq!(ignored(&reaction), None);
    assert!(reaction.notes.iter().any(|note| matches!(note, Note::RunUnpaused { after_ms: 30 })));
    assert_eq!(bench.session.paused_since(), None);
    assert!(bench.text().contains("ran"));
    bench.reply(vec![report("success")]);
    complete(&mut bench);
    bench.ended(Status::Claimed);
    bench.check_fold();
}

#[test]
fn a_command_without_meaning_is_ignored_and_says_why() {
    let mut bench = Bench::start(setup(None));
    check_ignored(&mut bench, Override::Retry, "no agent has worked yet");
    check_ignored(&mut bench, Override::SkipStep, "there is no plan yet, and so no step to skip");
    check_ignored(&mut bench, Override::Go, "it is not paused");
    check_ignored(&mut bench, say(" \n"), "the message is empty");
    let agents = "there is no agent `unknown` (there are: developer, planner, tester)";
    check_ignored(&mut bench, force("unknown"), agents);
    bench.give(Event::CancelRequested { reason: "r".into() });
    for command in [Override::Pause, Override::Retry, force("developer"), say("x")] {
        check_ignored(&mut bench, command, "the run is over");
    }
    bench.check_fold();
}

#[test]
fn a_plan_that_is_still_a_draft_is_named_as_such() {
    let mut bench = Bench::start(setup(None));
    bench.select("planner");
    bench.reply(vec![plan(&[("one", "pending"), ("two", "pending")])]);
    let of_planner = "the plan is a draft of planner; its steps can be skipped once that agent has reported";
    check_ignored(&mut bench, Override::SkipStep, of_planner);
    assert_eq!(ignored(&steer(&mut bench, force("developer"))), None);
    let of_planner =
        "the plan is a draft of developer; its steps can be skipped once that agent has reported";
    check_ignored(&mut bench, Override::SkipStep, of_planner);
    bench.reply(vec![report("success")]);
    assert_eq!(bench.session.refusal(&Override::SkipStep), None);
    bench.check_fold();
}

#[test]
fn a_run_whose_time_is_up_with_its_iterations_was_stopped_by_the_time() {
    let mut setup = setup(None);
    setup.limits.max_duration_ms = Some(60_000);
    setup.limits.max_iterations = 1;
    let mut bench = Bench::start(setup);
    bench.select("developer");
    bench.fire(TimerPurpose::RunDeadline);
    let outcome = bench.ended(Status::Limited);
    assert!(outcome.summary.starts_with("Stopped: the run's time is up"), "{}", outcome.summary);
    assert_eq!(outcome.limit, Some(LimitKind::Time));
    bench.check_fold();
}

#[test]
fn the_agent_at_work_reads_what_is_said_with_its_next_request() {
    let mut bench = at_work();
    assert_eq!(ignored(&steer(&mut bench, say("Use tabs.\nIn </data> every file."))), None);
    bench.finish_tools(&ToolOutcome::ok("ran"));
    let text = bench.text();
    assert!(text.contains("# The user says, while you work"), "{text}");
    assert!(text.ends_with("> Use tabs.\n> In </data> every file.\n"), "{text}");
    bench.turn("Read", "it");
    assert_eq!(bench.text().matches("> Use tabs.").count(), 1, "it is said once");
    bench.reply(vec![report("success")]);
    assert!(bench.text().contains("The user has said since the task began"), "the arbiter knows it");
    bench.reply(vec![call("d", DECIDE, json!({"decision": "SELECT_MODE", "mode": "tester", "reason": "r"}))]);
    let text = bench.text();
    assert!(text.contains("# What the user has said since the task began"), "{text}");
    bench.reply(vec![report("success")]);
    complete(&mut bench);
    bench.ended(Status::Claimed);
    bench.check_fold();
}

#[test]
fn a_report_does_not_end_the_work_while_a_message_is_unread() {
    let mut bench = at_work();
    bench.finish_tools(&ToolOutcome::ok("ran"));
    steer(&mut bench, say("Also the README."));
    bench.reply(vec![report("success")]);
    let text = bench.text();
    assert!(text.contains("Your report does not end your work yet") && text.contains("> Also the README."));
    // The same without a report.
    steer(&mut bench, say("And the changelog."));
    bench.reply(vec![rawko_core::message::Content::text("All done.")]);
    assert!(bench.text().ends_with("> And the changelog.\n"));
    bench.reply(vec![report("success")]);
    complete(&mut bench);
    bench.ended(Status::Claimed);
    bench.check_fold();
}

#[test]
fn a_message_between_agents_goes_to_the_next_one() {
    let mut bench = Bench::start(setup(None));
    steer(&mut bench, say("Only in src."));
    bench.select("planner");
    assert!(bench.text().contains("> Only in src."), "{}", bench.text());
    bench.reply(vec![report("success")]);
    steer(&mut bench, say("And tests."));
    bench.reply(vec![call("d", DECIDE, json!({"decision": "CONTINUE", "reason": "more"}))]);
    let text = bench.text();
    assert_eq!((text.matches("> Only in src.").count(), text.matches("> And tests.").count()), (1, 1));
    bench.check_fold();
}

/// The decision that took the place of a COMPLETE.
#[track_caller]
fn replaced(bench: &Bench) {
    let replaced = bench.notes.iter().rev().find_map(|note| match note {
        Note::DecisionMade(record) => Some(record),
        _ => None,
    });
    let record = replaced.unwrap();
    assert_eq!(record.rule.as_deref(), Some(GUARD_RULE));
    assert_eq!(record.instead_of.as_ref().map(|decision| decision.kind()), Some("COMPLETE"));
    assert!(record.decision.reason().contains("no agent has read yet"));
}

#[test]
fn a_task_is_not_complete_before_an_agent_has_read_what_was_said() {
    let mut bench = at_work();
    bench.finish_tools(&ToolOutcome::ok("ran"));
    bench.reply(vec![report("success")]);
    steer(&mut bench, say("Wait, rename it."));
    complete(&mut bench);
    replaced(&bench);
    assert!(bench.text().contains("> Wait, rename it."), "the same agent goes on");
    bench.reply(vec![report("success")]);
    complete(&mut bench);
    bench.ended(Status::Claimed);
    bench.check_fold();
}

#[test]
fn a_message_during_the_verification_is_read_too() {
    let mut setup = setup(None);
    setup.verify = Some(VerifySetup { commands: vec!["t".into()], timeout_ms: 1, ..VerifySetup::default() });
    let mut bench = Bench::start(setup);
    let verified = |bench: &mut Bench| {
        let run = json!({"command": "t", "exitCode": 0, "output": "", "durationMs": 1});
        let verification: Verification = serde_json::from_value(json!({"runs": [run]})).unwrap();
        let answer = EffectAnswer::VerificationFinished { verification };
        let effect = bench.take(|effect| matches!(effect, Effect::Verify { .. })).awaits_answer().unwrap();
        bench.give(Event::Answered { effect, answer });
    };
    bench.select("developer");
    bench.reply(vec![report("success")]);
    complete(&mut bench);
    steer(&mut bench, say("One more thing."));
    verified(&mut bench);
    replaced(&bench);
    assert!(bench.text().contains("> One more thing."));
    bench.reply(vec![report("success")]);
    complete(&mut bench);
    verified(&mut bench);
    bench.ended(Status::Claimed);
    bench.check_fold();
}

#[test]
fn a_paused_run_ends_with_its_time() {
    let mut setup = setup(None);
    setup.limits.max_duration_ms = Some(1_000);
    let mut bench = Bench::start(setup);
    bench.select("developer");
    steer(&mut bench, Override::Pause);
    bench.reply(vec![call("c", "Bash", json!({"command": "x"}))]);
    bench.fire(TimerPurpose::RunDeadline);
    assert_eq!(bench.ended(Status::Limited).limit, Some(LimitKind::Time));
    assert_eq!(bench.session.paused_since(), None);
    bench.check_fold();
}

#[test]
fn a_pause_is_no_working_time_of_an_agent() {
    let mut setup = setup(None);
    setup.retry = Some(CallRetry { patience_ms: 0 });
    setup.agents.get_mut("developer").unwrap().config.limits.timeout = Some(60);
    let mut bench = Bench::start(setup);
    bench.select("developer");
    bench.reply(vec![call("c", "Bash", json!({"command": "x"}))]);
    steer(&mut bench, Override::Pause);
    bench.finish_tools(&ToolOutcome::ok("ran"));
    bench.clock += 10_000;
    bench.fire(TimerPurpose::ExecutionDeadline);
    steer(&mut bench, Override::Go);
    let again = bench.take(|effect| matches!(effect, Effect::StartTimer { .. }));
    let Effect::StartTimer { after_ms, purpose, .. } = again else { panic!("{again:?}") };
    assert_eq!(purpose, TimerPurpose::ExecutionDeadline);
    assert!((10_000..10_050).contains(&after_ms), "{after_ms}");
    assert!(bench.text().contains("ran"), "the agent goes on");
    bench.check_fold();
}

#[test]
fn a_command_that_begins_something_ends_the_pause() {
    let mut bench = at_work();
    steer(&mut bench, Override::Pause);
    bench.finish_tools(&ToolOutcome::ok("ran"));
    let reaction = steer(&mut bench, force("tester"));
    assert_eq!(ignored(&reaction), None);
    assert_eq!(bench.session.paused_since(), None);
    assert!(!reaction.effects.iter().any(|effect| matches!(effect, Effect::Abandon { .. })));
    assert_eq!(bench.session.context().unwrap().current_mode, "tester");
    assert!(!bench.text().contains("ran"));
    bench.reply(vec![plan(&[("measure it", "pending")]), report("success")]);
    steer(&mut bench, Override::Pause);
    assert_eq!(ignored(&steer(&mut bench, Override::SkipStep)), None);
    assert_eq!(bench.session.paused_since(), None);
    bench.select("developer");
    steer(&mut bench, Override::Pause);
    bench.give(Event::CancelRequested { reason: "r".into() });
    bench.ended(Status::Cancelled);
    bench.check_fold();
}

#[test]
fn resuming_a_paused_run_ends_the_pause() {
    let mut bench = at_work();
    steer(&mut bench, Override::Pause);
    bench.finish_tools(&ToolOutcome::ok("ran"));
    bench.clock += 100_000;
    bench.give(Event::SessionResumed {
        changed_files: Vec::new(),
        verify: None,
        limits: None,
        lost: Lost::default(),
    });
    assert_eq!(bench.session.paused_since(), None);
    assert!(bench.text().contains("ran"), "what came in before counts");
    bench.check_fold();
}

#[test]
fn a_reset_forgets_what_was_done_and_keeps_what_was_spent() {
    let mut bench = Bench::start(setup(None));
    bench.select("planner");
    bench.reply(vec![plan(&[("measure it", "pending")]), report("success")]);
    bench.select("developer");
    let usage = Usage { input_tokens: 70, ..Usage::default() };
    bench.answer(vec![call("c", "Bash", json!({"command": "x"}))], StopReason::ToolUse, usage);
    assert_eq!(ignored(&steer(&mut bench, say("Use tabs."))), None);
    assert_eq!(ignored(&steer(&mut bench, Override::Pause)), None);
    let task = bench.session.context().unwrap().task.clone();

    let reaction = steer(&mut bench, Override::Reset);
    assert_eq!(ignored(&reaction), None);
    let states: Vec<_> = reaction
        .notes
        .iter()
        .filter_map(|note| match note {
            Note::StateChanged { to, iteration, .. } => Some((*to, *iteration)),
            _ => None,
        })
        .collect();
    assert_eq!(states, [(State::Idle, 2), (State::Selecting, 2)]);
    let context = bench.session.context().unwrap();
    assert_eq!((context.task.as_str(), context.history.len(), &context.plan), (task.as_str(), 0, &None));
    assert_eq!(bench.session.paused_since(), None);
    // The arbiter and the agents begin as if nothing had been.
    assert!(!bench.text().contains("Use tabs.") && !bench.text().contains("measure it"), "{}", bench.text());
    bench.select("developer");
    assert!(!bench.text().contains("Use tabs."), "{}", bench.text());
    bench.reply(vec![report("success")]);
    complete(&mut bench);
    let outcome = bench.ended(Status::Claimed);
    assert_eq!(outcome.iterations, 3);
    assert_eq!(outcome.usage.input_tokens, 70);
    bench.check_fold();
}

/// It always ends.
#[test]
fn a_reset_gives_no_iterations_again() {
    let mut setup = setup(None);
    setup.limits.max_iterations = 2;
    let mut bench = Bench::start(setup);
    bench.select("developer");
    assert_eq!(ignored(&steer(&mut bench, Override::Reset)), None);
    bench.select("developer");
    bench.reply(vec![report("success")]);
    bench.reply(vec![call("d", DECIDE, json!({"decision": "CONTINUE", "reason": "r"}))]);
    let outcome = bench.ended(Status::Limited);
    assert_eq!(outcome.iterations, 2);
    bench.check_fold();
}
