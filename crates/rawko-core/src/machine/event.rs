//! What can happen to the machine (`spec/machine.md`, "Events").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::kind::EventKind;
use super::plan::PlanUpdates;
use crate::error::ErrorInfo;
use crate::facts::DiffStat;
use crate::usage::Usage;

/// A decision of the arbiter (ADR-0005).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Decision {
    /// This agent works next.
    SelectMode {
        /// The agent's name.
        mode: String,
        /// Why.
        reason: String,
    },
    /// The same agent goes on in the same conversation.
    Continue {
        /// Why.
        reason: String,
    },
    /// The task is done.
    Complete {
        /// What was achieved.
        summary: String,
    },
    /// Try again, differently.
    Retry {
        /// Why.
        reason: String,
    },
}

impl Decision {
    /// The decision's name on the wire, e.g. `SELECT_MODE`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::SelectMode { .. } => "SELECT_MODE",
            Self::Continue { .. } => "CONTINUE",
            Self::Complete { .. } => "COMPLETE",
            Self::Retry { .. } => "RETRY",
        }
    }

    /// The reason, or the summary of a completion.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::SelectMode { reason, .. } | Self::Continue { reason } | Self::Retry { reason } => reason,
            Self::Complete { summary } => summary,
        }
    }
}

/// What an execution brought (SPEC-0003's `AgentResult`, with what rawko itself observed).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentResult {
    /// Whether the agent says that it succeeded.
    pub success: bool,
    /// What the agent says about it.
    pub output: String,
    /// How it changed the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_updates: Option<PlanUpdates>,
    /// Tokens it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What rawko itself saw during the execution.
    #[serde(flatten)]
    pub facts: ExecutionFacts,
}

/// What the tools recorded during one execution: facts, not what the agent claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecutionFacts {
    /// How the execution ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<ExecutionEnd>,
    /// Model turns it took.
    #[serde(skip_serializing_if = "is_zero")]
    pub turns: u32,
    /// Files its tools wrote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    /// Files its tools read or wrote, the first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_accessed: Vec<String>,
    /// Its last commands with their exit codes, bounded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandFact>,
    /// Names of tools it called and was denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
    /// What it changed in the tree; absent where that was not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffStat>,
}

/// How an execution came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionEnd {
    /// The agent called `Report`.
    Reported,
    /// The model ended its turn without calling a tool.
    EndTurn,
    /// The agent used up its turns (`limits.maxIterations`).
    MaxIterations,
    /// The model declined.
    Refusal,
    /// The agent went round in circles, and was stopped.
    Stalled,
    /// The agent's own budget is used up.
    Budget,
}

/// One command that was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandFact {
    /// The command, bounded.
    pub command: String,
    /// Its exit status; absent where it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether it is known to run the project's tests or checks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_check: bool,
    /// Whether the agent's tools wrote files after it: it says nothing of the tree as it is now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before_last_write: bool,
}

/// Everything that can happen to the machine. Field and tag names are SPEC-0003's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum MachineEvent {
    /// Begin.
    StartTask {
        /// The task in the user's words.
        task: String,
    },
    /// Outcome of the select effect.
    AgentSelected {
        /// Any decision.
        decision: Decision,
    },
    /// The select effect failed even after its own fallback.
    AgentSelectionFailed {
        /// Why.
        error: ErrorInfo,
    },
    /// The agent said something; changes no state.
    AgentMessage {
        /// The message.
        message: Value,
    },
    /// The agent called a tool; changes no state.
    AgentToolCall {
        /// The call.
        tool_call: Value,
    },
    /// A tool answered; changes no state.
    AgentToolResult {
        /// The result.
        tool_result: Value,
    },
    /// The executor finished.
    AgentComplete {
        /// What it brought.
        result: AgentResult,
    },
    /// The executor failed.
    AgentError {
        /// Why.
        error: ErrorInfo,
        /// What rawko saw until then.
        #[serde(default, flatten)]
        facts: ExecutionFacts,
        /// Tokens used until then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// Outcome of the evaluate effect.
    ArbiterDecision {
        /// Any decision.
        decision: Decision,
    },
    /// The evaluate effect failed.
    ArbiterError {
        /// Why.
        error: ErrorInfo,
    },
    /// Manual override: this agent now.
    ForceAgent {
        /// Its name.
        agent_name: String,
    },
    /// Manual override: leave the current step out.
    SkipStep,
    /// Manual override: the same agent again.
    Retry,
    /// Stop.
    Cancel,
    /// Abandon and return to idle.
    Reset,
}

impl MachineEvent {
    /// Which event it is, without what it carries.
    #[must_use]
    pub fn kind(&self) -> EventKind {
        match self {
            Self::StartTask { .. } => EventKind::StartTask,
            Self::AgentSelected { .. } => EventKind::AgentSelected,
            Self::AgentSelectionFailed { .. } => EventKind::AgentSelectionFailed,
            Self::AgentMessage { .. } => EventKind::AgentMessage,
            Self::AgentToolCall { .. } => EventKind::AgentToolCall,
            Self::AgentToolResult { .. } => EventKind::AgentToolResult,
            Self::AgentComplete { .. } => EventKind::AgentComplete,
            Self::AgentError { .. } => EventKind::AgentError,
            Self::ArbiterDecision { .. } => EventKind::ArbiterDecision,
            Self::ArbiterError { .. } => EventKind::ArbiterError,
            Self::ForceAgent { .. } => EventKind::ForceAgent,
            Self::SkipStep => EventKind::SkipStep,
            Self::Retry => EventKind::Retry,
            Self::Cancel => EventKind::Cancel,
            Self::Reset => EventKind::Reset,
        }
    }

    /// The decision it carries, if it is one of the two that do.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::AgentSelected { decision } | Self::ArbiterDecision { decision } => Some(decision),
            Self::StartTask { .. }
            | Self::AgentSelectionFailed { .. }
            | Self::AgentMessage { .. }
            | Self::AgentToolCall { .. }
            | Self::AgentToolResult { .. }
            | Self::AgentComplete { .. }
            | Self::AgentError { .. }
            | Self::ArbiterError { .. }
            | Self::ForceAgent { .. }
            | Self::SkipStep
            | Self::Retry
            | Self::Cancel
            | Self::Reset => None,
        }
    }

    /// The failure it reports, if it is one of the three that do.
    #[must_use]
    pub fn error(&self) -> Option<&ErrorInfo> {
        match self {
            Self::AgentSelectionFailed { error }
            | Self::AgentError { error, .. }
            | Self::ArbiterError { error } => Some(error),
            Self::StartTask { .. }
            | Self::AgentSelected { .. }
            | Self::AgentMessage { .. }
            | Self::AgentToolCall { .. }
            | Self::AgentToolResult { .. }
            | Self::AgentComplete { .. }
            | Self::ArbiterDecision { .. }
            | Self::ForceAgent { .. }
            | Self::SkipStep
            | Self::Retry
            | Self::Cancel
            | Self::Reset => None,
        }
    }

    /// The agent that it names as the next one: of a `SELECT_MODE` decision, or of `FORCE_AGENT`.
    #[must_use]
    pub fn named_agent(&self) -> Option<&str> {
        match (self, self.decision()) {
            (Self::ForceAgent { agent_name }, _) => Some(agent_name),
            (_, Some(Decision::SelectMode { mode, .. })) => Some(mode),
            _ => None,
        }
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}
