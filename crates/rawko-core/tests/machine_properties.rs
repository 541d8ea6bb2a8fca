//! Properties of every run: no panic, limits hold, final states are final, and `state = fold(events)` also if the
//! machine is serialised in between.

mod machine_support;

use machine_support::{draw, draws, is_answer, limits, run};
use proptest::prelude::*;
use rawko_core::machine::{
    Context, Conversation, Decision, EventKind, ExecutionStatus, MAX_ITERATIONS_SUMMARY, Machine,
    MachineEffect, MachineEvent, State,
};
use rawko_core::{ErrorCode, Timestamp};
use serde_json::json;

/// The states that wait for the answer to an effect.
fn is_working(state: State) -> bool {
    matches!(state, State::Selecting | State::Executing | State::Evaluating)
}

/// Overrides that start work without a check of the limits.
fn is_override(event: &MachineEvent) -> bool {
    matches!(event.kind(), EventKind::ForceAgent | EventKind::Retry | EventKind::SkipStep)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Any event may come in any state, even in one that no run reaches.
    #[test]
    fn nothing_panics_and_what_is_ignored_changes_nothing(
        limits in limits(),
        draws in draws(),
        last in draw(),
        state in prop::sample::select(State::ALL.to_vec()),
    ) {
        let machine = run(&limits, &draws, |before, _, _, after, step| {
            if step.ignored {
                assert_eq!(before, after);
                assert!(step.effects.is_empty());
            }
        });
        let mut written = serde_json::to_value(&machine).unwrap();
        written["state"] = json!(state);
        let machine: Machine = serde_json::from_value(written).unwrap();
        for kind in EventKind::ALL {
            let mut machine = machine.clone();
            let before = machine.clone();
            let step = machine.apply(Timestamp(7), &last.event_of(kind));
            prop_assert!(!step.ignored || machine == before);
            prop_assert!(!state.is_final() || step.ignored);
        }
    }

    /// The machine never stays in the transient state.
    #[test]
    fn errors_are_weighed_in_the_same_step(limits in limits(), draws in draws()) {
        run(&limits, &draws, |_, _, _, after, _| assert_ne!(after.state(), State::ErrorHandling));
    }

    /// Without overrides a run enters `executing` at most as often as the limit allows, but at least once, because
    /// nothing has been counted before. Each override that applies (FORCE_AGENT, RETRY, SKIP_STEP) allows one more
    /// iteration; the evaluation after it ends the run.
    #[test]
    fn iterations_are_limited(limits in limits(), draws in draws()) {
        let mut overrides = 0;
        run(&limits, &draws, |_, _, event, after, step| {
            if event.kind() == EventKind::StartTask && !step.ignored {
                overrides = 0;
            }
            overrides += u32::from(is_override(event) && !step.ignored);
            assert!(after.context().iteration_count <= limits.max_iterations.max(1) + overrides);
        });
    }

    /// Failures in a row never exceed the limit: the one that reaches it ends the run.
    #[test]
    fn failures_are_limited(limits in limits(), draws in draws()) {
        run(&limits, &draws, |_, _, _, after, _| {
            let context = after.context();
            assert!(context.consecutive_failures <= limits.max_consecutive_failures.max(1));
            if context.consecutive_failures >= limits.max_consecutive_failures.max(1) {
                assert!(matches!(after.state(), State::Failed | State::Idle), "{}", after.state());
            }
            assert!(context.total_failures >= context.consecutive_failures);
        });
    }

    /// A run that only gets answers to its effects ends, whatever the answers are: an iteration takes at most three
    /// (select, execute, evaluate), and each further answer is a failure, whose number in a row is limited.
    #[test]
    fn answers_alone_lead_to_an_end(limits in limits(), draws in prop::collection::vec(draw(), 90)) {
        let iterations = limits.max_iterations.max(1);
        let most = 3 * iterations + (iterations + 1) * limits.max_consecutive_failures.max(1);
        let mut machine = Machine::new(limits);
        let _ = machine.apply(Timestamp(0), &MachineEvent::StartTask { task: "t".to_owned() });
        let mut answers = 0;
        for draw in draws {
            let Some(answer) = draw.answer(machine.state()) else { break };
            prop_assert!(!machine.apply(Timestamp(0), &answer).ignored);
            answers += 1;
        }
        prop_assert!(machine.state().is_final(), "still {} after {answers} answers", machine.state());
        prop_assert!(answers <= most, "{answers} answers, {most} expected at most");
    }

    /// Serialising the machine in the middle of a run makes no difference.
    #[test]
    fn state_is_the_fold_of_the_events(limits in limits(), draws in draws(), cut in any::<prop::sample::Index>()) {
        let mut events = Vec::new();
        let whole = run(&limits, &draws, |_, now, event, _, step| events.push((now, event.clone(), step.clone())));
        let (first, rest) = events.split_at(if events.is_empty() { 0 } else { cut.index(events.len()) });
        let mut machine = Machine::new(limits);
        for (now, event, step) in first {
            prop_assert_eq!(&machine.apply(*now, event), step);
        }
        let written = serde_json::to_string(&machine).unwrap();
        let mut resumed: Machine = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(&resumed, &machine);
        for (now, event, step) in rest {
            let written = serde_json::to_string(event).unwrap();
            let read: MachineEvent = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(&resumed.apply(*now, &read), step);
        }
        prop_assert_eq!(serde_json::to_string(&resumed).unwrap(), serde_json::to_string(&whole).unwrap());
    }

    /// Every working state is entered with exactly one effect, and leaving it without the answer abandons it first.
    #[test]
    fn effects_match_the_state_they_lead_to(limits in limits(), draws in draws()) {
        run(&limits, &draws, |before, _, event, after, step| {
            let mut effects = step.effects.as_slice();
            if !step.ignored && is_working(before.state()) && !is_answer(event.kind()) {
                let streaming = before == after && effects.is_empty();
                if let Some((first, rest)) = effects.split_first() {
                    assert_eq!(*first, MachineEffect::Abandon { state: before.state() });
                    effects = rest;
                } else {
                    assert!(streaming, "{event:?} left {} without a word", before.state());
                }
            }
            match effects {
                [] => assert!(before == after || after.state() == State::Idle),
                [MachineEffect::SelectAgent { .. }] => assert_eq!(after.state(), State::Selecting),
                [MachineEffect::ExecuteAgent { agent, conversation }] => {
                    assert_eq!(after.state(), State::Executing);
                    assert_eq!(*agent, after.context().current_mode);
                    let continued = before.state() == State::Evaluating
                        && matches!(event.decision(), Some(Decision::Continue { .. }));
                    assert_eq!(*conversation == Conversation::Same, continued);
                }
                [MachineEffect::EvaluateProgress] => assert_eq!(after.state(), State::Evaluating),
                [MachineEffect::Finish { state }] => {
                    assert_eq!(after.state(), *state);
                    assert!(state.is_final());
                }
                other => panic!("{other:?}"),
            }
        });
    }

    /// The history only grows, by one entry for each time `executing` is left, with the times of its events.
    #[test]
    fn history_records_every_execution(limits in limits(), draws in draws()) {
        run(&limits, &draws, |before, now, event, after, step| {
            if event.kind() == EventKind::Reset && !step.ignored {
                assert_eq!(*after.context(), Context::default());
                return;
            }
            let left = before.state() == State::Executing
                && (after.state() != State::Executing || !step.effects.is_empty());
            let (old, new) = (&before.context().history, &after.context().history);
            assert_eq!(new.len(), old.len() + usize::from(left));
            assert_eq!(new[..old.len()], old[..]);
            if left {
                let entry = new.last().unwrap();
                assert_eq!(entry.agent, before.context().current_mode);
                assert_eq!(entry.iteration, before.context().iteration_count);
                assert_eq!(Some(entry.started_at), before.context().executing_since);
                assert_eq!(entry.completed_at, now);
                assert_eq!(entry.result == ExecutionStatus::Cancelled, !is_answer(event.kind()));
                let step = before.context().plan.as_ref().map(|plan| plan.current_step_index);
                assert_eq!(entry.plan_step, step);
            }
        });
    }

    /// BLOCKED ends the run with its reason as the error, whatever the limits are, and is no failure in a row.
    #[test]
    fn blocked_ends_the_run_with_its_reason(limits in limits(), draws in draws(), reason in "[a-z]{1,9}") {
        let mut machine = run(&limits, &draws, |_, _, _, _, _| {});
        let decision = Decision::Blocked { reason: reason.clone() };
        let event = match machine.state() {
            State::Selecting => MachineEvent::AgentSelected { decision: decision.clone() },
            State::Evaluating => MachineEvent::ArbiterDecision { decision: decision.clone() },
            _ => return Ok(()),
        };
        let failures = machine.context().consecutive_failures;
        let step = machine.apply(Timestamp(9), &event);
        prop_assert_eq!(step.effects, [MachineEffect::Finish { state: State::Failed }]);
        let context = machine.context();
        let last = context.last_error.as_ref().unwrap();
        prop_assert_eq!((last.error.code, &last.error.message), (ErrorCode::Blocked, &reason));
        prop_assert_eq!(context.consecutive_failures, failures);
        prop_assert_eq!(context.last_decision.as_ref(), Some(&decision));
    }

    /// `limited` says that the iteration limit ended the run, and nothing else does.
    #[test]
    fn limited_marks_the_iteration_limit(limits in limits(), draws in draws()) {
        let machine = run(&limits, &draws, |_, _, _, _, _| {});
        let context = machine.context();
        if context.limited {
            prop_assert!(context.iteration_count >= limits.max_iterations);
            prop_assert!(matches!(machine.state(), State::Complete | State::Failed));
        }
        let by_limit = Some(Decision::Complete { summary: MAX_ITERATIONS_SUMMARY.to_owned() });
        prop_assert_eq!(
            context.limited && machine.state() == State::Complete,
            context.last_decision == by_limit
        );
    }
}
