//! Model calls that fail for a while: made again in the same conversation, before anything counts as a failure.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod session_support;

use rawko_core::machine::State;
use rawko_core::message::StopReason;
use rawko_core::session::{
    DecisionRecord, DecisionSource, Effect, EffectAnswer, Event, Note, PhaseKind, Status, TimerPurpose,
};
use rawko_core::setup::{CallRetry, ModelChoice, Setup};
use rawko_core::{ErrorCode, ErrorInfo, Usage};
use serde_json::json;

use session_support::{Bench, call, model, setup};

const MINUTE: u64 = 60_000;

fn patient(patience_ms: u64) -> Setup {
    Setup { retry: Some(CallRetry { patience_ms }), ..setup() }
}

/// A developer in the middle of its conversation.
fn working(setup: Setup) -> Bench {
    let mut bench = Bench::start(setup);
    bench.select("developer");
    bench.reply(vec![call("1", "Read", json!({"file_path": "a"}))], StopReason::ToolUse);
    let (read, _) = bench.running()[0].clone();
    bench.finish_tool(read, rawko_core::tool::ToolOutcome::ok("text"));
    bench
}

fn fail(bench: &mut Bench, error: ErrorInfo, usage: Option<Usage>) {
    let answer = EffectAnswer::ModelFailed { error, duration_ms: 5, usage };
    bench.answer(|effect| matches!(effect, Effect::CallModel { .. }), |id| Event::answered(id, answer));
}

fn down(bench: &mut Bench) {
    fail(bench, ErrorInfo::new(ErrorCode::NetworkError, "no connection"), None);
}

fn cut(bench: &mut Bench) {
    let usage = Usage { input_tokens: 40, output_tokens: 2, ..Usage::default() };
    fail(bench, ErrorInfo::new(ErrorCode::NetworkError, "the answer was cut off"), Some(usage));
}

/// The pause that is open, in milliseconds.
#[track_caller]
fn pause(bench: &Bench) -> u64 {
    let pause = bench.open.iter().find_map(|effect| match effect {
        Effect::StartTimer { after_ms, purpose: TimerPurpose::Retry, .. } => Some(*after_ms),
        _ => None,
    });
    pause.unwrap_or_else(|| panic!("no pause: {:?}", bench.open))
}

fn wait(bench: &mut Bench) {
    bench.clock += pause(bench);
    bench.fire(TimerPurpose::Retry);
}

#[test]
fn a_turn_that_is_cut_off_is_asked_again_in_the_same_conversation() {
    let mut bench = working(patient(0));
    let asked = bench.asked();
    for pauses in [1_000, 2_000] {
        cut(&mut bench);
        assert_eq!((bench.session.phase(), pause(&bench)), (PhaseKind::Retrying, pauses));
        assert_eq!(bench.session.context().unwrap().total_failures, 0);
        wait(&mut bench);
        assert_eq!(bench.asked(), asked);
    }
    bench.report("success");
    assert_eq!(bench.session.context().unwrap().iteration_count, 1);
    bench.decide(json!({"decision": "COMPLETE", "summary": "works", "reason": "r"}));
    let outcome = bench.ended(Status::Claimed);
    assert_eq!(outcome.usage.total_tokens(), 4 * 110 + 2 * 42, "what was cut off is paid for");
}

#[test]
fn a_turn_that_is_always_cut_off_fails_in_the_end() {
    let mut bench = working(patient(30 * MINUTE));
    for _ in 0..2 {
        cut(&mut bench);
        wait(&mut bench);
    }
    cut(&mut bench);
    let context = bench.session.context().unwrap();
    assert_eq!((bench.session.state(), context.total_failures), (State::Selecting, 1));
    let usage = context.history[0].usage.unwrap();
    assert_eq!(usage.total_tokens(), 110 + 3 * 42);
}

#[test]
fn an_outage_is_waited_out_and_no_failure_counts() {
    let mut bench = working(patient(30 * MINUTE));
    let asked = bench.asked();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        down(&mut bench);
        let (error, attempt) = bench.session.waits_to_retry().unwrap();
        assert_eq!((error.message.as_str(), attempt), ("no connection", pauses.len() as u32 + 2));
        pauses.push(pause(&bench) / 1_000);
        wait(&mut bench);
        let id = bench.open.iter().find_map(|effect| match effect {
            Effect::CallModel { id, .. } => Some(*id),
            _ => None,
        });
        assert!(bench.requests[&id.unwrap()].is_repeat, "the provider does not retry too");
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!(bench.asked(), asked);
    bench.report("success");
    assert_eq!(bench.session.context().unwrap().total_failures, 0);
    // The next outage begins anew.
    bench.select("developer");
    down(&mut bench);
    assert_eq!(pause(&bench), 1_000);
}

#[test]
fn patience_ends() {
    let mut bench = working(patient(MINUTE));
    let mut waited = 0;
    for _ in 0..7 {
        down(&mut bench);
        if bench.session.waits_to_retry().is_none() {
            break;
        }
        waited += pause(&bench);
        wait(&mut bench);
    }
    assert!((MINUTE - 100..=MINUTE).contains(&waited), "{waited}");
    assert_eq!(bench.session.context().unwrap().total_failures, 1);
}

/// How long a run waits for a provider that never comes back, and how often a call is given up.
#[track_caller]
fn check_outage(fallback: bool) {
    let mut setup = patient(30 * MINUTE);
    if fallback {
        setup.fallback = vec![ModelChoice { provider: "q".into(), ..model("spare") }];
    }
    let mut bench = working(setup);
    let mut waited = 0;
    while bench.outcome.is_none() {
        let is_called = bench.open.iter().any(|effect| matches!(effect, Effect::CallModel { .. }));
        if is_called {
            down(&mut bench);
        } else if bench.session.waits_to_retry().is_some() {
            waited += pause(&bench);
            wait(&mut bench);
        } else {
            bench.fire(TimerPurpose::Backoff);
        }
    }
    assert_eq!(bench.session.context().unwrap().total_failures, 3);
    assert_eq!((waited + MINUTE / 2) / MINUTE, 30);
    bench.ended(Status::Failed);
}

#[test]
fn one_outage_has_one_patience() {
    check_outage(false);
    check_outage(true);
}

#[test]
fn attempts_of_the_provider_count() {
    let mut bench = working(patient(30 * MINUTE));
    let error =
        ErrorInfo { attempts: std::num::NonZeroU16::new(5), ..ErrorInfo::new(ErrorCode::Overloaded, "busy") };
    fail(&mut bench, error, None);
    assert_eq!(bench.session.waits_to_retry().unwrap().1, 6);
    assert_eq!(pause(&bench), 16_000);
}

/// Whether a wait that the server asks for is waited.
#[track_caller]
fn check_asked(code: ErrorCode, asked_ms: u64, max_duration_ms: Option<u64>, waited: bool) {
    let mut setup = patient(30 * MINUTE);
    setup.limits.max_duration_ms = max_duration_ms;
    let mut bench = working(setup);
    fail(&mut bench, ErrorInfo { retry_after_ms: Some(asked_ms), ..ErrorInfo::new(code, "later") }, None);
    assert_eq!(bench.session.waits_to_retry().is_some(), waited);
    if waited {
        assert_eq!(pause(&bench), asked_ms);
    }
}

#[test]
fn a_quota_is_waited_for_within_the_runs_time_and_an_overload_within_patience() {
    check_asked(ErrorCode::RateLimited, 120 * MINUTE, None, true);
    check_asked(ErrorCode::RateLimited, 120 * MINUTE, Some(180 * MINUTE), true);
    check_asked(ErrorCode::RateLimited, 120 * MINUTE, Some(60 * MINUTE), false);
    check_asked(ErrorCode::Overloaded, 20 * MINUTE, None, true);
    check_asked(ErrorCode::Overloaded, 40 * MINUTE, None, false);
    check_asked(ErrorCode::AuthenticationFailed, 1, None, false);
}

#[test]
fn a_wait_beyond_the_runs_time_ends_it_at_once() {
    let mut setup = patient(30 * MINUTE);
    setup.limits.max_duration_ms = Some(60 * MINUTE);
    let mut bench = working(setup);
    let asked =
        ErrorInfo { retry_after_ms: Some(120 * MINUTE), ..ErrorInfo::new(ErrorCode::RateLimited, "later") };
    fail(&mut bench, asked, None);
    let outcome = bench.ended(Status::Limited);
    assert!(outcome.summary.contains("7200 s"), "{}", outcome.summary);
}

/// The agents' model is down, and the arbiter's is not.
#[test]
fn an_arbiter_that_answers_does_not_renew_the_patience_with_the_agents() {
    let mut bench = working(patient(30 * MINUTE));
    let mut waited = 0;
    while bench.outcome.is_none() {
        if bench.session.waits_to_retry().is_some() {
            waited += pause(&bench);
            wait(&mut bench);
        } else if bench.session.state() == State::Executing {
            down(&mut bench);
        } else if bench.open.iter().any(|effect| matches!(effect, Effect::CallModel { .. })) {
            bench.select("developer");
        } else {
            bench.fire(TimerPurpose::Backoff);
        }
    }
    assert_eq!((waited + MINUTE / 2) / MINUTE, 30);
}

#[test]
fn without_patience_only_what_was_cut_is_asked_again() {
    let mut bench = working(patient(0));
    down(&mut bench);
    assert_eq!(bench.session.context().unwrap().total_failures, 1);
}

#[test]
fn another_provider_comes_before_the_wait() {
    let mut setup = patient(30 * MINUTE);
    setup.fallback = vec![ModelChoice { provider: "q".into(), ..model("spare") }];
    let mut bench = working(setup);
    down(&mut bench);
    let to_spare = |effect: &Effect| matches!(effect, Effect::CallModel { provider, .. } if provider == "q");
    assert!(bench.open.iter().any(to_spare));
    down(&mut bench);
    assert_eq!(pause(&bench), 1_000);
}

/// The request that is open to a model, and whether the provider sends it only once.
#[track_caller]
fn is_repeat(bench: &Bench) -> bool {
    let id = bench.open.iter().find_map(|effect| match effect {
        Effect::CallModel { id, .. } => Some(*id),
        _ => None,
    });
    bench.requests[&id.expect("a call")].is_repeat
}

fn decisions(bench: &Bench) -> Vec<&DecisionRecord> {
    let all = bench.notes.iter();
    all.filter_map(|note| match note {
        Note::DecisionMade(record) => Some(record.as_ref()),
        _ => None,
    })
    .collect()
}

fn warnings(bench: &Bench) -> Vec<&str> {
    let all = bench.notes.iter();
    all.filter_map(|note| match note {
        Note::Warned { message } => Some(message.as_str()),
        _ => None,
    })
    .collect()
}

#[test]
fn the_rules_decide_while_the_arbiters_provider_is_down() {
    let mut bench = Bench::start(patient(30 * MINUTE));
    assert!(!is_repeat(&bench), "the provider makes its own attempts");
    down(&mut bench);
    assert_eq!((bench.session.state(), bench.session.phase()), (State::Executing, PhaseKind::Turn));
    let why = "network_error: no connection";
    let [first] = decisions(&bench)[..] else { panic!("{:?}", bench.notes) };
    assert_eq!((first.source, first.calls.len()), (DecisionSource::Fallback, 1));
    assert!(first.rule.is_some());
    assert_eq!(first.rejected, [format!("p did not answer ({why})")]);
    let said = format!("the arbiter's provider p does not answer ({why}); the rules decide until it does");
    assert_eq!(warnings(&bench), [said.as_str()]);
    assert!(!is_repeat(&bench), "the agent's provider is another one, as far as is known");

    // The next question costs one request, and the user is not warned again.
    bench.report("success");
    assert_eq!(bench.session.state(), State::Evaluating);
    assert!(is_repeat(&bench));
    down(&mut bench);
    assert_eq!(decisions(&bench)[1].source, DecisionSource::Fallback);
    assert_eq!(warnings(&bench).len(), 1);
    assert_eq!(bench.session.context().unwrap().total_failures, 0);

    // It is back, and has its attempts again.
    bench.report("success");
    assert!(is_repeat(&bench));
    bench.select("developer");
    assert_eq!(decisions(&bench)[2].source, DecisionSource::Llm);
    bench.report("success");
    assert!(!is_repeat(&bench));
    down(&mut bench);
    assert_eq!(warnings(&bench).len(), 2, "another outage");
}

#[test]
fn every_outage_of_the_arbiter_leads_to_the_rules_and_nothing_else_does() {
    for code in [ErrorCode::Overloaded, ErrorCode::RateLimited, ErrorCode::NetworkError, ErrorCode::Timeout] {
        let mut bench = Bench::start(patient(30 * MINUTE));
        let asked = ErrorInfo { retry_after_ms: Some(20 * MINUTE), ..ErrorInfo::new(code, "later") };
        fail(&mut bench, asked, None);
        assert_eq!(bench.session.state(), State::Executing, "{code}");
    }
    for code in [
        ErrorCode::AuthenticationFailed,
        ErrorCode::ModelUnavailable,
        ErrorCode::InvalidRequest,
        ErrorCode::ContextLengthExceeded,
        ErrorCode::Unknown,
    ] {
        let mut bench = Bench::start(patient(30 * MINUTE));
        fail(&mut bench, ErrorInfo::new(code, "no"), None);
        bench.ended(Status::Failed);
    }
}

#[test]
fn an_arbiter_that_is_always_cut_off_is_asked_three_times() {
    let mut bench = Bench::start(patient(30 * MINUTE));
    for _ in 0..2 {
        cut(&mut bench);
        wait(&mut bench);
    }
    cut(&mut bench);
    assert_eq!(bench.session.state(), State::Executing);
    assert_eq!(decisions(&bench)[0].calls.len(), 3);
}

#[test]
fn a_run_that_is_taken_up_asks_the_arbiter_in_full() {
    let mut bench = Bench::start(patient(30 * MINUTE));
    down(&mut bench);
    bench.give(Event::SessionResumed {
        changed_files: vec![],
        verify: None,
        limits: None,
        lost: rawko_core::session::Lost::default(),
    });
    bench.report("success");
    assert!(!is_repeat(&bench));
}

#[test]
fn ctrl_c_ends_a_wait() {
    let mut bench = working(patient(30 * MINUTE));
    down(&mut bench);
    wait(&mut bench);
    down(&mut bench);
    assert_eq!(bench.session.phase(), PhaseKind::Retrying);
    bench.give(Event::CancelRequested { reason: "enough".into() });
    bench.ended(Status::Cancelled);
}

#[test]
fn a_new_process_waits_for_the_rest() {
    let mut bench = working(patient(30 * MINUTE));
    for _ in 0..6 {
        down(&mut bench);
        wait(&mut bench);
    }
    down(&mut bench);
    assert_eq!(pause(&bench), 60_000);
    bench.clock += 20_000;
    bench.give(Event::SessionResumed {
        changed_files: vec![],
        verify: None,
        limits: None,
        lost: rawko_core::session::Lost::default(),
    });
    let lost = |effect: &Effect| matches!(effect, Effect::StartTimer { purpose: TimerPurpose::Retry, .. });
    bench.answer(lost, |id| Event::answered(id, EffectAnswer::EffectLost));
    assert_eq!(pause(&bench), 60_000 - 20_000 - 20);
    wait(&mut bench);
    bench.report("success");
    assert_eq!(bench.session.context().unwrap().total_failures, 0);
}

#[test]
fn waiting_is_not_the_agents_time() {
    let mut setup = patient(30 * MINUTE);
    for agent in setup.agents.values_mut() {
        agent.config.limits.timeout = Some(MINUTE);
        agent.config.budget.max_duration = rawko_core::TimeSpan::from_ms(MINUTE);
    }
    let mut bench = working(setup);
    for _ in 0..7 {
        down(&mut bench);
        wait(&mut bench);
    }
    for purpose in [TimerPurpose::ExecutionDeadline, TimerPurpose::AgentBudget] {
        bench.fire(purpose);
        assert_eq!((bench.session.phase(), bench.session.state()), (PhaseKind::Turn, State::Executing));
        let again =
            |effect: &Effect| matches!(effect, Effect::StartTimer { purpose: it, .. } if *it == purpose);
        assert_eq!(bench.open.iter().filter(|effect| again(effect)).count(), 1, "{purpose:?}");
    }
    bench.fire(TimerPurpose::ExecutionDeadline);
    assert_eq!(bench.session.context().unwrap().history.len(), 1, "the rest of the time counts");
}
