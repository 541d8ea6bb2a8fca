//! Failures of the fleet itself, as opposed to failures of the work.

use std::time::Duration;

use rawko_core::facts::{CommandRun, Verification};
use rawko_core::memory::Recalled;
use rawko_core::session::{Effect, EffectAnswer, KeptMemory};
use rawko_core::tool::ToolOutcome;
use rawko_core::{ErrorCode, ErrorInfo};
use temporalio_common::ActivityError;
use temporalio_common::error::ApplicationFailure;

use crate::store::StoreError;
use crate::tree::TreeError;

/// The types of failures after which another attempt would end the same way.
pub(crate) const FOR_GOOD: [&str; 1] = [REFUSED];
/// The type of a failure whose cause is in the task.
const REFUSED: &str = "refused";
/// The type of a failure whose cause is in the worker.
pub(crate) const HANDED_BACK: &str = "handed back";

/// The cause is in this worker: its settings, keys, disk, or what it can reach. The attempt says nothing of the task, does not count,
/// and another worker may succeed.
pub(crate) fn hand_back(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ActivityError {
    let failure = ApplicationFailure::builder(error).type_name(HANDED_BACK.to_owned()).build();
    ActivityError::Application(Box::new(failure))
}

/// The same, where the engine is to offer it again after so long.
pub(crate) fn hand_back_for(why: String, pause: Duration) -> ActivityError {
    let failure = ApplicationFailure::builder(why).type_name(HANDED_BACK.to_owned()).next_retry_delay(pause);
    ActivityError::Application(Box::new(failure.build()))
}

/// Why it is handed back, if it is.
pub(crate) fn why_handed_back(error: &ActivityError) -> Option<String> {
    match error {
        ActivityError::Application(failure) if failure.type_name() == Some(HANDED_BACK) => {
            Some(failure.to_string())
        }
        _ => None,
    }
}

/// What the store could not do.
pub(crate) fn of_store(error: StoreError) -> ActivityError {
    if error.is_local() { hand_back(error) } else { once_more(error) }
}

/// What could not be done to a task's tree.
pub(crate) fn of_tree(error: TreeError) -> ActivityError {
    if error.is_of_task() { for_good(error) } else { hand_back(error) }
}

/// Another attempt may succeed.
pub(crate) fn once_more(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ActivityError {
    ActivityError::Application(Box::new(ApplicationFailure::new(error)))
}

/// No attempt can succeed.
pub(crate) fn for_good(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ActivityError {
    let failure =
        ApplicationFailure::builder(error).type_name(REFUSED.to_owned()).non_retryable(true).build();
    ActivityError::Application(Box::new(failure))
}

/// How an effect is answered that no worker could perform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failing {
    Model,
    Tool,
    Checkpoint,
    Recall,
    Remember,
    Inspection,
    Verification {
        command: String,
    },
    /// As if its worker were gone.
    Other,
}

impl Failing {
    /// That of `effect`; `None` for what no worker performs.
    pub(crate) fn of(effect: &Effect) -> Option<Self> {
        Some(match effect {
            Effect::CallModel { .. } => Self::Model,
            Effect::RunTool { .. } => Self::Tool,
            Effect::TakeCheckpoint { .. } => Self::Checkpoint,
            Effect::Recall { .. } => Self::Recall,
            Effect::Remember { .. } => Self::Remember,
            Effect::InspectTree { .. } => Self::Inspection,
            Effect::Verify { commands, .. } => {
                Self::Verification { command: commands.first().cloned().unwrap_or_default() }
            }
            Effect::AskUser { .. } | Effect::StartTimer { .. } => return None,
            effect => return effect.awaits_answer().map(|_| Self::Other),
        })
    }

    /// The answer.
    pub(crate) fn answer(self, why: &str) -> EffectAnswer {
        let message = format!("the fleet could not do it: {why}");
        match self {
            Self::Model => {
                let error = ErrorInfo::new(ErrorCode::Unknown, message);
                EffectAnswer::ModelFailed { error, duration_ms: 0, usage: None }
            }
            Self::Tool => {
                EffectAnswer::ToolFinished { outcome: ToolOutcome::error(ErrorCode::ToolFailure, message) }
            }
            Self::Checkpoint => EffectAnswer::CheckpointFailed { message },
            Self::Recall => {
                let recalled = Recalled { problems: vec![message], ..Recalled::default() };
                EffectAnswer::MemoriesRecalled { recalled }
            }
            Self::Remember => EffectAnswer::MemoryKept { kept: KeptMemory::Refused { message } },
            Self::Inspection => EffectAnswer::TreeInspectionFailed { message },
            Self::Verification { command } => {
                let run = CommandRun { command, output: message, ..CommandRun::default() };
                let verification = Verification { runs: vec![run], ..Verification::default() };
                EffectAnswer::VerificationFinished { verification }
            }
            Self::Other => EffectAnswer::EffectLost,
        }
    }
}
