//! Random runs of the machine: strategies for limits, and for events that are mostly the ones the machine waits
//! for, since a run of arbitrary events would be ignored almost throughout.

#![allow(dead_code)] // Each test that includes this uses a part of it.

use proptest::prelude::*;
use rawko_core::machine::table::{TABLE, Trigger};
use rawko_core::machine::{
    AgentResult, CommandFact, Decision, EventKind, ExecutionEnd, ExecutionFacts, Limits, Machine,
    MachineEvent, PlanStep, PlanUpdates, State, Step, StepStatus,
};
use rawko_core::{ErrorCode, ErrorInfo, Timestamp, Usage};
use serde_json::json;

/// The agents of a random run. Events may also name `unknown`, which is not one of them.
pub(crate) const AGENTS: [&str; 3] = ["planner", "developer", "tester"];

/// One draw: which event it becomes depends on where the machine is.
#[derive(Debug, Clone)]
pub(crate) struct Draw {
    anything: bool,
    pick: prop::sample::Index,
    pub(crate) elapsed_ms: u64,
    agent: String,
    decision: Decision,
    error: ErrorInfo,
    result: AgentResult,
}

impl Draw {
    /// The event that this draw means for a machine in `state`.
    pub(crate) fn event(&self, state: State) -> MachineEvent {
        let expected = expected_kinds(state);
        let kinds = if self.anything || expected.is_empty() { EventKind::ALL.to_vec() } else { expected };
        self.event_of(kinds[self.pick.index(kinds.len())])
    }

    /// An answer to what a machine in `state` asked for; none where it waits for nothing.
    pub(crate) fn answer(&self, state: State) -> Option<MachineEvent> {
        let answers: Vec<EventKind> =
            expected_kinds(state).into_iter().filter(|kind| is_answer(*kind)).collect();
        (!answers.is_empty()).then(|| self.event_of(answers[self.pick.index(answers.len())]))
    }

    /// The event of this kind with what was drawn.
    pub(crate) fn event_of(&self, kind: EventKind) -> MachineEvent {
        let (decision, error) = (self.decision.clone(), self.error.clone());
        match kind {
            EventKind::StartTask => MachineEvent::StartTask { task: format!("task of {}", self.agent) },
            EventKind::AgentSelected => MachineEvent::AgentSelected { decision },
            EventKind::AgentSelectionFailed => MachineEvent::AgentSelectionFailed { error },
            EventKind::AgentMessage => MachineEvent::AgentMessage { message: json!({"content": "x"}) },
            EventKind::AgentToolCall => MachineEvent::AgentToolCall { tool_call: json!({"name": "Read"}) },
            EventKind::AgentToolResult => MachineEvent::AgentToolResult { tool_result: json!(null) },
            EventKind::AgentComplete => MachineEvent::AgentComplete { result: self.result.clone() },
            EventKind::AgentError => {
                MachineEvent::AgentError { error, facts: self.result.facts.clone(), usage: self.result.usage }
            }
            EventKind::ArbiterDecision => MachineEvent::ArbiterDecision { decision },
            EventKind::ArbiterError => MachineEvent::ArbiterError { error },
            EventKind::ForceAgent => MachineEvent::ForceAgent { agent_name: self.agent.clone() },
            EventKind::SkipStep => MachineEvent::SkipStep,
            EventKind::Retry => MachineEvent::Retry,
            EventKind::Cancel => MachineEvent::Cancel,
            EventKind::Reset => MachineEvent::Reset,
        }
    }
}

/// The kinds of events that `state` has rows for. Answers to its effect are repeated so that runs make progress.
fn expected_kinds(state: State) -> Vec<EventKind> {
    let mut kinds: Vec<EventKind> = TABLE
        .iter()
        .filter(|row| row.leaves(state))
        .filter_map(|row| match row.trigger {
            Trigger::Event(kind) => Some(kind),
            Trigger::Always => None,
        })
        .collect();
    let answers: Vec<EventKind> = kinds.iter().copied().filter(|kind| is_answer(*kind)).collect();
    kinds.extend(answers.repeat(5));
    kinds
}

/// Whether it answers an effect of the machine, as opposed to an override.
pub(crate) fn is_answer(kind: EventKind) -> bool {
    match kind {
        EventKind::AgentSelected
        | EventKind::AgentSelectionFailed
        | EventKind::AgentComplete
        | EventKind::AgentError
        | EventKind::ArbiterDecision
        | EventKind::ArbiterError => true,
        EventKind::StartTask
        | EventKind::AgentMessage
        | EventKind::AgentToolCall
        | EventKind::AgentToolResult
        | EventKind::ForceAgent
        | EventKind::SkipStep
        | EventKind::Retry
        | EventKind::Cancel
        | EventKind::Reset => false,
    }
}

/// Feeds the draws to a fresh machine and calls `see` with each event and the machine before and after it.
pub(crate) fn run(
    limits: &Limits,
    draws: &[Draw],
    mut see: impl FnMut(&Machine, Timestamp, &MachineEvent, &Machine, &Step),
) -> Machine {
    let mut machine = Machine::new(limits.clone());
    let mut now = Timestamp(0);
    for draw in draws {
        now = Timestamp(now.0 + draw.elapsed_ms);
        let event = draw.event(machine.state());
        let before = machine.clone();
        let step = machine.apply(now, &event);
        see(&before, now, &event, &machine, &step);
    }
    machine
}

pub(crate) fn limits() -> impl Strategy<Value = Limits> {
    (0..=AGENTS.len(), 0..8_u32, 0..9_u32).prop_map(|(agents, max_iterations, max_consecutive_failures)| {
        Limits {
            agents: AGENTS[..agents].iter().map(|&agent| agent.to_owned()).collect(),
            max_iterations,
            max_consecutive_failures,
        }
    })
}

pub(crate) fn draws() -> impl Strategy<Value = Vec<Draw>> {
    prop::collection::vec(draw(), 0..40)
}

pub(crate) fn draw() -> impl Strategy<Value = Draw> {
    (
        prop::bool::weighted(0.1),
        any::<prop::sample::Index>(),
        0..5_000_u64,
        agent(),
        decision(),
        error(),
        result(),
    )
        .prop_map(|(anything, pick, elapsed_ms, agent, decision, error, result)| Draw {
            anything,
            pick,
            elapsed_ms,
            agent,
            decision,
            error,
            result,
        })
}

fn agent() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(&AGENTS[..]).prop_map(str::to_owned),
        1 => Just("unknown".to_owned()),
    ]
}

fn decision() -> impl Strategy<Value = Decision> {
    let reason = || "[a-z]{1,4}";
    prop_oneof![
        5 => (agent(), reason()).prop_map(|(mode, reason)| Decision::SelectMode { mode, reason }),
        4 => reason().prop_map(|reason| Decision::Continue { reason }),
        1 => reason().prop_map(|summary| Decision::Complete { summary }),
        3 => reason().prop_map(|reason| Decision::Retry { reason }),
        1 => reason().prop_map(|reason| Decision::Blocked { reason }),
    ]
}

fn error() -> impl Strategy<Value = ErrorInfo> {
    let code = prop_oneof![
        5 => prop::sample::select(vec![
            ErrorCode::RateLimited,
            ErrorCode::Overloaded,
            ErrorCode::NetworkError,
            ErrorCode::ToolFailure,
            ErrorCode::Timeout,
            ErrorCode::ValidationError,
        ]),
        1 => prop::sample::select(vec![
            ErrorCode::AuthenticationFailed,
            ErrorCode::ConfigError,
            ErrorCode::PermissionError,
            ErrorCode::ContextLengthExceeded,
            ErrorCode::BudgetExceeded,
            ErrorCode::InvalidRequest,
            ErrorCode::ModelUnavailable,
            ErrorCode::Unknown,
        ]),
    ];
    (code, prop::option::of(0..100_000_u64)).prop_map(|(code, retry_after_ms)| ErrorInfo {
        retry_after_ms,
        ..ErrorInfo::new(code, format!("failed: {code}"))
    })
}

fn result() -> impl Strategy<Value = AgentResult> {
    let rest = (prop::option::of(updates()), prop::option::of(usage()), prop::option::of(error()), facts());
    (prop::bool::weighted(0.7), "[a-z]{0,6}", rest).prop_map(
        |(success, output, (plan_updates, usage, error, facts))| AgentResult {
            success,
            output,
            plan_updates,
            usage,
            error,
            facts,
        },
    )
}

fn updates() -> impl Strategy<Value = PlanUpdates> {
    let status = prop::sample::select(vec![
        StepStatus::Pending,
        StepStatus::Pending,
        StepStatus::InProgress,
        StepStatus::Complete,
        StepStatus::Failed,
        StepStatus::Skipped,
    ]);
    let step = (1..9_usize, status, prop::option::of(agent())).prop_map(|(index, status, agent_used)| {
        PlanStep { index, description: format!("step {index}"), status, agent_used }
    });
    let steps = prop::collection::vec(step, 0..5);
    (prop::option::of(steps), prop::option::of(0..6_usize), prop::option::of(any::<bool>())).prop_map(
        |(steps, current_step_index, is_complete)| PlanUpdates { steps, current_step_index, is_complete },
    )
}

fn usage() -> impl Strategy<Value = Usage> {
    (0..9_u64, 0..9_u64).prop_map(|(input_tokens, output_tokens)| Usage {
        input_tokens,
        output_tokens,
        ..Usage::default()
    })
}

fn facts() -> impl Strategy<Value = ExecutionFacts> {
    let ended = prop::sample::select(vec![
        None,
        Some(ExecutionEnd::Reported),
        Some(ExecutionEnd::EndTurn),
        Some(ExecutionEnd::MaxIterations),
        Some(ExecutionEnd::Refusal),
    ]);
    let command = prop::option::of(-1..3_i32).prop_map(|exit_code| CommandFact {
        command: "cargo test".to_owned(),
        exit_code,
        is_check: true,
        ..CommandFact::default()
    });
    (ended, 0..4_u32, prop::collection::vec("[a-z]{1,3}", 0..2), prop::collection::vec(command, 0..2))
        .prop_map(|(ended, turns, files_modified, commands)| ExecutionFacts {
            may_have_written: turns > 1,
            ended,
            diff: None,
            files_accessed: Vec::new(),
            turns,
            files_modified,
            commands,
            denied_tools: Vec::new(),
            verdict: None,
            findings: Vec::new(),
        })
}
