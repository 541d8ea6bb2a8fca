//! The guards: the conditions that select between rows of the table for the same event.

use super::event::{Decision, MachineEvent};
use super::state::{Context, Limits};

/// A named condition on context, limits and event. The exported diagrams use the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// The decision is COMPLETE.
    IsComplete,
    /// The decision is BLOCKED.
    IsBlocked,
    /// The decision is CONTINUE.
    IsContinue,
    /// The decision is RETRY.
    ShouldRetry,
    /// The decision is SELECT_MODE, of any agent.
    IsSelectMode,
    /// The decision is SELECT_MODE of a known agent.
    SelectsKnownAgent,
    /// The decision is CONTINUE or RETRY, and some agent has already run.
    ResumesLastAgent,
    /// The named agent is known.
    HasAgent,
    /// Some agent has already run.
    HasRunAgent,
    /// There is a plan.
    HasPlan,
    /// The agent reports success.
    Succeeded,
    /// One more failure stays under the limit.
    MayFailAgain,
    /// The failures in a row have reached their limit.
    MaxFailuresReached,
    /// The iterations have reached their limit.
    MaxIterationsReached,
    /// The code of the last error is recoverable.
    IsRecoverableError,
}

impl Guard {
    /// Every guard.
    pub const ALL: [Self; 15] = [
        Self::IsComplete,
        Self::IsBlocked,
        Self::IsContinue,
        Self::ShouldRetry,
        Self::IsSelectMode,
        Self::SelectsKnownAgent,
        Self::ResumesLastAgent,
        Self::HasAgent,
        Self::HasRunAgent,
        Self::HasPlan,
        Self::Succeeded,
        Self::MayFailAgain,
        Self::MaxFailuresReached,
        Self::MaxIterationsReached,
        Self::IsRecoverableError,
    ];

    /// The name in diagrams and exports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IsComplete => "isComplete",
            Self::IsBlocked => "isBlocked",
            Self::IsContinue => "isContinue",
            Self::ShouldRetry => "shouldRetry",
            Self::IsSelectMode => "isSelectMode",
            Self::SelectsKnownAgent => "selectsKnownAgent",
            Self::ResumesLastAgent => "resumesLastAgent",
            Self::HasAgent => "hasAgent",
            Self::HasRunAgent => "hasRunAgent",
            Self::HasPlan => "hasPlan",
            Self::Succeeded => "succeeded",
            Self::MayFailAgain => "mayFailAgain",
            Self::MaxFailuresReached => "maxFailuresReached",
            Self::MaxIterationsReached => "maxIterationsReached",
            Self::IsRecoverableError => "isRecoverableError",
        }
    }

    /// The condition in words, for the exports.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::IsComplete => "the decision is COMPLETE",
            Self::IsBlocked => "the decision is BLOCKED",
            Self::IsContinue => "the decision is CONTINUE",
            Self::ShouldRetry => "the decision is RETRY",
            Self::IsSelectMode => "the decision is SELECT_MODE",
            Self::SelectsKnownAgent => "the decision is SELECT_MODE of a known agent",
            Self::ResumesLastAgent => "the decision is CONTINUE or RETRY, and some agent has already run",
            Self::HasAgent => "the named agent is known",
            Self::HasRunAgent => "some agent has already run",
            Self::HasPlan => "there is a plan",
            Self::Succeeded => "the agent succeeded",
            Self::MayFailAgain => "consecutiveFailures + 1 < maxConsecutiveFailures",
            Self::MaxFailuresReached => "consecutiveFailures >= maxConsecutiveFailures",
            Self::MaxIterationsReached => "iterationCount >= maxIterations",
            Self::IsRecoverableError => "the code of the last error is recoverable",
        }
    }

    /// Whether it holds. A condition on a decision or result that the event does not carry does not.
    pub(super) fn holds(self, context: &Context, limits: &Limits, event: &MachineEvent) -> bool {
        let has_run = !context.current_mode.is_empty();
        match self {
            Self::IsComplete => matches!(event.decision(), Some(Decision::Complete { .. })),
            Self::IsBlocked => matches!(event.decision(), Some(Decision::Blocked { .. })),
            Self::IsContinue => matches!(event.decision(), Some(Decision::Continue { .. })),
            Self::ShouldRetry => matches!(event.decision(), Some(Decision::Retry { .. })),
            Self::IsSelectMode => matches!(event.decision(), Some(Decision::SelectMode { .. })),
            Self::SelectsKnownAgent | Self::HasAgent => {
                event.named_agent().is_some_and(|agent| limits.knows(agent))
            }
            Self::ResumesLastAgent => {
                has_run
                    && matches!(event.decision(), Some(Decision::Continue { .. } | Decision::Retry { .. }))
            }
            Self::HasRunAgent => has_run,
            Self::HasPlan => context.plan.is_some(),
            Self::Succeeded => {
                matches!(event, MachineEvent::AgentComplete { result } if result.success)
            }
            Self::MayFailAgain => {
                context.consecutive_failures.saturating_add(1) < limits.max_consecutive_failures
            }
            Self::MaxFailuresReached => context.consecutive_failures >= limits.max_consecutive_failures,
            Self::MaxIterationsReached => context.iteration_count >= limits.max_iterations,
            Self::IsRecoverableError => {
                context.last_error.as_ref().is_some_and(|last| last.error.code.is_recoverable())
            }
        }
    }
}
