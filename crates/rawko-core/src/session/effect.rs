//! The effects that a session asks for.

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use crate::approval::ApprovalQuestion;
use crate::conversation::ConversationId;
use crate::effect_id::EffectId;
use crate::hook::HookOccasion;
use crate::integrity::ChangedChecks;
use crate::memory::Draft;
use crate::message::ToolCall;
use crate::request::Purpose;
use crate::tool::{Refusal, ToolAccess};

/// An effect to perform. At most one event answers an effect with an id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Effect {
    /// Put a question to a model; answered by `ModelReplied` or `ModelFailed`. The request itself is
    /// in `Reaction::requests`: journaling it whole at every turn would make journals grow with the square of the turns.
    CallModel {
        /// Its id.
        id: EffectId,
        /// What the call is for.
        purpose: Purpose,
        /// Name of the configured provider.
        provider: String,
        /// The model.
        model: String,
        /// The conversation.
        conversation: ConversationId,
        /// How many messages of it are sent: all of them.
        messages: usize,
        /// The digest of their content, including system prompt and tools.
        digest: String,
        /// The question's key in the arbiter's cache, whose answer may replace the model's. Absent if the cache must not
        /// be used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_key: Option<String>,
    },
    /// Run a tool; answered by `ToolFinished`. The policy has allowed it.
    RunTool {
        /// Its id.
        id: EffectId,
        /// The agent that calls it.
        agent: String,
        /// The call.
        call: ToolCall,
        /// What the tool may do.
        access: ToolAccess,
        /// The rule that allowed it.
        rule: String,
        /// What a person granted to this call alone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        grants: Vec<Refusal>,
    },
    /// Have an outside agent carry out its execution; answered by `OutsideAgentEnded`.
    RunOutsideAgent {
        /// Its id.
        id: EffectId,
        /// The agent.
        agent: String,
        /// All that it is given.
        prompt: String,
        /// What it may do to the tree.
        access: ToolAccess,
    },
    /// Ask a person for a call that the permissions do not grant; answered by `ApprovalAnswered`.
    AskUser {
        /// Its id.
        id: EffectId,
        /// The question.
        #[serde(flatten)]
        question: Box<ApprovalQuestion>,
    },
    /// Take a checkpoint of the tree, before an execution first changes it; answered by `CheckpointTaken` or
    /// `CheckpointFailed`.
    TakeCheckpoint {
        /// Its id.
        id: EffectId,
        /// The execution that is about to change it.
        iteration: u32,
    },
    /// Choose the memories for an execution; answered by `MemoriesRecalled`.
    Recall {
        /// Its id.
        id: EffectId,
        /// The agent that is about to work.
        agent: String,
        /// The task, bounded.
        task: String,
        /// The plan's current step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<String>,
    },
    /// Keep what was learned, unless it is known already; answered by `MemoryKept`. Nothing is ever overwritten.
    Remember {
        /// Its id.
        id: EffectId,
        /// The agent that learned it.
        agent: String,
        /// The execution in which it was learned.
        iteration: u32,
        /// The memory to keep.
        draft: Box<Draft>,
        /// Files that the memory cites.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
    },
    /// Compare the tree with the checkpoints from before this execution and before the run's first change; answered by
    /// `TreeInspected` or `TreeInspectionFailed`.
    InspectTree {
        /// Its id.
        id: EffectId,
        /// The execution that has just ended.
        iteration: u32,
    },
    /// Run the checks, in order; answered by `VerificationFinished`.
    Verify {
        /// Its id.
        id: EffectId,
        /// The command lines, as `bash -c` takes them.
        commands: Vec<String>,
        /// Checks that agents ran and saw fail, to be run in copies of the tree as it is and as it was.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        others: Vec<String>,
        /// Longest time of one command, in milliseconds.
        timeout_ms: u64,
        /// Further files that are checks, as globs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tests: Vec<String>,
        /// What the run may do to its checks.
        #[serde(default, skip_serializing_if = "ChangedChecks::is_default")]
        changed_checks: ChangedChecks,
        /// Whether an agent saw one of them fail after the last change: a pass may then be luck.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        seen_red: bool,
        /// Whether rawko found the commands itself: then they are not run for work that changed nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        found: bool,
        /// Whether they are those of an agent, because rawko found none.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        adopted: bool,
    },
    /// Ask the hooks of this point; answered by `HooksAnswered`.
    RunHooks {
        /// Its id.
        id: EffectId,
        /// The point, and what the hooks are told.
        #[serde(flatten)]
        occasion: HookOccasion,
    },
    /// Wait; answered by `TimerFired`.
    StartTimer {
        /// Its id.
        id: EffectId,
        /// The time to wait, in milliseconds.
        after_ms: u64,
        /// What the timer is for.
        purpose: TimerPurpose,
    },
    /// Stop this effect: its answer is no longer needed.
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
            _ => None,
        }
    }

    /// What it asks for, for people.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::CallModel { purpose, model, .. } => format!("a request for `{purpose}` to {model}"),
            Self::RunTool { agent, call, .. } => format!("{} by `{agent}`", call.name),
            Self::RunOutsideAgent { agent, .. } => format!("the work of `{agent}` by its own program"),
            Self::AskUser { question, .. } => format!(
                "a question to the user: may `{}` call {}, {}",
                question.agent,
                question.call.name,
                question.needs_in_words()
            ),
            Self::TakeCheckpoint { iteration, .. } => format!("a checkpoint before execution {iteration}"),
            Self::Recall { agent, .. } => format!("a search of the memories for {agent}"),
            Self::Remember { draft, .. } => format!("storing a memory: {}", draft.title),
            Self::InspectTree { iteration, .. } => {
                format!("an inspection of the tree after execution {iteration}")
            }
            Self::Verify { commands, .. } => format!("the verification commands: {}", commands.join("; ")),
            Self::RunHooks { occasion, .. } => format!("the {} hooks", occasion.event().as_str()),
            Self::StartTimer { .. } => "a timer".to_owned(),
            Self::Abandon { .. } => "the end of an effect".to_owned(),
            Self::Finish { .. } => "the end of the run".to_owned(),
        }
    }

    /// Its name in spans.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::CallModel { .. } => "call_model",
            Self::RunTool { .. } => "run_tool",
            Self::RunOutsideAgent { .. } => "run_outside_agent",
            Self::AskUser { .. } => "ask_user",
            Self::TakeCheckpoint { .. } => "checkpoint",
            Self::Recall { .. } => "recall",
            Self::Remember { .. } => "remember",
            Self::InspectTree { .. } => "inspect_tree",
            Self::Verify { .. } => "verify",
            Self::RunHooks { .. } => "hooks",
            Self::StartTimer { .. } => "timer",
            Self::Abandon { .. } => "abandon",
            Self::Finish { .. } => "finish",
        }
    }

    /// The id by which an event answers this effect, if it expects an answer.
    #[must_use]
    pub fn awaits_answer(&self) -> Option<EffectId> {
        match self {
            Self::CallModel { id, .. }
            | Self::RunTool { id, .. }
            | Self::RunOutsideAgent { id, .. }
            | Self::AskUser { id, .. }
            | Self::TakeCheckpoint { id, .. }
            | Self::Recall { id, .. }
            | Self::Remember { id, .. }
            | Self::InspectTree { id, .. }
            | Self::Verify { id, .. }
            | Self::RunHooks { id, .. }
            | Self::StartTimer { id, .. } => Some(*id),
            Self::Abandon { .. } | Self::Finish { .. } => None,
        }
    }
}

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerPurpose {
    /// The pause after an error.
    Backoff,
    /// The pause before a failed model call is made again.
    Retry,
    /// The end of an execution's time (`limits.timeout`).
    ExecutionDeadline,
    /// The end of an agent's time, over all its executions (`budget.maxDuration` of the agent).
    AgentBudget,
    /// The end of the run's time (`constraints.maxDuration`).
    RunDeadline,
}
