//! A session as the page shows it: one JSON value, built from the journal alone.
//!
//! [`SessionView`] is what the server sends, what the exported page holds, and what programs may read. Its texts are
//! bounded; [`ViewLimits`] says how, and the server gives a single entry in full.

mod builder;
mod entry;
mod facts;

use rawko::journal::{ForkedFrom, Journal};
use rawko_core::machine::{Plan, State};
use rawko_core::session::Outcome;
use rawko_core::{Timestamp, Usage};
use serde::Serialize;

pub use builder::ViewBuilder;
pub use entry::{Beginning, CallState, EntryKind, ModelAnswer, SessionEntry, ToolResult, VerificationView};

use crate::text::Excerpt;

/// Version of the JSON.
pub const FORMAT: u32 = 1;

/// How much of long texts is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewLimits {
    /// Bytes of each text.
    pub text: usize,
    /// The entry whose texts are kept whole, if one is.
    pub whole: Option<usize>,
}

impl Default for ViewLimits {
    /// What the list of entries needs.
    fn default() -> Self {
        Self { text: 400, whole: None }
    }
}

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// Version of this JSON. A change that can break a reader raises it.
    pub format: u32,
    /// What is true of the whole session.
    pub head: SessionHead,
    /// What happened, in order.
    pub entries: Vec<SessionEntry>,
}

impl SessionView {
    /// The view of a whole journal.
    #[must_use]
    pub fn of(journal: &Journal, limits: ViewLimits) -> Self {
        let mut builder = ViewBuilder::new(&journal.header, limits);
        for (seq, record) in (1_u64..).zip(&journal.records) {
            builder.record(seq, record);
        }
        builder.into_view()
    }
}

/// What is true of a whole session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionHead {
    /// Its id.
    pub id: String,
    /// The rawko that began it.
    pub rawko: String,
    /// When it was begun.
    pub created_at: Timestamp,
    /// When something last happened.
    pub updated_at: Timestamp,
    /// Sequence number of the last record.
    pub records: u64,
    /// Sequence number of the last record that a fork shares with its parent; 0 where it shares none.
    #[serde(skip_serializing_if = "is_zero")]
    pub shared_records: u64,
    /// The session that it was forked from, if it is a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
    /// Name of the folder that its agents work in, once a task has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The present task.
    pub task: Excerpt,
    /// The tasks, oldest first.
    pub tasks: Vec<TaskView>,
    /// The agents that can be selected.
    pub agents: Vec<AgentView>,
    /// State of the machine.
    pub state: State,
    /// The transitions that the machine took, in order.
    pub path: Vec<PathStep>,
    /// The executions, in order.
    pub executions: Vec<ExecutionView>,
    /// The plan, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// How the last task ended, without its verification, which is an entry; absent where it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Tokens of the session's own model calls.
    pub usage: Usage,
    /// Their cost in US dollars; absent where a price is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Why the rest of the journal cannot be read, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A task of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// Sequence number of the record that began it.
    pub record: u64,
    /// When it began.
    pub at: Timestamp,
    /// The task in the user's words.
    pub task: Excerpt,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentView {
    /// Its name.
    pub name: String,
    /// The provider of its model.
    pub provider: String,
    /// Its model.
    pub model: String,
}

/// A transition that the machine took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PathStep {
    /// Sequence number of the record that led to it.
    pub record: u64,
    /// When.
    pub at: Timestamp,
    /// The state that was left.
    pub from: State,
    /// The state that was entered.
    pub to: State,
}

/// An execution of an agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionView {
    /// Its number in the session, from 1.
    pub number: u32,
    /// Who works.
    pub agent: String,
    /// Number of the first entry of it.
    pub first_entry: usize,
    /// When it began.
    pub started_at: Timestamp,
    /// When the agent's work was over; absent while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Whether the tree was saved before it, because it was about to change something. Then there is a diff.
    pub has_checkpoint: bool,
    /// Model calls of the agent: its turns.
    pub model_calls: u32,
    /// Tool calls of the agent, without those that report and plan.
    pub tool_calls: u32,
    /// Tokens of the agent's model calls.
    pub usage: Usage,
    /// Their cost in US dollars; absent where a price is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Whether it belongs to the session that this one was forked from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}
