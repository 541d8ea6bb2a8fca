//! The answers to effects.

use serde::{Deserialize, Serialize};

use super::effect::TimerPurpose;
use crate::agent::outside::OutsideWork;
use crate::approval::Approval;
use crate::error::ErrorInfo;
use crate::facts::{TreeInspection, Verification};
use crate::hook::HookReply;
use crate::memory::{KeptMemory, Recalled};
use crate::message::{Message, StopReason};
use crate::tool::ToolOutcome;
use crate::usage::Usage;

/// The answer to one effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum EffectAnswer {
    /// A model answered a `CallModel`.
    ModelReplied {
        /// The whole answer.
        message: Message,
        /// The tokens it used.
        usage: Usage,
        /// Why the model ended its turn.
        stop_reason: StopReason,
        /// Time from the request to the whole answer, in milliseconds.
        duration_ms: u64,
        /// Whether the answer came from the arbiter's cache, without asking a model.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cached: bool,
    },
    /// A model did not answer a `CallModel`.
    ModelFailed {
        /// The cause.
        error: ErrorInfo,
        /// Time from the request to the failure, in milliseconds.
        duration_ms: u64,
        /// The tokens it used until it failed, if the provider reported them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// A tool finished a `RunTool`, well or not.
    ToolFinished {
        /// Its result.
        outcome: ToolOutcome,
    },
    /// The program of a `RunOutsideAgent` ended its work, well or not.
    OutsideAgentEnded {
        /// What it did, as far as it said so.
        work: Box<OutsideWork>,
    },
    /// An `AskUser` was answered, or its time was up.
    ApprovalAnswered {
        /// The answer.
        approval: Approval,
    },
    /// `TakeCheckpoint` saved the tree.
    CheckpointTaken {
        /// The name of the checkpoint: a commit.
        checkpoint: String,
    },
    /// `TakeCheckpoint` could not save the tree; the run continues without it.
    CheckpointFailed {
        /// The reason, for people.
        message: String,
    },
    /// `Recall` chose the memories for an execution.
    MemoriesRecalled {
        /// The memories, and how they were found.
        recalled: Recalled,
    },
    /// `Remember` kept a memory, or did not.
    MemoryKept {
        /// Whether and where it was kept.
        kept: KeptMemory,
    },
    /// `InspectTree` compared the tree with the checkpoints.
    TreeInspected {
        /// The differences.
        inspection: TreeInspection,
    },
    /// `InspectTree` could not compare the tree; the run continues without these facts.
    TreeInspectionFailed {
        /// The reason, for people.
        message: String,
    },
    /// `Verify` ran the checks.
    VerificationFinished {
        /// Their results.
        verification: Verification,
    },
    /// The hooks of a `RunHooks` were asked.
    HooksAnswered {
        /// What they said together.
        reply: HookReply,
    },
    /// The time of a `StartTimer` is over.
    TimerFired,
    /// The outcome is lost: the process that performed the effect is gone.
    EffectLost,
}

impl EffectAnswer {
    /// The names of all answers, as the journal has them.
    pub(super) const NAMES: [&str; 15] = [
        "ModelReplied",
        "ModelFailed",
        "ToolFinished",
        "OutsideAgentEnded",
        "ApprovalAnswered",
        "CheckpointTaken",
        "CheckpointFailed",
        "MemoriesRecalled",
        "MemoryKept",
        "TreeInspected",
        "TreeInspectionFailed",
        "VerificationFinished",
        "HooksAnswered",
        "TimerFired",
        "EffectLost",
    ];

    /// Its name, as the journal has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::ModelReplied { .. } => "ModelReplied",
            Self::ModelFailed { .. } => "ModelFailed",
            Self::ToolFinished { .. } => "ToolFinished",
            Self::OutsideAgentEnded { .. } => "OutsideAgentEnded",
            Self::ApprovalAnswered { .. } => "ApprovalAnswered",
            Self::CheckpointTaken { .. } => "CheckpointTaken",
            Self::CheckpointFailed { .. } => "CheckpointFailed",
            Self::MemoriesRecalled { .. } => "MemoriesRecalled",
            Self::MemoryKept { .. } => "MemoryKept",
            Self::TreeInspected { .. } => "TreeInspected",
            Self::TreeInspectionFailed { .. } => "TreeInspectionFailed",
            Self::VerificationFinished { .. } => "VerificationFinished",
            Self::HooksAnswered { .. } => "HooksAnswered",
            Self::TimerFired => "TimerFired",
            Self::EffectLost => "EffectLost",
        }
    }
}

/// What an open effect does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenEffect {
    ModelCall,
    /// The number is the call's place in its turn.
    ToolCall(usize),
    Outside,
    Approval,
    Checkpoint,
    Inspection,
    Recall,
    Remember,
    Verification,
    Hooks,
    Timer {
        purpose: TimerPurpose,
        after_ms: u64,
    },
}

impl OpenEffect {
    pub(super) fn is_run_deadline(self) -> bool {
        matches!(self, Self::Timer { purpose: TimerPurpose::RunDeadline, .. })
    }

    pub(super) fn is_answered_by(self, answer: &EffectAnswer) -> bool {
        use EffectAnswer as A;
        match answer {
            A::ModelReplied { .. } | A::ModelFailed { .. } => self == Self::ModelCall,
            A::ToolFinished { .. } => matches!(self, Self::ToolCall(_)),
            A::OutsideAgentEnded { .. } => self == Self::Outside,
            A::ApprovalAnswered { .. } => self == Self::Approval,
            A::CheckpointTaken { .. } | A::CheckpointFailed { .. } => self == Self::Checkpoint,
            A::MemoriesRecalled { .. } => self == Self::Recall,
            A::MemoryKept { .. } => self == Self::Remember,
            A::TreeInspected { .. } | A::TreeInspectionFailed { .. } => self == Self::Inspection,
            A::VerificationFinished { .. } => self == Self::Verification,
            A::HooksAnswered { .. } => self == Self::Hooks,
            A::TimerFired => matches!(self, Self::Timer { .. }),
            A::EffectLost => true,
        }
    }
}
