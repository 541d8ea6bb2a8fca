//! The events of the machine (`docs/machine.md#events`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::kind::EventKind;
use super::plan::PlanUpdates;
use crate::agent::{Finding, Verdict};
use crate::error::ErrorInfo;
use crate::facts::{CommandFact, DiffStat};
use crate::usage::Usage;

/// A decision of the arbiter (`docs/arbiter.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Decision {
    /// This agent works next.
    SelectMode {
        /// The agent's name.
        mode: String,
        /// The arbiter's reason, as the model or the rule worded it.
        reason: String,
    },
    /// The same agent continues its conversation.
    Continue {
        /// The arbiter's reason, as the model or the rule worded it.
        reason: String,
    },
    /// The task is done.
    Complete {
        /// What was achieved.
        summary: String,
    },
    /// The last agent tries again, differently.
    Retry {
        /// The arbiter's reason, as the model or the rule worded it.
        reason: String,
    },
    /// The task cannot be done until a person removes what stands in the way.
    Blocked {
        /// What stands in the way, as the model worded it.
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
            Self::Blocked { .. } => "BLOCKED",
        }
    }

    /// The reason, or the summary of a completion.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::SelectMode { reason, .. }
            | Self::Continue { reason }
            | Self::Retry { reason }
            | Self::Blocked { reason } => reason,
            Self::Complete { summary } => summary,
        }
    }
}

/// The result of an execution: what the agent reports, and what rawko itself observed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentResult {
    /// Whether the agent reports success.
    pub success: bool,
    /// The agent's report, in its own words.
    pub output: String,
    /// Its changes to the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_updates: Option<PlanUpdates>,
    /// Tokens it used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What failed, if it did not succeed and rawko saw what it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// What rawko itself observed during the execution.
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
    /// Files its tools read or wrote; bounded, the first ones are kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_accessed: Vec<String>,
    /// Its last commands with their exit codes, and the last checks among all of them; bounded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandFact>,
    /// Whether it ran a command that is not known to only read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_have_written: bool,
    /// Names of tools it called and was denied.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
    /// What it changed in the tree; absent where that was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffStat>,
    /// The verdict of its report; absent if it gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What it found, with the verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// How an execution ended.
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
    /// The agent repeated itself and was stopped.
    Stalled,
    /// The agent's own budget is used up.
    Budget,
}

/// An event of the machine. The field and tag names are those of `docs/machine.md`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum MachineEvent {
    /// Starts a run.
    StartTask {
        /// The task in the user's words.
        task: String,
    },
    /// The answer to the select effect.
    AgentSelected {
        /// The arbiter's decision, of any kind.
        decision: Decision,
    },
    /// The select effect failed even after its own fallback.
    AgentSelectionFailed {
        /// The cause.
        error: ErrorInfo,
    },
    /// The agent sent a message; changes no state.
    AgentMessage {
        /// The message as JSON; not interpreted.
        message: Value,
    },
    /// The agent called a tool; changes no state.
    AgentToolCall {
        /// The call as JSON; not interpreted.
        tool_call: Value,
    },
    /// A tool returned a result; changes no state.
    AgentToolResult {
        /// The result as JSON; not interpreted.
        tool_result: Value,
    },
    /// The agent's execution finished.
    AgentComplete {
        /// What the agent reports and what rawko observed.
        result: AgentResult,
    },
    /// The agent's execution failed.
    AgentError {
        /// The cause.
        error: ErrorInfo,
        /// What rawko observed until then.
        #[serde(default, flatten)]
        facts: ExecutionFacts,
        /// Tokens used until then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// The answer to the evaluate effect.
    ArbiterDecision {
        /// The arbiter's decision, of any kind.
        decision: Decision,
    },
    /// The evaluate effect failed.
    ArbiterError {
        /// The cause.
        error: ErrorInfo,
    },
    /// Manual override: this agent works now.
    ForceAgent {
        /// The agent's name.
        agent_name: String,
    },
    /// Manual override: skip the plan's current step.
    SkipStep,
    /// Manual override: the same agent works again.
    Retry,
    /// Stops the run.
    Cancel,
    /// Abandons the run and returns to idle.
    Reset,
}

impl MachineEvent {
    /// The event's kind, without its data.
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

    /// The decision, for the two events that carry one.
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

    /// The error, for the three events that carry one.
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

    /// The result of an execution that did not succeed.
    #[must_use]
    pub fn failed_result(&self) -> Option<&AgentResult> {
        let Self::AgentComplete { result } = self else { return None };
        (!result.success).then_some(result)
    }

    /// The next agent, where the event names one: a `SELECT_MODE` decision, or `FORCE_AGENT`.
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
