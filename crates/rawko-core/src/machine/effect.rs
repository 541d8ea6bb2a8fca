//! The effects that the machine asks for. It performs none of them itself.

use serde::{Deserialize, Serialize};

use super::event::Decision;
use super::state::State;

/// An effect that the machine asks for. An event answers it, except `Finish` and `Abandon`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum MachineEffect {
    /// The arbiter chooses the next agent; answered by `AGENT_SELECTED` or `AGENT_SELECTION_FAILED`.
    SelectAgent {
        /// How long to wait first, in milliseconds (backoff after an error).
        after_ms: u64,
        /// The decision that the evaluation already made. It is the answer: the model is not asked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decided: Option<Decision>,
    },
    /// The agent works; answered by `AGENT_COMPLETE` or `AGENT_ERROR`.
    ExecuteAgent {
        /// The agent's name.
        agent: String,
        /// Whether its conversation is new.
        conversation: Conversation,
    },
    /// The arbiter judges the progress; answered by `ARBITER_DECISION` or `ARBITER_ERROR`.
    EvaluateProgress,
    /// The effect that this state asked for is no longer wanted: stop it.
    Abandon {
        /// The state being left: `selecting`, `executing` or `evaluating`.
        state: State,
    },
    /// The machine has reached a final state.
    Finish {
        /// The final state.
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
