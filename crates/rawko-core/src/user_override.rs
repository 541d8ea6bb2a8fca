//! The user's commands to a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A command of the user to a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Override {
    /// This agent works now.
    ForceAgent {
        /// Its name.
        agent: String,
    },
    /// Skip the plan's current step.
    SkipStep,
    /// The same agent works again, in a new conversation.
    Retry,
    /// Let what is under way end, and begin nothing new.
    Pause,
    /// End the pause.
    Go,
    /// Begin the task anew: what was planned, done and said is forgotten. Files, spending and limits stay.
    Reset,
    /// Send a message to the agent that works, or to the next one, and to the arbiter.
    Say {
        /// The user's words.
        text: String,
    },
}

impl Override {
    /// The word for it, as `rawko steer` takes it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::ForceAgent { .. } => "force",
            Self::SkipStep => "skip",
            Self::Retry => "retry",
            Self::Pause => "pause",
            Self::Go => "go",
            Self::Reset => "reset",
            Self::Say { .. } => "say",
        }
    }
}
