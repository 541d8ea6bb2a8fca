//! States and context of the machine (`docs/machine.md#states`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::{Decision, ExecutionFacts};
use super::plan::Plan;
use crate::error::{ErrorCode, ErrorInfo};
use crate::time::Timestamp;
use crate::usage::Usage;

/// A state of the machine. `error_handling` is transient: the step that enters it also leaves it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waiting for a task.
    #[default]
    Idle,
    /// The arbiter chooses the next agent.
    Selecting,
    /// An agent works.
    Executing,
    /// The arbiter judges the agent's work.
    Evaluating,
    /// The machine decides whether to continue after an error.
    ErrorHandling,
    /// Final: done, or stopped by the iteration limit (see `Context::limited`).
    Complete,
    /// Final: failed.
    Failed,
    /// Final: stopped by the user.
    Cancelled,
}

impl State {
    /// Every state, in the order of a run.
    pub const ALL: [Self; 8] = [
        Self::Idle,
        Self::Selecting,
        Self::Executing,
        Self::Evaluating,
        Self::ErrorHandling,
        Self::Complete,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Whether the state is final: it ignores every event.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Cancelled)
    }

    /// The name in diagrams, exports and journals.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Selecting => "selecting",
            Self::Executing => "executing",
            Self::Evaluating => "evaluating",
            Self::ErrorHandling => "error_handling",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Limits of a run. Only a reload of the configuration changes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Names of the agents that may be selected.
    pub agents: Vec<String>,
    /// Most entries into `executing`.
    pub max_iterations: u32,
    /// Failures in a row after which the run fails.
    pub max_consecutive_failures: u32,
}

/// What the machine remembers besides its state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    /// The task in the user's words.
    pub task: String,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// The current agent, or the last one; empty before the first.
    pub current_mode: String,
    /// The plan, once there is one.
    pub plan: Option<Plan>,
    /// The executions that ended, oldest first.
    pub history: Vec<HistoryEntry>,
    /// Failures since the last success.
    pub consecutive_failures: u32,
    /// Failures in all.
    pub total_failures: u32,
    /// The last failure, until a success clears it.
    pub last_error: Option<FailureRecord>,
    /// The arbiter's last decision.
    pub last_decision: Option<Decision>,
    /// Entries into `executing`.
    pub iteration_count: u32,
    /// When `executing` was entered last.
    pub executing_since: Option<Timestamp>,
    /// Whether the iteration limit ended the run.
    pub limited: bool,
}

/// A failure, with its agent and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureRecord {
    /// The error.
    pub error: ErrorInfo,
    /// The agent concerned; empty for the arbiter before the first agent.
    pub agent: String,
    /// When it happened.
    pub at: Timestamp,
}

/// The record of one execution of one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// The agent's name.
    pub agent: String,
    /// Which iteration of the run it was, from 1.
    pub iteration: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Timestamp,
    /// How it ended.
    pub result: ExecutionStatus,
    /// The agent's report, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// Position of the plan step it worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_step: Option<usize>,
    /// Tokens it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What rawko itself observed.
    #[serde(default)]
    pub facts: ExecutionFacts,
}

/// Whether an execution succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// The agent reports success.
    Success,
    /// It failed, or the agent reports a failure.
    Failure,
    /// It ran out of time.
    Timeout,
    /// It was stopped by an override or by the user.
    Cancelled,
}

impl Limits {
    /// Whether there is an agent of this name.
    #[must_use]
    pub fn knows(&self, agent: &str) -> bool {
        self.agents.iter().any(|known| known == agent)
    }
}

impl Default for Limits {
    /// The four built-in agents, 50 iterations, three failures in a row.
    fn default() -> Self {
        Self {
            agents: ["planner", "developer", "tester", "reviewer"].map(str::to_owned).to_vec(),
            max_iterations: 50,
            max_consecutive_failures: 3,
        }
    }
}

impl ExecutionStatus {
    /// Whether it counts as a failure.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Failure | Self::Timeout)
    }

    /// The status of an execution that ended with this error.
    #[must_use]
    pub fn of_error(code: ErrorCode) -> Self {
        if code == ErrorCode::Timeout { Self::Timeout } else { Self::Failure }
    }
}
