//! The actions: everything that a transition can do to the context, and everything it can ask of the driver.

use super::backoff::backoff;
use super::effect::{Conversation, MachineEffect};
use super::event::{Decision, ExecutionFacts, MachineEvent};
use super::state::{Context, ExecutionStatus, FailureRecord, HistoryEntry, Limits, State};
use crate::error::{ErrorCode, ErrorInfo};
use crate::time::Timestamp;
use crate::usage::Usage;

/// What the iteration limit puts in the arbiter's mouth (`spec/machine.md`, "Transitions").
pub const MAX_ITERATIONS_SUMMARY: &str = "Max iterations reached";

/// One named thing that a transition does. The names are those of the exported diagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Everything fresh but the limits; task and start noted.
    StartTask,
    /// Everything fresh but the limits.
    ResetContext,
    /// The decision is noted.
    RecordDecision,
    /// The decision becomes COMPLETE by the iteration limit.
    RecordMaxIterations,
    /// The iteration limit ended the run.
    MarkLimited,
    /// The agent that the event names is at work from now on.
    SetAgent,
    /// One more iteration, begun now.
    BeginIteration,
    /// A history entry from the executor's result.
    RecordExecution,
    /// A history entry from the executor's error.
    RecordFailure,
    /// A history entry for work that was called off.
    RecordCancelled,
    /// No failure is open any more.
    ClearFailures,
    /// One more failure, with the event's error.
    CountFailure,
    /// One more failure, without an error of its own: the agent says that it did not succeed.
    CountUnsuccess,
    /// One more failure: the decision cannot be followed.
    RejectSelection,
    /// The plan takes over the fields that the agent gave.
    MergePlan,
    /// The current step is left out.
    SkipStep,
    /// Ask for an agent.
    SelectAgent,
    /// Ask for an agent, after a wait.
    SelectAgentAfterBackoff,
    /// Ask for the agent that was just decided on.
    SelectDecidedAgent,
    /// Have the agent work in a new conversation.
    ExecuteAgent,
    /// Have the agent go on in the conversation it had.
    ContinueAgent,
    /// Ask for a judgement.
    EvaluateProgress,
    /// What was asked for in the state left is not wanted any more.
    Abandon,
    /// The run is over.
    Finish,
}

/// Where and when an action runs.
pub(super) struct Scene<'a> {
    /// When the event happened.
    pub(super) at: Timestamp,
    /// The event that set off the step.
    pub(super) event: &'a MachineEvent,
    /// The state being left, or (for an entry action) entered.
    pub(super) state: State,
    /// The limits in force.
    pub(super) limits: &'a Limits,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::StartTask,
        Self::ResetContext,
        Self::RecordDecision,
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

    /// Whether it needs to be told the state it concerns (an exported action is told as a parameter).
    #[must_use]
    pub fn concerns_state(self) -> bool {
        matches!(self, Self::Abandon | Self::Finish)
    }

    /// Does it: changes the context, or adds an effect. What the event does not carry is left as it is.
    pub(super) fn perform(self, scene: &Scene<'_>, context: &mut Context, effects: &mut Vec<MachineEffect>) {
        match self {
            Self::StartTask => start_task(context, scene),
            Self::ResetContext => *context = Context::default(),
            Self::RecordDecision => {
                if let Some(decision) = scene.event.decision() {
                    context.last_decision = Some(decision.clone());
                }
            }
            Self::RecordMaxIterations => {
                context.last_decision =
                    Some(Decision::Complete { summary: MAX_ITERATIONS_SUMMARY.to_owned() });
            }
            Self::MarkLimited => context.limited = true,
            Self::SetAgent => {
                if let Some(agent) = scene.event.named_agent() {
                    agent.clone_into(&mut context.current_mode);
                }
            }
            Self::BeginIteration => {
                context.iteration_count = context.iteration_count.saturating_add(1);
                context.executing_since = Some(scene.at);
            }
            Self::RecordExecution | Self::RecordFailure | Self::RecordCancelled => {
                let entry = history_entry(context, scene);
                context.history.push(entry);
            }
            Self::ClearFailures => {
                context.consecutive_failures = 0;
                context.last_error = None;
            }
            Self::CountFailure => {
                if let Some(error) = scene.event.error() {
                    count_failure(context, scene.at, error.clone());
                }
            }
            Self::CountUnsuccess => count(context),
            Self::RejectSelection => {
                count_failure(context, scene.at, rejection(scene));
            }
            Self::MergePlan => merge_plan(context, scene.event),
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
                .push(MachineEffect::SelectAgent { after_ms: 0, decided: scene.event.decision().cloned() }),
            Self::ExecuteAgent => effects.push(execute(context, Conversation::New)),
            Self::ContinueAgent => effects.push(execute(context, Conversation::Same)),
            Self::EvaluateProgress => effects.push(MachineEffect::EvaluateProgress),
            Self::Abandon => effects.push(MachineEffect::Abandon { state: scene.state }),
            Self::Finish => effects.push(MachineEffect::Finish { state: scene.state }),
        }
    }
}

fn start_task(context: &mut Context, scene: &Scene<'_>) {
    if let MachineEvent::StartTask { task } = scene.event {
        *context = Context { task: task.clone(), started_at: Some(scene.at), ..Context::default() };
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
    context.last_error = Some(FailureRecord { error, agent: context.current_mode.clone(), at });
}

/// Why a selection cannot be followed. The rows that can follow one come first, so only two cases are left.
fn rejection(scene: &Scene<'_>) -> ErrorInfo {
    let message = match scene.event.named_agent() {
        Some(agent) => format!(
            "the arbiter selected \"{agent}\", which is no agent of this run (there are: {})",
            scene.limits.agents.join(", ")
        ),
        None => format!(
            "the arbiter answered {} before any agent has run; only SELECT_MODE or COMPLETE make sense then",
            scene.event.decision().map_or("nothing", Decision::kind)
        ),
    };
    ErrorInfo::new(ErrorCode::ValidationError, message)
}

/// The entry for the execution that ends now. Its plan step is the one that was current while it worked, so this
/// action stands before those that change the plan or the agent.
fn history_entry(context: &Context, scene: &Scene<'_>) -> HistoryEntry {
    let (result, output, error, usage, facts) = outcome(scene.event);
    HistoryEntry {
        agent: context.current_mode.clone(),
        iteration: context.iteration_count,
        started_at: context.executing_since.unwrap_or(scene.at),
        completed_at: scene.at,
        result,
        output,
        error,
        plan_step: context.plan.as_ref().map(|plan| plan.current_step_index),
        usage,
        facts,
    }
}

type Outcome = (ExecutionStatus, Option<String>, Option<ErrorInfo>, Option<Usage>, ExecutionFacts);

fn outcome(event: &MachineEvent) -> Outcome {
    match event {
        MachineEvent::AgentComplete { result } => {
            let status = if result.success { ExecutionStatus::Success } else { ExecutionStatus::Failure };
            (status, Some(result.output.clone()), None, result.usage, result.facts.clone())
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

/// Updates that give nothing make no plan where there was none.
fn merge_plan(context: &mut Context, event: &MachineEvent) {
    if let MachineEvent::AgentComplete { result } = event
        && let Some(updates) = result.plan_updates.as_ref().filter(|updates| !updates.is_empty())
    {
        context.plan.get_or_insert_default().merge(updates.clone());
    }
}
