//! What a session wants done.

use serde::{Deserialize, Serialize};

use super::conversation::ConversationId;
use super::event::EffectId;
use super::outcome::Outcome;
use crate::memory::Draft;
use crate::message::ToolCall;
use crate::request::Purpose;
use crate::tool::ToolAccess;

/// A wish of the session. Those with an id are answered by one event at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Effect {
    /// Put a question to a model; answered by `ModelReplied` or `ModelFailed`. The request itself is
    /// `Session::request`: journaling it whole at every turn would make journals grow with the square of the turns.
    CallModel {
        /// The effect.
        id: EffectId,
        /// On whose behalf.
        purpose: Purpose,
        /// Name of the configured provider.
        provider: String,
        /// The model.
        model: String,
        /// The conversation.
        conversation: ConversationId,
        /// How many messages of it are sent: all there are.
        messages: usize,
        /// Names their content, system prompt and tools included.
        digest: String,
        /// Names the question to the arbiter's cache: an answer that is known under it may be given in place of a
        /// model's. Absent where none may.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_key: Option<String>,
    },
    /// Run a tool; answered by `ToolFinished`. The policy has allowed it.
    RunTool {
        /// The effect.
        id: EffectId,
        /// Who calls.
        agent: String,
        /// The call.
        call: ToolCall,
        /// What the tool may do.
        access: ToolAccess,
        /// The rule that allowed it.
        rule: String,
    },
    /// Keep the tree as it is, before an execution first changes it; answered by `CheckpointTaken` or
    /// `CheckpointFailed`.
    TakeCheckpoint {
        /// The effect.
        id: EffectId,
        /// Which execution is about to change it.
        iteration: u32,
    },
    /// Choose the memories that an execution is given; answered by `MemoriesRecalled`.
    Recall {
        /// The effect.
        id: EffectId,
        /// Who is about to work.
        agent: String,
        /// The plan, as text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<String>,
        /// The last executions, as text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        history: Option<String>,
    },
    /// Keep what was learned, unless it is known already; answered by `MemoryKept`. Nothing is ever overwritten.
    Remember {
        /// The effect.
        id: EffectId,
        /// Who learned it.
        agent: String,
        /// In which execution.
        iteration: u32,
        /// What.
        draft: Box<Draft>,
        /// Files that the execution read or wrote. Those that the memory cites are fewer: `Session::cited_files`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
    },
    /// Compare the tree with what was kept before this execution and before the run's first change; answered by
    /// `TreeInspected` or `TreeInspectionFailed`.
    InspectTree {
        /// The effect.
        id: EffectId,
        /// The execution that has just ended.
        iteration: u32,
    },
    /// Run the verification commands, in order, up to the first that fails; answered by `VerificationFinished`.
    Verify {
        /// The effect.
        id: EffectId,
        /// The command lines, as `bash -c` takes them.
        commands: Vec<String>,
        /// Longest time of one command, in milliseconds.
        timeout_ms: u64,
    },
    /// Wait; answered by `TimerFired`.
    StartTimer {
        /// The effect.
        id: EffectId,
        /// How long, in milliseconds.
        after_ms: u64,
        /// For what.
        purpose: TimerPurpose,
    },
    /// End this effect: nobody waits for its answer any more.
    Abandon {
        /// The effect to end.
        id: EffectId,
    },
    /// The run is over.
    Finish {
        /// How it ended.
        outcome: Box<Outcome>,
    },
}

impl Effect {
    /// How the run ended, if this is its end.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Finish { outcome } => Some(outcome),
            Self::CallModel { .. }
            | Self::RunTool { .. }
            | Self::TakeCheckpoint { .. }
            | Self::Recall { .. }
            | Self::Remember { .. }
            | Self::InspectTree { .. }
            | Self::Verify { .. }
            | Self::StartTimer { .. }
            | Self::Abandon { .. } => None,
        }
    }

    /// The id by which an event answers this effect, if it expects an answer.
    #[must_use]
    pub fn awaits_answer(&self) -> Option<EffectId> {
        match self {
            Self::CallModel { id, .. }
            | Self::RunTool { id, .. }
            | Self::TakeCheckpoint { id, .. }
            | Self::Recall { id, .. }
            | Self::Remember { id, .. }
            | Self::InspectTree { id, .. }
            | Self::Verify { id, .. }
            | Self::StartTimer { id, .. } => Some(*id),
            Self::Abandon { .. } | Self::Finish { .. } => None,
        }
    }
}

/// What is being waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerPurpose {
    /// The pause after an error.
    Backoff,
    /// The end of an execution's time (`limits.timeout`).
    ExecutionDeadline,
    /// The end of an agent's time, over all its executions (`budget.maxDuration` of the agent).
    AgentBudget,
    /// The end of the run's time (`constraints.maxDuration`).
    RunDeadline,
}
