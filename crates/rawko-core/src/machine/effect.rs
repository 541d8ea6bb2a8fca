//! What the machine wants done. It does none of it itself.

use serde::{Deserialize, Serialize};

use super::event::Decision;
use super::state::State;

/// A wish of the machine, answered by an event (or by none, for `finish` and the abandonments).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum MachineEffect {
    /// Have the arbiter choose; answered by `AGENT_SELECTED` or `AGENT_SELECTION_FAILED`.
    SelectAgent {
        /// How long to wait first, in milliseconds (backoff after an error).
        after_ms: u64,
        /// A decision that evaluation already took: it is the answer, the model is not asked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decided: Option<Decision>,
    },
    /// Have the agent work; answered by `AGENT_COMPLETE` or `AGENT_ERROR`.
    ExecuteAgent {
        /// The agent's name.
        agent: String,
        /// In which conversation.
        conversation: Conversation,
    },
    /// Have the arbiter judge; answered by `ARBITER_DECISION` or `ARBITER_ERROR`.
    EvaluateProgress,
    /// What was asked in this state is not wanted any more: end it.
    Abandon {
        /// The state that is left: `selecting`, `executing` or `evaluating`.
        state: State,
    },
    /// A final state is reached.
    Finish {
        /// Which.
        state: State,
    },
}

/// In which conversation an agent works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conversation {
    /// A new one.
    New,
    /// The one it had (CONTINUE).
    Same,
}
