//! What the arbiter is told (SPEC-0006, with the decisions of `spec/arbiter.md`). JSON is camelCase, but for
//! `duration_ms`, which SPEC-0006 spells so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Transitions;
use crate::facts::{BudgetFacts, CommandRun, DiffStat};
use crate::machine::{CommandFact, ExecutionEnd, ExecutionStatus, Plan};

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
    /// The last error, if it still matters.
    pub last_error: Option<ErrorContext>,
    /// Who can be chosen.
    pub available_agents: Vec<AgentDescription>,
    /// Limits and how far they are used up.
    pub constraints: ConstraintContext,
    /// What rawko knows for itself of the run, beyond SPEC-0006; absent where there is nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facts: RunFacts,
}

/// Input for judging progress, in `evaluating`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluateProgressInput {
    /// The user's task, as given.
    pub task: String,
    /// The plan, if there is one.
    pub plan: Option<Plan>,
    /// The execution to be judged.
    pub last_execution: ExecutionSummary,
    /// Recent executions, oldest first.
    pub history: Vec<ExecutionSummary>,
    /// Limits and how far they are used up.
    pub constraints: ConstraintContext,
    /// What rawko knows for itself of the run, beyond SPEC-0006; absent where there is nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facts: RunFacts,
}

/// What rawko knows for itself of the run as a whole, as opposed to what agents claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RunFacts {
    /// What is different from the tree before the run's first change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<DiffStat>,
    /// What the verification commands brought when they were last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<VerificationFacts>,
    /// Something that comes again and again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition: Option<Repetition>,
    /// What is left of the run's budgets, where it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetFacts>,
    /// Agents that cannot work now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub barred: Vec<BarredAgent>,
}

/// What the verification commands brought.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerificationFacts {
    /// Whether all of them exited with 0.
    pub passed: bool,
    /// Whether something may have been written since.
    pub is_stale: bool,
    /// The commands that were run, with the end of what they printed.
    pub commands: Vec<CommandRun>,
}

/// Something that comes again and again without any change in tree or plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Repetition {
    /// What.
    pub what: String,
    /// How often by now.
    pub times: u32,
    /// How often until another agent must work.
    pub change_at: u32,
    /// How often until the run stops.
    pub stop_at: u32,
}

/// An agent that cannot work now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BarredAgent {
    /// Its name.
    pub agent: String,
    /// Why.
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
    /// What it brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputSummary>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorSummary>,
    /// What it consumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenCounts>,
    /// What rawko itself recorded, as opposed to what the agent claims. Absent where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<RecordedFacts>,
    /// RFC 3339.
    pub started_at: String,
    /// RFC 3339.
    pub completed_at: String,
}

/// What an execution said, and which files it wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputSummary {
    /// The agent's words, at most 300 characters.
    pub summary: String,
    /// The agent's words, at most 2,000 characters; only of the execution that is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<String>,
    /// Files that its tools recorded as written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
}

/// What went wrong in an execution, in short.
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
    /// What can be done about it.
    pub recovery_options: Vec<RecoveryAction>,
}

/// What rawko saw for itself during an execution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedFacts {
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ExecutionEnd>,
    /// Model turns it took.
    pub turns: u32,
    /// Its last commands with their exit codes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandFact>,
    /// Tools that it was denied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied_tools: Vec<String>,
    /// What it changed in the tree; absent where that was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffStat>,
}

/// Tokens of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenCounts {
    /// Prompt tokens, cached ones included.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Both.
    pub total: u64,
}

/// The last error with what could be done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorContext {
    /// Which agent met it; `arbiter` before the first agent.
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
    /// What can be done about it.
    pub recovery_options: Vec<RecoveryOption>,
    /// When, RFC 3339.
    pub timestamp: String,
    /// What was happening.
    pub context: ErrorSurroundings,
}

/// What was happening when an error occurred.
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

/// Kind of an error, coarsely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCategory {
    /// A tool could not do its work.
    ToolFailure,
    /// The model's provider failed.
    ProviderError,
    /// Something did not have the right form.
    ValidationError,
    /// A deadline passed.
    Timeout,
    /// Something was not allowed.
    PermissionError,
    /// Nothing more is known.
    Unknown,
}

/// A way on after an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveryOption {
    /// What to do.
    pub action: RecoveryAction,
    /// In words.
    pub description: String,
    /// Why it may help.
    pub reason: String,
}

/// What can be done after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryAction {
    /// Try again.
    Retry,
    /// Leave the step out.
    Skip,
    /// Let another agent try.
    Fallback,
    /// Give up.
    Abort,
}

/// An agent as the arbiter sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDescription {
    /// The name to answer with.
    pub name: String,
    /// The name for people.
    pub display_name: String,
    /// When to choose it.
    pub when_to_use: String,
    /// Which tools it has.
    pub tools: ToolLists,
    /// Who its author says should follow.
    #[serde(default, skip_serializing_if = "is_default")]
    pub transitions: Transitions,
    /// How it did in this session; absent before its first execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent_performance: Option<RecentPerformance>,
}

/// Tools of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolLists {
    /// Those it may use; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<String>>,
    /// Those it may not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<String>,
}

/// How an agent did in this session.
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
    /// Executions per success; all its executions where it never succeeded.
    pub iteration_average: f64,
}

/// Limits and how far they are used up.
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
    /// Since the start, in milliseconds.
    pub time_elapsed_ms: u64,
    /// Mean duration of an execution × steps (or iterations) left, in milliseconds.
    pub estimated_time_remaining: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
