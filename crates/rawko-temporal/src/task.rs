//! The messages between workflow, activities and clients. All of it is in the engine's histories, which the build that
//! began a task reads to its end.

use std::time::Duration;

use rawko_core::approval::ApprovalQuestion;
use rawko_core::machine::State;
use rawko_core::session::{Effect, EffectAnswer, Event, Outcome, Stamped};
use serde::{Deserialize, Serialize};

use crate::tree::{CommitId, Repository, branch_of};

/// One task of a fleet, as it was submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSpec {
    /// Its name in the fleet, in the branch and in the store.
    pub id: String,
    /// The task in the user's words.
    pub task: String,
    /// Where the code is.
    pub repository: Repository,
    /// The branch, tag or commit to begin with; that of the repository's `HEAD` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Who submitted it: tasks of different submitters get equal shares of the workers.
    pub submitter: String,
    /// The name of the submission, for lists and its budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<String>,
    /// Whether its model calls are charged to a budget of the submission.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_budget: bool,
    /// The first word of the names of all queues.
    pub queue: String,
    /// What the user set for this task.
    #[serde(default)]
    pub options: TaskOptions,
    /// How the engine carries it.
    #[serde(default)]
    pub carriage: Carriage,
}

impl TaskSpec {
    /// The branch that its work is on. Empty for an id that no branch can have, which is not submitted.
    #[must_use]
    pub fn branch(&self) -> String {
        branch_of(&self.id).unwrap_or_default()
    }

    /// The submission whose budget its model calls are charged to.
    pub(crate) fn budget(&self) -> Option<&str> {
        self.submission.as_deref().filter(|_| self.has_budget)
    }
}

/// What a user sets for a task, as the options of `rawko run`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskOptions {
    /// The provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The agent that works first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Most executions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    /// Most US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    /// Longest time in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The verification commands, instead of those of the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Vec<String>>,
    /// Whether the worker's command for merge requests runs at a good end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub merge_request: bool,
}

/// How the engine carries a task. The defaults are for agents whose steps last minutes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Carriage {
    /// 1 is the first to be served, 5 the last.
    pub priority: u32,
    /// A step whose worker has not been heard of for so long is given to another one, in milliseconds.
    pub heartbeat_ms: u64,
    /// Longest time of one step, in milliseconds.
    pub step_ms: u64,
    /// Longest time of one model call, in milliseconds.
    pub model_ms: u64,
    /// The history events after which the workflow goes on in a new run.
    pub history_events: u32,
    /// The mark of the store that the task is kept in. It is set when the task is submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
}

impl Default for Carriage {
    fn default() -> Self {
        Self {
            priority: 3,
            heartbeat_ms: 10_000,
            step_ms: 4 * 3_600_000,
            model_ms: 2 * 3_600_000,
            history_events: 8_000,
            store: None,
        }
    }
}

impl Carriage {
    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }
}

/// The input of a task's workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskInput {
    /// The task.
    pub(crate) spec: TaskSpec,
    /// What is there already; absent for a task that begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) carried: Option<Carried>,
}

/// What a run of the workflow hands to the next one, or what a session had before it was submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Carried {
    /// The session's id.
    pub(crate) session: String,
    /// The commit that the task began with.
    pub(crate) base: CommitId,
    /// The head of the task's branch.
    pub(crate) head: CommitId,
    /// How many events are in the store.
    pub(crate) stored: u64,
    /// Those after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tail: Vec<Stamped>,
    /// What people did that is not applied yet, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) inbox: Vec<Event>,
    /// Whether the session comes from a process that drove it itself, and whose open effects are lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) from_elsewhere: bool,
}

/// The answer of `begin`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BegunTask {
    /// The session's id.
    pub(crate) session: String,
    /// The commit that the task begins with.
    pub(crate) base: CommitId,
    /// The first event.
    pub(crate) event: Event,
}

/// What every activity gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ActivityInput {
    /// The task.
    pub(crate) spec: TaskSpec,
    /// The session's id.
    pub(crate) session: String,
    /// The commit that the task began with.
    pub(crate) base: CommitId,
    /// The commit on which this begins.
    pub(crate) head: CommitId,
    /// The number of the first event of `tail`.
    pub(crate) stored: u64,
    /// Events that may not be in the store yet. They are, before anything is done.
    pub(crate) tail: Vec<Stamped>,
}

impl ActivityInput {
    /// The number of events that the activity follows from.
    pub(crate) fn events(&self) -> u64 {
        self.stored + self.tail.len() as u64
    }
}

/// The input of the activity that gives events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToLoad {
    /// Where.
    #[serde(flatten)]
    pub(crate) place: ActivityInput,
    /// The number of the first event that is wanted.
    pub(crate) from: u64,
}

/// The input of an activity that performs an effect. The effect itself follows from the events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToPerform {
    /// Where.
    #[serde(flatten)]
    pub(crate) place: ActivityInput,
    /// The effect's number.
    pub(crate) effect: u64,
}

/// The answer of an activity that performed an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Performed {
    /// The answer to the effect.
    pub(crate) answer: EffectAnswer,
    /// The head of the task's branch, if the effect changed the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<CommitId>,
}

/// The input of the activity that closes a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToClose {
    /// Where.
    #[serde(flatten)]
    pub(crate) place: ActivityInput,
    /// The execution before which the tree was last kept, where its end is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unseen_tree: Option<u32>,
    /// How it ended.
    pub(crate) outcome: Outcome,
    /// How it stands then.
    pub(crate) status: TaskStatus,
}

/// The input of the activity that keeps a session which goes on elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeepInput {
    /// Where.
    #[serde(flatten)]
    pub(crate) place: ActivityInput,
    /// How it stands.
    pub(crate) status: TaskStatus,
}

/// The answer to [`ToClose`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Closed {
    /// What the tree was found to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inspection: Option<Event>,
    /// What the worker's command for merge requests printed, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) merge_request: Option<String>,
}

/// How a task stands. It is in the workflow's memo, so that it can be read while no worker runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// The beginning of the task.
    pub task: String,
    /// Where the code is.
    pub repository: Repository,
    /// The branch that the work is on.
    pub branch: String,
    /// Who submitted it.
    pub submitter: String,
    /// The submission that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<String>,
    /// The session's id; absent until a worker has begun it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The machine's state.
    pub state: State,
    /// The agent that works or worked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Executions so far.
    #[serde(default)]
    pub iterations: u32,
    /// The head of the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<CommitId>,
    /// Whether the user has paused it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_paused: bool,
    /// The question that waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<ApprovalQuestion>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What the command for merge requests printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_request: Option<String>,
}

/// A person's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalAnswer {
    /// The digest of the question, or its beginning, at least eight characters.
    pub question: String,
    /// Whether the call may be made.
    pub allowed: bool,
    /// Who answers.
    pub by: String,
}

/// Which queue performs an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EffectQueue {
    Model { provider: String },
    Step,
    Verify,
}

impl EffectQueue {
    /// That of `effect`; `None` for what the workflow does itself.
    pub(crate) fn of(effect: &Effect) -> Option<Self> {
        match effect {
            Effect::CallModel { provider, .. } => Some(Self::Model { provider: provider.clone() }),
            Effect::Verify { .. } => Some(Self::Verify),
            Effect::AskUser { .. }
            | Effect::StartTimer { .. }
            | Effect::Abandon { .. }
            | Effect::Finish { .. } => None,
            _ => Some(Self::Step),
        }
    }
}
