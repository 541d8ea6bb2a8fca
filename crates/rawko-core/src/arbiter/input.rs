//! The arbiter's inputs (`docs/arbiter.md#inputs`). The JSON is camelCase, except for `duration_ms`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{AgentRole, Finding, Transitions, Verdict};
use crate::facts::{BudgetFacts, CommandRun, DiffStat, OtherCheck, Proof, Standing};
use crate::lost_work::LostWork;
use crate::machine::{CommandFact, ExecutionEnd, ExecutionStatus, Plan};

/// The `agent` of an error before the first agent.
pub(super) const ARBITER: &str = "arbiter";

/// Input for choosing the next agent, in `selecting`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectAgentInput {
    /// The user's task, as given.
    pub task: String,
    /// The plan, if there is one.
    pub plan: Option<Plan>,
    /// Recent executions, oldest first.
    pub history: Vec<ExecutionSummary>,
    /// The last error, until a success clears it.
    pub last_error: Option<ErrorContext>,
    /// The agents that can be chosen.
    pub available_agents: Vec<AgentDescription>,
    /// The limits, and how much of them is used.
    pub constraints: ConstraintContext,
    /// What rawko itself observed in the run; absent if there is nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facts: RunFacts,
}

impl SelectAgentInput {
    /// Whether some agent has already run. An error before the first agent is the arbiter's own.
    pub(super) fn some_agent_ran(&self) -> bool {
        let is_agent = |name: &str| name != ARBITER;
        !self.history.is_empty() || self.last_error.as_ref().is_some_and(|error| is_agent(&error.agent))
    }
}

/// Input for evaluating progress, in `evaluating`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluateProgressInput {
    /// The user's task, as given.
    pub task: String,
    /// The plan, if there is one.
    pub plan: Option<Plan>,
    /// The execution to evaluate.
    pub last_execution: ExecutionSummary,
    /// Recent executions, oldest first.
    pub history: Vec<ExecutionSummary>,
    /// The limits, and how much of them is used.
    pub constraints: ConstraintContext,
    /// What rawko itself observed in the run; absent if there is nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facts: RunFacts,
}

/// What rawko itself observed in the run as a whole, as opposed to what agents claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunFacts {
    /// Changes to the tree since before the run's first change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<DiffStat>,
    /// The last results of the verification commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationFacts>,
    /// The checks that rawko runs itself when an execution ends; empty where it found none, absent where it runs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<String>>,
    /// What the loop detector sees repeating.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition: Option<Repetition>,
    /// What is left of the run's budgets, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetFacts>,
    /// Agents that cannot work now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub barred: Vec<BarredAgent>,
    /// The earlier tasks of this session, oldest first; at most five.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier_tasks: Vec<EarlierTask>,
    /// In a repaired session: work whose records were lost, and whose outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_work: Option<LostWork>,
    /// What the user has said since the task began, oldest first; the last five messages, cut where they are long.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_messages: Vec<String>,
}

impl RunFacts {
    /// Whether that agent cannot work now.
    pub(super) fn is_barred(&self, agent: &str) -> bool {
        self.barred.iter().any(|barred| barred.agent == agent)
    }
}

/// An earlier task of the session, and how it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EarlierTask {
    /// The task; its beginning if it is long.
    pub task: String,
    /// How it ended: `verified`, `claimed`, `failed`, `limited` or `cancelled`.
    pub status: String,
    /// The last words about it; their beginning if they are long.
    pub summary: String,
}

/// Results of the verification commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerificationFacts {
    /// Whether all of them exited with 0.
    pub passed: bool,
    /// Whether something may have been written since.
    pub is_stale: bool,
    /// What they say as a whole, compared with the tree of the beginning. Absent: what `passed` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// What they prove, if they passed and nothing speaks against them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// The commands that were run, with the end of what they printed.
    pub commands: Vec<CommandRun>,
    /// The same commands on the tree of the beginning, without what they printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<CommandRun>,
    /// Checks of agents that were red and that rawko ran as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherCheck>,
}

impl VerificationFacts {
    /// What they say as a whole.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let plain = if self.passed { Standing::Passed } else { Standing::Failed };
        self.standing.unwrap_or(plain)
    }

    /// The first check of an agent that the run made worse.
    #[must_use]
    pub fn worse_other(&self) -> Option<&OtherCheck> {
        self.others.iter().find(|other| other.is_worse())
    }
}

/// Something that repeats without any change in tree or plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Repetition {
    /// What repeats, in words.
    pub what: String,
    /// How often it has happened.
    pub times: u32,
    /// The count at which another agent must work.
    pub change_at: u32,
    /// The count at which the run stops.
    pub stop_at: u32,
}

/// An agent that cannot work now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BarredAgent {
    /// The agent's name.
    pub agent: String,
    /// Why it cannot work.
    pub reason: String,
}

/// One execution, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionSummary {
    /// The agent's name.
    pub agent: String,
    /// Which iteration of the run it was, from 1.
    pub iteration: u32,
    /// How it ended.
    pub status: ExecutionStatus,
    /// How long it took, in milliseconds.
    #[serde(rename = "duration_ms")]
    pub duration_ms: u64,
    /// The agent's text and the files it wrote; absent if there is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSummary>,
    /// The error that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorSummary>,
    /// The tokens it used; only of the execution being evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenCounts>,
    /// What rawko itself observed, as opposed to what the agent claims; absent if there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<RecordedFacts>,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// When it ended, RFC 3339.
    pub completed_at: String,
}

/// The agent's text after an execution, and the files it wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputSummary {
    /// The agent's text, at most 300 characters.
    pub summary: String,
    /// The agent's text, at most 2,000 characters; only of the execution being evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<String>,
    /// Files that its tools recorded as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
}

/// The error of an execution, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorSummary {
    /// The message, bounded.
    pub message: String,
    /// Its category.
    pub category: ErrorCategory,
    /// Number of the plan step, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// The tool concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The command that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How often in a row the agent had failed by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The recovery options.
    pub recovery_options: Vec<RecoveryAction>,
}

/// What rawko itself observed during an execution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedFacts {
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ExecutionEnd>,
    /// Number of model turns.
    pub turns: u32,
    /// Its last commands with their exit codes, and the last checks among all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandFact>,
    /// Whether it ran a command that is not known to only read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_have_written: bool,
    /// Tools that the policy denied it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
    /// Its changes to the tree; absent where that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffStat>,
    /// The verdict of its report; absent if it gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What it found, with the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

impl RecordedFacts {
    /// Whether something was written after that command, as far as is known.
    pub(super) fn is_stale(&self, fact: &CommandFact) -> bool {
        fact.before_last_write || (fact.before_possible_write && !self.left_the_tree_alone())
    }

    /// Whether the execution is known to have changed nothing in the tree.
    fn left_the_tree_alone(&self) -> bool {
        self.diff.as_ref().is_some_and(DiffStat::is_empty)
    }

    /// Whether it may have changed the tree, and its changes were not measured.
    pub(super) fn may_have_changed(&self) -> bool {
        self.may_have_written && self.diff.is_none()
    }
}

/// Tokens of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenCounts {
    /// Prompt tokens, cached ones included.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input and output.
    pub total: u64,
}

/// The last error, with its recovery options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorContext {
    /// The agent that it happened to; `arbiter` before the first agent.
    pub agent: String,
    /// The tool concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Number of the plan step, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_step: Option<usize>,
    /// What was being attempted.
    pub attempted: String,
    /// The message, bounded.
    pub message: String,
    /// Its category.
    pub category: ErrorCategory,
    /// The exit status of the command that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How often in a row the agent has failed by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The recovery options.
    pub recovery_options: Vec<RecoveryOption>,
    /// When it happened, RFC 3339.
    pub timestamp: String,
    /// What was going on at the time.
    pub context: ErrorSurroundings,
}

/// What was going on when an error occurred.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorSurroundings {
    /// Files the execution read or wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_accessed: Vec<String>,
    /// The last command it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_executed: Option<String>,
    /// Tokens of the prompts that led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_size: Option<u64>,
    /// Tokens of the answers that led to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_size: Option<u64>,
}

/// The category of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCategory {
    /// A tool could not do its work.
    ToolFailure,
    /// The model's provider failed.
    ProviderError,
    /// Something had the wrong form.
    ValidationError,
    /// A deadline passed.
    Timeout,
    /// Something was not allowed.
    PermissionError,
    /// None of the others.
    Unknown,
}

impl ErrorCategory {
    /// As prompts and reasons name it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::ToolFailure => "tool_failure",
            Self::ProviderError => "provider_error",
            Self::ValidationError => "validation_error",
            Self::Timeout => "timeout",
            Self::PermissionError => "permission_error",
            Self::Unknown => "unknown",
        }
    }
}

/// A way to continue after an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryOption {
    /// What to do.
    pub action: RecoveryAction,
    /// The action in words.
    pub description: String,
    /// Why it may help.
    pub reason: String,
}

/// What to do after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryAction {
    /// Try again: RETRY.
    Retry,
    /// Skip the step: no decision of the arbiter.
    Skip,
    /// Let another agent try: SELECT_MODE.
    Fallback,
    /// Give up: no decision of the arbiter.
    Abort,
}

/// The description of an agent in the arbiter's input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDescription {
    /// The name to select it by.
    pub name: String,
    /// The name for people.
    pub display_name: String,
    /// When to choose it.
    pub when_to_use: String,
    /// What it is for, as its author declared it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentRole>,
    /// The tools it may use.
    pub tools: ToolLists,
    /// The agents that should follow, as its author configured them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub transitions: Transitions,
    /// Its performance in this session; absent before its first execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent_performance: Option<RecentPerformance>,
}

/// Tools of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolLists {
    /// The tools it may use; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<String>>,
    /// The tools it may not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<String>,
}

/// An agent's performance in this session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecentPerformance {
    /// When it last succeeded, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<String>,
    /// When it last failed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Share of its executions that succeeded, 0 to 100.
    pub success_rate: f64,
    /// Executions per success; the number of executions if it never succeeded.
    pub iteration_average: f64,
}

/// The limits, and how much of them is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConstraintContext {
    /// Executions allowed.
    pub max_iterations: u32,
    /// Executions begun.
    pub current_iteration: u32,
    /// Executions left.
    pub iterations_remaining: u32,
    /// Failures in a row.
    pub consecutive_failures: u32,
    /// Failures in a row that end the run.
    pub max_consecutive_failures: u32,
    /// Tokens of all model calls so far.
    pub estimated_tokens_used: u64,
    /// Time since the start, in milliseconds.
    pub time_elapsed_ms: u64,
    /// Mean duration of an execution × steps (or iterations) left, in milliseconds.
    pub estimated_time_remaining: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
