//! The entries of a timeline.

use rawko_core::facts::Verification;
use rawko_core::integrity::Doubt;
use rawko_core::machine::{Plan, State};
use rawko_core::memory::{MemoryUse, RecalledMemory};
use rawko_core::message::StopReason;
use rawko_core::session::{DecisionPoint, DecisionSource, KeptMemory, Status};
use rawko_core::{Timestamp, Usage};
use serde::Serialize;

use crate::text::Excerpt;

/// One entry of the list that a session is shown as.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionEntry {
    /// Its place in the list.
    pub number: usize,
    /// Sequence number of the record that began it.
    pub record: u64,
    /// When it began.
    pub at: Timestamp,
    /// Executions begun before it.
    pub execution: u32,
    /// Whether it belongs to the session that this one was forked from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// The last record that changed it.
    #[serde(skip)]
    pub changed_by: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: EntryKind,
}

/// The kind of an entry, with its data.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum EntryKind {
    /// A task began, or went on.
    Task {
        /// How.
        how: Beginning,
        /// The task, where it is a new one.
        #[serde(skip_serializing_if = "Option::is_none")]
        task: Option<Excerpt>,
    },
    /// The machine changed its state.
    State {
        /// The state it left.
        from: State,
        /// The state it entered.
        to: State,
    },
    /// A decision. Its input, answers and alternatives are asked for by its number.
    Decision {
        /// Its number in the session, from 1.
        decision: usize,
        /// The question.
        point: DecisionPoint,
        /// `SELECT_MODE` and so on.
        kind: &'static str,
        /// The agent that was selected, if one was.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// The reason.
        reason: Excerpt,
        /// Who decided.
        source: DecisionSource,
        /// The rule, where one decided.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// The kind of the decision that a guard replaced.
        #[serde(skip_serializing_if = "Option::is_none")]
        instead_of: Option<&'static str>,
        /// Answers that could not be used.
        rejected: usize,
        /// From question to decision, in milliseconds.
        duration_ms: u64,
        /// Tokens of its model calls.
        usage: Usage,
        /// Their cost in US dollars; absent where a price is not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// A model was asked.
    ModelCall {
        /// What for: an agent's name, `select`, `evaluate`, `NAME (memory)`, `NAME (summary)`.
        purpose: String,
        /// The provider.
        provider: String,
        /// The model.
        model: String,
        /// How far it is.
        state: CallState,
        /// The answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<ModelAnswer>,
        /// Why it failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Excerpt>,
        /// Its tokens, once it has used some.
        #[serde(skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Its cost in US dollars; absent where the price is not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// How long it took, in milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// An agent called a tool.
    ToolCall {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
        /// The call in one line: a command, a path.
        title: String,
        /// The arguments.
        input: Excerpt,
        /// How far it is.
        state: CallState,
        /// Whether the policy allowed it.
        allowed: bool,
        /// The rule that decided.
        rule: String,
        /// The result.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<ToolResult>,
        /// How long it took, in milliseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
    },
    /// A person was asked for a call.
    Approval {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
        /// What the call needs.
        needs: String,
        /// When the question is over.
        until: Timestamp,
        /// The answer in words; absent while it waits.
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<String>,
    },
    /// An agent was given memories.
    MemoriesTold {
        /// The agent.
        agent: String,
        /// In which execution.
        iteration: u32,
        /// The memories, best first.
        memories: Vec<RecalledMemory>,
    },
    /// What became of the memories that an agent was given.
    MemoriesUsed {
        /// The agent.
        agent: String,
        /// In which execution.
        iteration: u32,
        /// One for each memory.
        uses: Vec<MemoryUse>,
    },
    /// An agent learned something.
    MemoryKept {
        /// The agent.
        agent: String,
        /// What it learned.
        title: String,
        /// What became of it.
        kept: KeptMemory,
    },
    /// The tree was saved before an execution changed it, or could not be.
    Checkpoint {
        /// Its name.
        #[serde(skip_serializing_if = "Option::is_none")]
        checkpoint: Option<String>,
        /// Why it could not be saved.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<Excerpt>,
    },
    /// The verification commands ran, or are running.
    Verification {
        /// The commands.
        commands: Vec<String>,
        /// The results; absent while they run.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Box<VerificationView>>,
    },
    /// The plan changed.
    Plan {
        /// Who changed it.
        agent: String,
        /// The plan as it was then.
        plan: Plan,
    },
    /// Anything else, in words.
    Notice {
        /// Whether something is wrong.
        warning: bool,
        /// The words.
        text: Excerpt,
    },
    /// The task ended.
    End {
        /// How.
        status: Status,
        /// What was achieved, or why not.
        summary: Excerpt,
        /// Cost of the task in US dollars; absent where a price is not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
}

/// How a task began or went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Beginning {
    /// The session's first task.
    Started,
    /// The next task.
    Continued,
    /// The task was taken up again after a limit or its provider had ended it.
    TakenUp,
    /// Another process resumed the session.
    Resumed,
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// It was begun and is not answered.
    Open,
    /// It was answered.
    Done,
    /// It failed.
    Failed,
    /// It was denied, and not made.
    Denied,
    /// The process ended before the answer was recorded.
    Lost,
    /// The run stopped waiting for it.
    Dropped,
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelAnswer {
    /// What it wrote.
    pub text: Excerpt,
    /// What it thought, as far as its provider reveals it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Excerpt>,
    /// The tools that it called.
    pub tools: Vec<String>,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Whether the answer came from the arbiter's cache.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// What the agent got.
    pub content: Excerpt,
    /// Whether the call failed.
    pub is_error: bool,
    /// Exit status of the program, if one was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Files that it wrote.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    /// How many pictures belong to it.
    pub pictures: usize,
}

/// A verification, and what it says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerificationView {
    /// Whether every command exited with 0.
    pub passed: bool,
    /// Whether that proves the work.
    pub proves: bool,
    /// Why it does not prove it, if the commands passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// The results.
    pub verification: Verification,
}
