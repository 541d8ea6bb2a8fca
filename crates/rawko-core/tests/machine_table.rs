//! The table is well formed, and the machine follows it exactly.

#![allow(clippy::unwrap_used)]

mod machine_support;

use std::collections::{BTreeSet, VecDeque};

use rawko_core::Timestamp;
use rawko_core::machine::table::{self, INITIAL, Row, STATES, TABLE, Trigger};
use rawko_core::machine::{Action, EventKind, Guard, Limits, Machine, MachineEvent, State};
use serde_json::json;

fn rows_from(state: State) -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(move |row| row.leaves(state))
}

/// The states that arrows lead to from `state`, one step away.
fn targets(state: State) -> BTreeSet<&'static str> {
    rows_from(state).filter_map(|row| row.target).map(State::as_str).collect()
}

/// The states that can be reached from `start`, itself included.
fn reachable(start: State) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::from([start.as_str()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        for next in State::ALL {
            if targets(state).contains(next.as_str()) && found.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    found
}

#[test]
fn every_state_is_described_once() {
    let described: Vec<State> = STATES.iter().map(|row| row.state).collect();
    assert_eq!(described, State::ALL);
}

#[test]
fn every_state_is_reachable_and_every_run_can_end() {
    assert_eq!(reachable(INITIAL).len(), State::ALL.len());
    for state in State::ALL {
        let ends = ["complete", "failed", "cancelled"].iter().any(|end| reachable(state).contains(end));
        assert!(ends, "no end can be reached from {state}");
        assert_eq!(targets(state).is_empty(), state.is_final(), "{state}");
        assert_eq!(rows_from(state).count() == 0, state.is_final(), "{state}");
    }
}

#[test]
fn every_event_guard_and_action_is_used_and_named_once() {
    let rows = || TABLE.iter();
    for kind in EventKind::ALL {
        assert!(rows().any(|row| row.trigger == Trigger::Event(kind)), "{kind} has no row");
    }
    for guard in Guard::ALL {
        assert!(rows().any(|row| row.guard == Some(guard)), "{guard:?} guards nothing");
    }
    for action in Action::ALL {
        let on_entry = STATES.iter().any(|state| state.entry.contains(&action));
        assert!(on_entry || rows().any(|row| row.actions.contains(&action)), "{action:?} is never run");
    }
    let names: BTreeSet<&str> =
        Guard::ALL.iter().map(|guard| guard.name()).chain(Action::ALL.iter().map(|a| a.name())).collect();
    assert_eq!(names.len(), Guard::ALL.len() + Action::ALL.len());
}

/// No row for a state and a trigger comes after a row without a guard, or after one with the same guard: it could
/// never be taken.
#[test]
fn no_row_is_dead() {
    for state in State::ALL {
        let mut seen: Vec<(Trigger, Option<Guard>)> = Vec::new();
        for row in rows_from(state) {
            let shadowed = seen.contains(&(row.trigger, None)) || seen.contains(&(row.trigger, row.guard));
            assert!(!shadowed, "in {state} {row:?} can never be taken");
            seen.push((row.trigger, row.guard));
        }
    }
}

/// A step only passes through `error_handling`, always leaves it, and never returns to it.
#[test]
fn the_transient_state_is_always_left() {
    for state in State::ALL {
        let always: Vec<&Row> = rows_from(state).filter(|row| row.trigger == Trigger::Always).collect();
        if state != State::ErrorHandling {
            assert!(always.is_empty(), "{state} is no transient state");
            continue;
        }
        assert_eq!(always.len(), rows_from(state).count(), "{state} takes no events");
        assert_eq!(always.last().and_then(|row| row.guard), None, "{state} can be stuck");
        for row in always {
            assert!(row.target.is_some_and(|target| target != state), "{row:?}");
        }
    }
}

/// Every event of a row carries what the row's guard and actions read.
#[test]
fn rows_read_only_what_their_event_carries() {
    let read_of = |kind: EventKind| {
        let event: MachineEvent = serde_json::from_str(kind.example()).unwrap();
        (
            event.decision().is_some(),
            event.error().is_some(),
            event.named_agent().is_some(),
            matches!(event, MachineEvent::AgentComplete { .. }),
        )
    };
    for row in TABLE {
        let Trigger::Event(kind) = row.trigger else { continue };
        let (decision, error, agent, result) = read_of(kind);
        let judged = row.guard.into_iter().all(|guard| match guard {
            Guard::IsComplete
            | Guard::IsBlocked
            | Guard::IsContinue
            | Guard::ShouldRetry
            | Guard::IsSelectMode
            | Guard::SelectsKnownAgent
            | Guard::ResumesLastAgent => decision,
            Guard::HasAgent => agent && !decision,
            Guard::Succeeded | Guard::MayFailAgain => result,
            Guard::HasRunAgent | Guard::HasPlan | Guard::MaxFailuresReached => true,
            Guard::MaxIterationsReached | Guard::IsRecoverableError => true,
        });
        let done = row.actions.iter().all(|action| match action {
            Action::StartTask => kind == EventKind::StartTask,
            Action::RecordDecision | Action::RecordBlocked => decision,
            Action::SelectDecidedAgent | Action::RejectSelection => decision,
            Action::SetAgent => agent,
            Action::RecordExecution | Action::CountUnsuccess | Action::MergePlan => result,
            Action::RecordFailure => kind == EventKind::AgentError,
            Action::RecordCancelled => !machine_support::is_answer(kind),
            Action::CountFailure => error,
            Action::ResetContext | Action::RecordMaxIterations | Action::MarkLimited => true,
            Action::BeginIteration | Action::ClearFailures | Action::SkipStep => true,
            Action::SelectAgent | Action::SelectAgentAfterBackoff | Action::ExecuteAgent => true,
            Action::ContinueAgent | Action::EvaluateProgress | Action::Abandon | Action::Finish => true,
        });
        assert!(judged && done, "{row:?}");
    }
}

/// Leaving a state that waits for an answer, other than by that answer, abandons the question.
#[test]
fn overrides_abandon_what_was_asked() {
    for row in TABLE {
        let Trigger::Event(kind) = row.trigger else { continue };
        let overrides =
            row.target.is_some() && row.from != [State::Idle] && !machine_support::is_answer(kind);
        assert_eq!(row.actions.first() == Some(&Action::Abandon), overrides, "{row:?}");
        let records = row.actions.contains(&Action::RecordCancelled);
        let cancels = overrides && row.from == [State::Executing];
        assert_eq!(records, cancels, "{row:?}");
    }
}

/// Where one event can lead according to the table alone, ignoring guards.
fn predicted() -> BTreeSet<(&'static str, &'static str, &'static str)> {
    let mut arrows = BTreeSet::new();
    for row in TABLE {
        let Trigger::Event(kind) = row.trigger else { continue };
        for from in row.from {
            let to = row.target.unwrap_or(*from);
            let ends = if to == State::ErrorHandling { targets(to) } else { BTreeSet::from([to.as_str()]) };
            arrows.extend(ends.into_iter().map(|end| (from.as_str(), kind.as_str(), end)));
        }
    }
    arrows
}

/// Enough events of every kind to make each guard hold and fail.
fn alphabet() -> Vec<MachineEvent> {
    let mut events: Vec<serde_json::Value> = Vec::new();
    for decision in [
        json!({"type": "SELECT_MODE", "mode": "a", "reason": "r"}),
        json!({"type": "SELECT_MODE", "mode": "unknown", "reason": "r"}),
        json!({"type": "CONTINUE", "reason": "r"}),
        json!({"type": "RETRY", "reason": "r"}),
        json!({"type": "COMPLETE", "summary": "s"}),
        json!({"type": "BLOCKED", "reason": "r"}),
    ] {
        events.push(json!({"type": "AGENT_SELECTED", "decision": decision}));
        events.push(json!({"type": "ARBITER_DECISION", "decision": decision}));
    }
    for code in ["network_error", "config_error"] {
        for kind in ["AGENT_SELECTION_FAILED", "AGENT_ERROR", "ARBITER_ERROR"] {
            events.push(json!({"type": kind, "error": {"code": code, "message": "m"}}));
        }
    }
    let steps = json!([{"index": 1, "description": "d", "status": "pending"}]);
    for success in [true, false] {
        events.push(json!({"type": "AGENT_COMPLETE", "result": {"success": success, "output": "o"}}));
    }
    events.push(json!({
        "type": "AGENT_COMPLETE",
        "result": {"success": true, "output": "o", "planUpdates": {"steps": steps}},
    }));
    events.push(json!({"type": "FORCE_AGENT", "agentName": "a"}));
    events.push(json!({"type": "FORCE_AGENT", "agentName": "unknown"}));
    let mut events: Vec<MachineEvent> =
        events.into_iter().map(|event| serde_json::from_value(event).unwrap()).collect();
    for kind in EventKind::ALL {
        if events.iter().all(|event| event.kind() != kind) {
            events.push(serde_json::from_str(kind.example()).unwrap());
        }
    }
    events
}

/// What the guards read; the rest of the context only grows.
fn situation(machine: &Machine) -> String {
    let context = machine.context();
    let code = context.last_error.as_ref().map(|last| last.error.code);
    format!(
        "{} {} {} {} {:?} {}",
        machine.state(),
        context.current_mode,
        context.iteration_count.min(machine.limits().max_iterations),
        context.consecutive_failures,
        code,
        context.plan.is_some(),
    )
}

/// Visits every reachable situation, and finds exactly the arrows of the table.
#[test]
fn exploring_the_machine_finds_exactly_the_arrows_of_the_table() {
    let limits = Limits { agents: vec!["a".to_owned()], max_iterations: 3, max_consecutive_failures: 3 };
    let start = Machine::new(limits);
    let events = alphabet();
    let mut known = BTreeSet::from([situation(&start)]);
    let mut open = VecDeque::from([start]);
    let mut found = BTreeSet::new();
    while let Some(machine) = open.pop_front() {
        for event in &events {
            let mut next = machine.clone();
            let step = next.apply(Timestamp(0), event);
            if !step.ignored {
                found.insert((machine.state().as_str(), event.kind().as_str(), next.state().as_str()));
            }
            if known.insert(situation(&next)) {
                open.push_back(next);
            }
        }
    }
    assert_eq!(found, predicted());
    assert!(known.len() > 50, "only {} situations", known.len());
}

#[test]
fn entry_actions_are_those_of_the_state() {
    assert_eq!(table::entry(State::Executing), [Action::BeginIteration]);
    assert_eq!(table::entry(State::Evaluating), [Action::EvaluateProgress]);
    for state in State::ALL {
        assert_eq!(table::entry(state).contains(&Action::Finish), state.is_final(), "{state}");
    }
}
