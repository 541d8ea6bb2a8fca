//! A COMPLETE must be proven before it is accepted, and a run that repeats itself is stopped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_support;

use rawko_core::arbiter::DECIDE;
use rawko_core::facts::{CommandRun, Proof, Verification};
use rawko_core::message::StopReason;
use rawko_core::session::{DecisionSource, Effect, EffectAnswer, Event, LimitKind, Note, Override, Status};
use rawko_core::setup::{Setup, VerifySetup};
use rawko_core::tool::ToolOutcome;
use rawko_core::{ErrorCode, ErrorInfo, Timestamp};
use serde_json::{Value, json};
use session_support::{Bench, agent, call, setup};

fn complete() -> Value {
    json!({"decision": "COMPLETE", "summary": "all done", "reason": "r"})
}

fn verifying() -> Setup {
    let commands = vec!["cargo test".to_owned()];
    Setup { verify: Some(VerifySetup { commands, timeout_ms: 1_000, ..VerifySetup::default() }), ..setup() }
}

fn verification(exit_code: i32, output: &str, tree: &str) -> Verification {
    let run = CommandRun {
        command: "cargo test".into(),
        exit_code: Some(exit_code),
        output: output.into(),
        duration_ms: 7,
        ..CommandRun::default()
    };
    Verification { runs: vec![run], tree: Some(tree.into()), ..Verification::default() }
}

/// Answers the open verification.
#[track_caller]
fn verified(bench: &mut Bench, verification: Verification) {
    bench.answer(
        |effect| matches!(effect, Effect::Verify { .. }),
        |effect| Event::Answered { effect, answer: EffectAnswer::VerificationFinished { verification } },
    );
}

fn write(bench: &mut Bench, argument: &str) {
    write_into(bench, "a", argument);
}

fn write_into(bench: &mut Bench, file: &str, argument: &str) {
    bench.reply(vec![call("w", "Write", json!({ "content": argument }))], StopReason::ToolUse);
    let (write, _) = bench.running()[0].clone();
    bench.finish_tool(write, ToolOutcome { files_modified: vec![file.into()], ..ToolOutcome::ok("written") });
}

#[test]
fn done_is_verified_when_the_commands_say_so() {
    let mut bench = Bench::start(verifying());
    bench.select("developer");
    bench.report("success");
    bench.decide(complete());
    assert!(bench.outcome.is_none(), "nothing is believed before it is proven");
    let lost = bench.take(|effect| matches!(effect, Effect::Verify { .. }));
    bench.give(Event::Answered { effect: lost.awaits_answer().unwrap(), answer: EffectAnswer::EffectLost });
    verified(&mut bench, verification(0, "ok", "t1"));
    let outcome = bench.ended(Status::Verified);
    let summary = "Verified: `cargo test` passes; how it was before the run is not known, and that the task is done is the \
                   agents' word.";
    assert_eq!((outcome.summary.as_str(), outcome.proof), (summary, Some(Proof::Regression)));
    assert_eq!(outcome.agent_summary.as_deref(), Some("all done"));
    assert_eq!(outcome.verification.as_ref().unwrap().tree.as_deref(), Some("t1"));
}

/// Commands that passed prove nothing about a tree that is unknown or that they changed themselves.
#[test]
fn commands_that_pass_on_no_certain_tree_leave_it_claimed() {
    for unproven in [
        Verification { tree: None, ..verification(0, "", "") },
        Verification { tree_changed: true, ..verification(0, "", "t") },
    ] {
        let mut bench = Bench::start(verifying());
        bench.select("developer");
        bench.report("success");
        bench.decide(complete());
        verified(&mut bench, unproven);
        bench.ended(Status::Claimed);
        let warned = |note: &Note| matches!(note, Note::Warned { message } if message.contains("claimed"));
        assert!(bench.notes.iter().any(warned));
    }
}

#[test]
fn a_failed_verification_is_a_fact_and_a_failure() {
    let mut bench = Bench::start(verifying());
    bench.select("developer");
    bench.report("success");
    bench.decide(complete());
    verified(&mut bench, verification(101, "test x ... FAILED", "t1"));
    // No pause: the provider is not overloaded.
    let asked = bench.asked();
    for part in [
        "exited with 101",
        "test x ... FAILED",
        "FAILED: the task is not done (on the tree as it is now)",
        "Consecutive failures: 1",
    ] {
        assert!(asked.contains(part), "{part:?} is missing in {asked}");
    }
    bench.select("developer");
    write(&mut bench, "repaired");
    bench.report("success");
    // The checks run before the arbiter is asked, and again for its COMPLETE.
    verified(&mut bench, verification(0, "ok", "t2"));
    assert!(
        bench.asked().contains("Checks that rawko ran: passed (on the tree as it is now)"),
        "{}",
        bench.asked()
    );
    bench.decide(complete());
    verified(&mut bench, verification(0, "ok", "t2"));
    assert_eq!(bench.ended(Status::Verified).iterations, 2);
}

#[test]
fn every_complete_is_verified_anew() {
    let mut bench = Bench::start(verifying());
    bench.select("developer");
    bench.report("success");
    bench.decide(complete());
    verified(&mut bench, verification(1, "no", "t1"));
    // Something else may have repaired it, or the command fails now and then: it runs again, and counts again.
    bench.decide(complete());
    verified(&mut bench, verification(1, "no", "t1"));
    assert!(bench.asked().contains("Consecutive failures: 2"));
    bench.give(Event::SessionResumed {
        changed_files: vec![],
        verify: None,
        limits: None,
        lost: rawko_core::session::Lost::default(),
    });
    assert!(
        bench
            .session
            .broken_off(Timestamp(1), ErrorInfo::new(ErrorCode::Unknown, "x"))
            .verification
            .is_none()
    );
    bench.decide(complete());
    verified(&mut bench, verification(0, "yes", "t2"));
    bench.ended(Status::Verified);
}

#[test]
fn a_complete_that_is_never_true_fails_the_run() {
    let mut bench = Bench::start(verifying());
    bench.select("developer");
    bench.report("success");
    for _ in 0..3 {
        bench.decide(complete());
        verified(&mut bench, verification(1, "no", "t1"));
    }
    let outcome = bench.ended(Status::Failed);
    assert!(outcome.error.as_ref().unwrap().message.contains("exited with 1"), "{outcome:?}");
}

#[test]
fn a_verification_that_fails_at_the_limit_ends_limited() {
    let mut setup = verifying();
    setup.limits.max_iterations = 1;
    let mut bench = Bench::start(setup);
    bench.select("developer");
    bench.report("success");
    bench.decide(complete());
    verified(&mut bench, verification(1, "no", "t1"));
    assert_eq!(bench.ended(Status::Limited).limit, Some(LimitKind::Iterations));
}

#[test]
fn a_run_that_is_cancelled_during_its_verification_waits_for_nothing() {
    let mut bench = Bench::start(verifying());
    bench.select("developer");
    bench.report("success");
    bench.decide(complete());
    let open = bench.open.iter().find_map(Effect::awaits_answer).unwrap();
    bench.give(Event::CancelRequested { reason: "enough".into() });
    bench.ended(Status::Cancelled);
    let late = bench.give(Event::Answered {
        effect: open,
        answer: EffectAnswer::VerificationFinished { verification: verification(0, "", "t") },
    });
    assert!(late.ignored);
}

#[test]
fn nothing_is_complete_before_an_agent_has_worked() {
    let mut bench = Bench::start(setup());
    bench.decide(complete());
    assert!(bench.asked().contains("COMPLETE is not possible: no agent has worked yet"), "{}", bench.asked());
    bench.decide(complete());
    let decided = bench.notes.iter().rev().find_map(|note| match note {
        Note::DecisionMade(record) => Some(record.clone()),
        _ => None,
    });
    assert_eq!(decided.unwrap().source, DecisionSource::Fallback);
    assert_eq!(bench.session.context().unwrap().current_mode, "planner");
}

/// Runs a session in which the arbiter repeats `answers` in turn, and agents do what `work` does.
#[track_caller]
fn runaway(answers: &[Value], work: impl Fn(&mut Bench, u32)) -> Bench {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    for round in 0..200 {
        work(&mut bench, round);
        let mut asked = 0;
        while bench.outcome.is_none() && bench.asked().contains(DECIDE) && is_arbiters(&bench) {
            bench.decide(answers[(round as usize + asked) % answers.len()].clone());
            asked += 1;
        }
        if bench.outcome.is_some() {
            break;
        }
    }
    let outcome = bench.ended(Status::Limited);
    assert_eq!(outcome.limit, Some(LimitKind::Stalled), "{outcome:?}");
    bench
}

fn is_arbiters(bench: &Bench) -> bool {
    bench.open.iter().any(|effect| {
        matches!(effect, Effect::CallModel { purpose, .. } if ["select", "evaluate"].contains(&purpose.to_string().as_str()))
    })
}

fn changes_of_agent(bench: &Bench) -> usize {
    let replaced = |note: &&Note| matches!(note, Note::DecisionMade(record) if record.instead_of.is_some());
    bench.notes.iter().filter(replaced).count()
}

/// No more executions than this may pass without any change of tree or plan (`docs/arbiter.md`).
const MOST_FRUITLESS: u32 = 9;

#[test]
fn arbiters_that_find_no_end_are_stopped() {
    let report = |bench: &mut Bench, _: u32| bench.report("success");
    let select = |mode: &str| json!({"decision": "SELECT_MODE", "mode": mode, "reason": "r"});
    let go_on = json!({"decision": "CONTINUE", "reason": "r"});
    let retry = json!({"decision": "RETRY", "reason": "r"});
    for answers in [
        vec![go_on.clone()],
        vec![retry.clone()],
        vec![retry, go_on],
        vec![select("planner"), select("developer")],
        vec![select("developer")],
    ] {
        let bench = runaway(&answers, report);
        let outcome = bench.outcome.as_ref().unwrap();
        assert!(outcome.iterations <= MOST_FRUITLESS, "{answers:?}: {outcome:?}");
        assert!(outcome.summary.contains("circles"), "{outcome:?}");
        assert!(changes_of_agent(&bench) > 0, "another agent was tried first: {answers:?}");
    }
}

#[test]
fn the_same_command_for_ever_ends_the_turn_and_then_the_run() {
    let work = |bench: &mut Bench, _: u32| {
        for _ in 0..20 {
            if bench.outcome.is_some() || is_arbiters(bench) {
                return;
            }
            bench.reply(vec![call("b", "Bash", json!({"command": "make"}))], StopReason::ToolUse);
            let Some((bash, _)) = bench.running().first().cloned() else { continue };
            bench.finish_tool(
                bash,
                ToolOutcome { exit_code: Some(2), is_error: true, ..ToolOutcome::ok("no rule, 0.3 s") },
            );
        }
    };
    let bench = runaway(&[json!({"decision": "CONTINUE", "reason": "r"})], work);
    let calls = bench
        .journal
        .iter()
        .filter(|stamped| {
            matches!(stamped.event, Event::Answered { answer: EffectAnswer::ToolFinished { .. }, .. })
        })
        .count();
    assert_eq!(calls, 9, "the ninth time is the last");
    assert!(changes_of_agent(&bench) > 0);
}

#[test]
fn the_agent_is_warned_that_it_repeats_itself() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    for times in 1..=3 {
        bench.reply(vec![call("r", "Read", json!({"file_path": "a"}))], StopReason::ToolUse);
        let (read, _) = bench.running()[0].clone();
        bench.finish_tool(read, ToolOutcome::ok("text"));
        assert_eq!(bench.asked().contains("nothing changed in between"), times == 3, "{times}");
    }
    bench.report("success");
    assert!(
        bench.asked().contains("Going round in circles, 3 times"),
        "so is the arbiter: {}",
        bench.asked()
    );
}

#[test]
fn no_override_sets_the_counts_back() {
    let mut bench = Bench::start(setup());
    bench.select("developer");
    for _ in 0..20 {
        if bench.outcome.is_some() {
            break;
        }
        bench.give(Event::OverrideRequested {
            command: Override::ForceAgent { agent: "developer".into() },
            request: None,
        });
    }
    assert_eq!(bench.ended(Status::Limited).limit, Some(LimitKind::Stalled));
}

#[test]
fn progress_is_never_stopped() {
    let mut setup = setup();
    setup.limits.max_iterations = 60;
    let mut bench = Bench::start(setup);
    bench.select("developer");
    for round in 0..60 {
        write_into(&mut bench, &format!("file {round}"), "the same words");
        bench.report("success");
        if round < 59 {
            bench.decide(json!({"decision": "CONTINUE", "reason": "r"}));
        }
    }
    bench.decide(complete());
    bench.ended(Status::Claimed);
    assert_eq!(changes_of_agent(&bench), 0);
}

/// Lets the agent make `turns` calls that bring nothing.
fn idle(bench: &mut Bench, turns: u32) {
    for turn in 0..turns {
        let input = json!({"file_path": format!("file {}", "x".repeat(turn as usize))});
        bench.reply(vec![call("r", "Read", input)], StopReason::ToolUse);
        let (read, _) = bench.running()[0].clone();
        bench.finish_tool(read, ToolOutcome::ok(format!("text {}", "x".repeat(turn as usize))));
    }
}

fn patient(setup: Setup) -> Setup {
    Setup { agents: [agent("planner", 1_000), agent("developer", 1_000)].into(), ..setup }
}

#[test]
fn after_a_hundred_calls_without_progress_the_checks_run() {
    let mut bench = Bench::start(patient(verifying()));
    bench.select("developer");
    write(&mut bench, "words");
    idle(&mut bench, 60);
    assert!(!bench.asked().contains("no progress"), "{}", bench.asked());
    idle(&mut bench, 1);
    assert!(bench.asked().contains("At 100 times your turn ends and the checks run"), "{}", bench.asked());
    idle(&mut bench, 39);
    verified(&mut bench, verification(1, "2 failed", "t"));
    let question = bench.asked();
    assert!(question.contains("2 failed") && question.contains("100 times by now"), "{question}");
    // It may go on: the arbiter decides.
    bench.decide(json!({"decision": "CONTINUE", "reason": "r"}));
    idle(&mut bench, 39);
    let outcome = bench.ended(Status::Limited);
    assert_eq!(outcome.limit, Some(LimitKind::Stalled), "{outcome:?}");
    assert!(outcome.summary.contains("140 times: a model call with no check"), "{outcome:?}");
}

#[test]
fn a_long_exploration_is_no_circle_to_the_arbiter() {
    let mut bench = Bench::start(patient(setup()));
    bench.select("developer");
    idle(&mut bench, 80);
    bench.report("success");
    assert!(!bench.asked().contains("circles"), "{}", bench.asked());
}

#[test]
fn a_check_of_rawkos_own_that_is_better_is_progress() {
    let mut bench = Bench::start(patient(verifying()));
    bench.select("developer");
    let mut rounds = 0;
    for exit_code in [1, 0, 1, 0] {
        write(&mut bench, &format!("words {}", "y".repeat(rounds)));
        idle(&mut bench, 40);
        bench.report("success");
        rounds += 1;
        let output = if exit_code == 0 { "ok".to_owned() } else { format!("failed: {}", "z".repeat(rounds)) };
        verified(&mut bench, verification(exit_code, &output, &format!("t{rounds}")));
        bench.decide(json!({"decision": "CONTINUE", "reason": "r"}));
    }
    assert_eq!(bench.outcome, None);
}

#[test]
fn a_run_that_was_stopped_is_taken_up_with_fresh_counts() {
    let mut bench = Bench::start(patient(setup()));
    bench.select("developer");
    idle(&mut bench, 99);
    bench.decide(json!({"decision": "CONTINUE", "reason": "r"}));
    idle(&mut bench, 39);
    let outcome = bench.ended(Status::Limited).clone();
    assert!(outcome.can_be_taken_up(), "{outcome:?}");
    bench.outcome = None;
    let taken_up = Event::TaskTakenUp {
        limits: rawko_core::setup::RunLimits::default(),
        changed_files: vec![],
        verify: None,
        lost: rawko_core::session::Lost::default(),
    };
    assert!(!bench.give(taken_up).ignored);
    idle(&mut bench, 59);
    assert_eq!(bench.outcome, None);
    bench.report("success");
    bench.decide(complete());
    bench.ended(Status::Claimed);
}
