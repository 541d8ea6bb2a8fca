//! The guards: the only questions by which two rows for the same event are told apart.

use super::event::{Decision, MachineEvent};
use super::state::{Context, Limits};

/// A named question about context, limits and event. The names are those of the exported diagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Guard {
    /// The decision is COMPLETE.
    IsComplete,
    /// The decision is CONTINUE.
    IsContinue,
    /// The decision is RETRY.
    ShouldRetry,
    /// The decision is SELECT_MODE of any name.
    IsSelectMode,
    /// The decision is SELECT_MODE of a known agent.
    SelectsKnownAgent,
    /// The decision is CONTINUE or RETRY, and there is an agent to go on with.
    ResumesLastAgent,
    /// The named agent is known.
    HasAgent,
    /// Some agent has already run.
    HasRunAgent,
    /// There is a plan.
    HasPlan,
    /// The agent says that it succeeded.
    Succeeded,
    /// One more failure stays under the limit.
    MayFailAgain,
    /// As many failures in a row as are tolerated.
    MaxFailuresReached,
    /// As many iterations as are allowed.
    MaxIterationsReached,
    /// The last error is one that passes.
    IsRecoverableError,
}

impl Guard {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::IsComplete,
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

    /// The name in diagrams and exports; SPEC-0003's where it has one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IsComplete => "isComplete",
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

    /// What it asks, in words.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::IsComplete => "the decision is COMPLETE",
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

    /// Whether it holds. A question about a decision or result that the event does not carry is answered no.
    pub(super) fn holds(self, context: &Context, limits: &Limits, event: &MachineEvent) -> bool {
        let has_run = !context.current_mode.is_empty();
        match self {
            Self::IsComplete => matches!(event.decision(), Some(Decision::Complete { .. })),
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
