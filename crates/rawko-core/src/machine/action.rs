//! The actions: every change that a transition can make to the context, and every effect it can ask for.

use super::backoff::backoff;
use super::effect::{Conversation, MachineEffect};
use super::event::{Decision, ExecutionFacts, MachineEvent};
use super::state::{Context, ExecutionStatus, FailureRecord, HistoryEntry, Limits, State};
use crate::error::{ErrorCode, ErrorInfo};
use crate::time::Timestamp;
use crate::usage::Usage;

/// The summary of the COMPLETE decision that the iteration limit makes (`docs/machine.md#transitions`).
pub const MAX_ITERATIONS_SUMMARY: &str = "Max iterations reached";

/// A named action of a transition. The exported diagrams use the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Resets the context and records the task and its start.
    StartTask,
    /// Resets the context. The limits stay.
    ResetContext,
    /// Records the decision.
    RecordDecision,
    /// Records why a person is needed, as the error that ends the run.
    RecordBlocked,
    /// Records a COMPLETE decision, made by the iteration limit.
    RecordMaxIterations,
    /// Records that the iteration limit ended the run.
    MarkLimited,
    /// Makes the agent that the event names the current one.
    SetAgent,
    /// Counts an iteration, which begins now.
    BeginIteration,
    /// Adds a history entry from the agent's result.
    RecordExecution,
    /// Adds a history entry from the agent's error.
    RecordFailure,
    /// Adds a history entry for work that was cancelled.
    RecordCancelled,
    /// Resets the failures in a row and the last error.
    ClearFailures,
    /// Counts a failure, with the event's error.
    CountFailure,
    /// Counts a failure: the agent reports that it did not succeed. The result says what failed, where that is known.
    CountUnsuccess,
    /// Counts a failure: the decision cannot be followed.
    RejectSelection,
    /// Merges the agent's updates into the plan.
    MergePlan,
    /// Skips the plan's current step.
    SkipStep,
    /// Asks for an agent.
    SelectAgent,
    /// Asks for an agent, after a wait.
    SelectAgentAfterBackoff,
    /// Asks for the agent that the decision names.
    SelectDecidedAgent,
    /// Starts the agent in a new conversation.
    ExecuteAgent,
    /// Continues the agent in its conversation.
    ContinueAgent,
    /// Asks the arbiter to judge the progress.
    EvaluateProgress,
    /// Abandons the effect that the state being left asked for.
    Abandon,
    /// Ends the run.
    Finish,
}

/// What an action reads besides the context.
pub(super) struct ActionInput<'a> {
    /// When the event happened.
    pub(super) at: Timestamp,
    /// The event that triggered the step.
    pub(super) event: &'a MachineEvent,
    /// The state being left, or (for an entry action) entered.
    pub(super) state: State,
    /// The limits in force.
    pub(super) limits: &'a Limits,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 25] = [
        Self::StartTask,
        Self::ResetContext,
        Self::RecordDecision,
        Self::RecordBlocked,
        Self::RecordMaxIterations,
        Self::MarkLimited,
        Self::SetAgent,
        Self::BeginIteration,
        Self::RecordExecution,
        Self::RecordFailure,
        Self::RecordCancelled,
        Self::ClearFailures,
        Self::CountFailure,
        Self::CountUnsuccess,
        Self::RejectSelection,
        Self::MergePlan,
        Self::SkipStep,
        Self::SelectAgent,
        Self::SelectAgentAfterBackoff,
        Self::SelectDecidedAgent,
        Self::ExecuteAgent,
        Self::ContinueAgent,
        Self::EvaluateProgress,
        Self::Abandon,
        Self::Finish,
    ];

    /// The name in diagrams and exports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::StartTask => "startTask",
            Self::ResetContext => "resetContext",
            Self::RecordDecision => "recordDecision",
            Self::RecordBlocked => "recordBlocked",
            Self::RecordMaxIterations => "recordMaxIterations",
            Self::MarkLimited => "markLimited",
            Self::SetAgent => "setAgent",
            Self::BeginIteration => "beginIteration",
            Self::RecordExecution => "recordExecution",
            Self::RecordFailure => "recordFailure",
            Self::RecordCancelled => "recordCancelled",
            Self::ClearFailures => "clearFailures",
            Self::CountFailure => "countFailure",
            Self::CountUnsuccess => "countUnsuccess",
            Self::RejectSelection => "rejectSelection",
            Self::MergePlan => "mergePlan",
            Self::SkipStep => "skipStep",
            Self::SelectAgent => "selectAgent",
            Self::SelectAgentAfterBackoff => "selectAgentAfterBackoff",
            Self::SelectDecidedAgent => "selectDecidedAgent",
            Self::ExecuteAgent => "executeAgent",
            Self::ContinueAgent => "continueAgent",
            Self::EvaluateProgress => "evaluateProgress",
            Self::Abandon => "abandon",
            Self::Finish => "finish",
        }
    }

    /// Whether it takes the state as a parameter in the exported XState config.
    #[must_use]
    pub fn concerns_state(self) -> bool {
        matches!(self, Self::Abandon | Self::Finish)
    }

    /// Changes the context, or adds an effect. Does nothing where the event lacks what the action needs.
    pub(super) fn apply(
        self,
        input: &ActionInput<'_>,
        context: &mut Context,
        effects: &mut Vec<MachineEffect>,
    ) {
        match self {
            Self::StartTask => start_task(context, input),
            Self::ResetContext => *context = Context::default(),
            Self::RecordDecision => {
                if let Some(decision) = input.event.decision() {
                    context.last_decision = Some(decision.clone());
                }
            }
            Self::RecordBlocked => {
                if let Some(Decision::Blocked { reason }) = input.event.decision() {
                    let error = ErrorInfo::new(ErrorCode::Blocked, reason.clone());
                    context.last_error = Some(failure_record(context, input.at, error));
                }
            }
            Self::RecordMaxIterations => {
                context.last_decision =
                    Some(Decision::Complete { summary: MAX_ITERATIONS_SUMMARY.to_owned() });
            }
            Self::MarkLimited => context.limited = true,
            Self::SetAgent => {
                if let Some(agent) = input.event.named_agent() {
                    agent.clone_into(&mut context.current_mode);
                }
            }
            Self::BeginIteration => {
                context.iteration_count = context.iteration_count.saturating_add(1);
                context.executing_since = Some(input.at);
            }
            Self::RecordExecution | Self::RecordFailure | Self::RecordCancelled => {
                let entry = history_entry(context, input);
                context.history.push(entry);
            }
            Self::ClearFailures => {
                context.consecutive_failures = 0;
                context.last_error = None;
            }
            Self::CountFailure => {
                if let Some(error) = input.event.error() {
                    count_failure(context, input.at, error.clone());
                }
            }
            Self::CountUnsuccess => match input.event.failed_result().and_then(|result| result.error.clone())
            {
                Some(error) => count_failure(context, input.at, error),
                None => count(context),
            },
            Self::RejectSelection => {
                count_failure(context, input.at, rejection(input));
            }
            Self::MergePlan => merge_plan(context, input.event),
            Self::SkipStep => {
                if let Some(plan) = &mut context.plan {
                    plan.skip_current_step();
                }
            }
            Self::SelectAgent => effects.push(MachineEffect::SelectAgent { after_ms: 0, decided: None }),
            Self::SelectAgentAfterBackoff => {
                let wait = |last: &FailureRecord| backoff(context.consecutive_failures, &last.error);
                let after_ms = context.last_error.as_ref().map_or(0, wait);
                effects.push(MachineEffect::SelectAgent { after_ms, decided: None });
            }
            Self::SelectDecidedAgent => effects
                .push(MachineEffect::SelectAgent { after_ms: 0, decided: input.event.decision().cloned() }),
            Self::ExecuteAgent => effects.push(execute(context, Conversation::New)),
            Self::ContinueAgent => effects.push(execute(context, Conversation::Same)),
            Self::EvaluateProgress => effects.push(MachineEffect::EvaluateProgress),
            Self::Abandon => effects.push(MachineEffect::Abandon { state: input.state }),
            Self::Finish => effects.push(MachineEffect::Finish { state: input.state }),
        }
    }
}

fn start_task(context: &mut Context, input: &ActionInput<'_>) {
    if let MachineEvent::StartTask { task } = input.event {
        // It is 0, except after earlier tasks of the same session.
        let iteration_count = context.iteration_count;
        let started_at = Some(input.at);
        *context = Context { task: task.clone(), started_at, iteration_count, ..Context::default() };
    }
}

fn execute(context: &Context, conversation: Conversation) -> MachineEffect {
    MachineEffect::ExecuteAgent { agent: context.current_mode.clone(), conversation }
}

fn count(context: &mut Context) {
    context.consecutive_failures = context.consecutive_failures.saturating_add(1);
    context.total_failures = context.total_failures.saturating_add(1);
}

fn count_failure(context: &mut Context, at: Timestamp, error: ErrorInfo) {
    count(context);
    context.last_error = Some(failure_record(context, at, error));
}

fn failure_record(context: &Context, at: Timestamp, error: ErrorInfo) -> FailureRecord {
    FailureRecord { error, agent: context.current_mode.clone(), at }
}

/// Why a selection cannot be followed. The rows that accept one come first in the table, so two cases remain.
fn rejection(input: &ActionInput<'_>) -> ErrorInfo {
    let message = match input.event.named_agent() {
        Some(agent) => format!(
            "the arbiter selected \"{agent}\", which is no agent of this run (there are: {})",
            input.limits.agents.join(", ")
        ),
        None => format!(
            "the arbiter answered {} before any agent has run; only SELECT_MODE, COMPLETE or BLOCKED make sense then",
            input.event.decision().map_or("nothing", Decision::kind)
        ),
    };
    ErrorInfo::new(ErrorCode::ValidationError, message)
}

/// The entry for the execution that ends now. It records the plan step and the agent of that execution, so the
/// table lists this action before those that change the plan or the agent.
fn history_entry(context: &Context, input: &ActionInput<'_>) -> HistoryEntry {
    let (result, output, error, usage, facts) = execution_result(input.event);
    HistoryEntry {
        agent: context.current_mode.clone(),
        iteration: context.iteration_count,
        started_at: context.executing_since.unwrap_or(input.at),
        completed_at: input.at,
        result,
        output,
        error,
        plan_step: context.plan.as_ref().map(|plan| plan.current_step_index),
        usage,
        facts,
    }
}

type ExecutionResult = (ExecutionStatus, Option<String>, Option<ErrorInfo>, Option<Usage>, ExecutionFacts);

fn execution_result(event: &MachineEvent) -> ExecutionResult {
    match event {
        MachineEvent::AgentComplete { result } => {
            let status = if result.success { ExecutionStatus::Success } else { ExecutionStatus::Failure };
            let error = result.error.clone().filter(|_| !result.success);
            (status, Some(result.output.clone()), error, result.usage, result.facts.clone())
        }
        MachineEvent::AgentError { error, facts, usage } => {
            (ExecutionStatus::of_error(error.code), None, Some(error.clone()), *usage, facts.clone())
        }
        MachineEvent::StartTask { .. }
        | MachineEvent::AgentSelected { .. }
        | MachineEvent::AgentSelectionFailed { .. }
        | MachineEvent::AgentMessage { .. }
        | MachineEvent::AgentToolCall { .. }
        | MachineEvent::AgentToolResult { .. }
        | MachineEvent::ArbiterDecision { .. }
        | MachineEvent::ArbiterError { .. }
        | MachineEvent::ForceAgent { .. }
        | MachineEvent::SkipStep
        | MachineEvent::Retry
        | MachineEvent::Cancel
        | MachineEvent::Reset => (ExecutionStatus::Cancelled, None, None, None, ExecutionFacts::default()),
    }
}

/// Empty updates do not create a plan.
fn merge_plan(context: &mut Context, event: &MachineEvent) {
    if let MachineEvent::AgentComplete { result } = event
        && let Some(updates) = result.plan_updates.as_ref().filter(|updates| !updates.is_empty())
    {
        context.plan.get_or_insert_default().merge(updates.clone());
    }
}
