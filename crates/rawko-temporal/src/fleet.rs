//! The client's side of a fleet: submit tasks, see how they stand, answer, steer and cancel.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::StreamExt as _;
use rawko::journal::JournalHeader;
use rawko_core::session::{Outcome, Override, Stamped};
use rawko_core::text::truncate;
use sha2::{Digest as _, Sha256};
use temporalio_client::errors::{
    WorkflowGetResultError, WorkflowInteractionError, WorkflowStartError, WorkflowUpdateError,
};
use temporalio_client::{
    Client, WorkflowCancelOptions, WorkflowExecutionStatus, WorkflowHandle, WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy, WorkflowStartOptions,
};
use temporalio_common::{Memo, MemoValues};

use crate::budget::{self, Budget, BudgetWorkflow};
use crate::engine::EngineAddress;
use crate::error::FleetError;
use crate::names::{self, STATUS};
use crate::shown::{EngineState, FleetTask, Submitted, Waiting};
use crate::store::SharedStore;
use crate::task::{ApprovalAnswer, Carried, TaskInput, TaskSpec, TaskStatus};
use crate::tree::branch_of;
use crate::workflow::{NOT_READY, TaskWorkflow, priority};
use crate::workspace::is_reserved;

/// The key of the memo that holds the limit of a budget.
const LIMIT: &str = "rawko-limit";
/// The key of the memo that holds what was submitted, as a digest.
const SPEC: &str = "rawko-spec";
/// The key of the memo that holds when it was submitted.
const SUBMITTED: &str = "rawko-submitted";
/// How long a worker may take to answer an update.
const UPDATE: Duration = Duration::from_secs(20);
/// Between two attempts at it.
const AGAIN: Duration = Duration::from_millis(200);
/// Characters of a task in its status.
const TASK_CHARS: usize = 200;

/// A fleet, as its users see it.
#[derive(Clone)]
pub struct Fleet {
    client: Client,
    store: SharedStore,
    queue: String,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Fleet {
    /// Connects to the fleet whose workers serve `queue` and share `store`.
    ///
    /// # Errors
    /// [`FleetError::Settings`], [`FleetError::Unreachable`].
    pub async fn connect(
        engine: &EngineAddress,
        store: SharedStore,
        queue: &str,
    ) -> Result<Self, FleetError> {
        Ok(Self { client: engine.connect(&store).await?, store, queue: queue.to_owned() })
    }

    /// The store of the fleet.
    #[must_use]
    pub fn store(&self) -> &SharedStore {
        &self.store
    }

    /// Opens a submission with a budget in US dollars, which its tasks share, or lets further tasks share it. For tasks that were
    /// submitted before, nothing changes. A task is charged to it if it says so ([`TaskSpec::has_budget`]).
    ///
    /// # Errors
    /// [`FleetError::Refused`] if the submission has another budget, or one that ended with the last of its tasks;
    /// [`FleetError::Engine`].
    pub async fn open_budget(&self, submission: &str, usd: f64, tasks: &[String]) -> Result<(), FleetError> {
        let mut new = Vec::new();
        for task in tasks {
            match self.describe(task).await {
                Err(FleetError::NoTask(_)) => new.push(task.clone()),
                known => drop(known?),
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let id = budget::workflow_id(submission);
        let mut memo = MemoValues::new();
        memo.insert(LIMIT, usd);
        let options = WorkflowStartOptions::new(self.queue.clone(), id.clone())
            .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
            .id_conflict_policy(WorkflowIdConflictPolicy::Fail)
            .memo(memo)
            .build();
        let budget = Budget::new(usd, new.clone());
        match self.client.start_workflow(BudgetWorkflow::run, budget, options).await {
            Ok(_) => return Ok(()),
            Err(WorkflowStartError::AlreadyStarted { .. }) => {}
            Err(error) => return Err(FleetError::engine("open the budget", &error)),
        }
        let failed = |error: WorkflowInteractionError| FleetError::engine("find the budget", &error);
        let handle = self.client.get_workflow_handle::<BudgetWorkflow>(id);
        let description = handle.describe(Default::default()).await.map_err(failed)?;
        let limit: Option<f64> = description.memo().get(LIMIT).ok().flatten();
        if let Some(limit) = limit.filter(|limit| (limit - usd).abs() > f64::EPSILON) {
            return Err(FleetError::Refused(format!(
                "the submission `{submission}` has a budget of {limit} US dollars, not {usd}: give the same, or name another submission"
            )));
        }
        match handle.signal(BudgetWorkflow::join, new, Default::default()).await {
            Ok(()) => Ok(()),
            Err(WorkflowInteractionError::NotFound(_)) => Err(FleetError::Refused(format!(
                "the budget of the submission `{submission}` has ended with the last of its tasks: name another submission"
            ))),
            Err(error) => Err(failed(error)),
        }
    }

    /// Submits a task. The same task under the same id is submitted once.
    ///
    /// # Errors
    /// [`FleetError::OtherTask`] if the id is another task's; [`FleetError::Engine`].
    pub async fn submit(&self, spec: TaskSpec) -> Result<Submitted, FleetError> {
        self.start(spec, None).await
    }

    pub(crate) async fn start(
        &self,
        spec: TaskSpec,
        carried: Option<Carried>,
    ) -> Result<Submitted, FleetError> {
        let branch = branch_of(&spec.id)?;
        if is_reserved(&spec.id) {
            return Err(FleetError::Refused(format!(
                "`{}` is no id for a task: its end is rawko's own",
                spec.id
            )));
        }
        let digest = digest(&spec);
        let mut memo = MemoValues::new();
        memo.insert(STATUS, first_status(&spec, &branch, carried.as_ref()));
        memo.insert(SPEC, digest.clone());
        // Kept by each further run of the workflow, which has a beginning of its own.
        memo.insert(SUBMITTED, SystemTime::now());
        let options = WorkflowStartOptions::new(self.queue.clone(), names::workflow_id(&spec.id))
            .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
            .id_conflict_policy(WorkflowIdConflictPolicy::Fail)
            .memo(memo)
            .priority(priority(&spec))
            .static_summary(truncate(spec.task.lines().next().unwrap_or_default(), 100))
            .build();
        let id = spec.id.clone();
        let started =
            self.client.start_workflow(TaskWorkflow::run, TaskInput { spec, carried }, options).await;
        match started {
            Ok(_) => Ok(Submitted { id, branch, is_new: true }),
            Err(WorkflowStartError::AlreadyStarted { .. }) => self.same(id, branch, &digest).await,
            Err(error) => Err(FleetError::engine("take the task", &error)),
        }
    }

    /// The task, if it was submitted already.
    pub(crate) async fn known(&self, spec: &TaskSpec) -> Result<Option<Submitted>, FleetError> {
        match self.same(spec.id.clone(), branch_of(&spec.id)?, &digest(spec)).await {
            Err(FleetError::NoTask(_)) => Ok(None),
            known => known.map(Some),
        }
    }

    /// The task of this id, if it is the one of this digest.
    async fn same(&self, id: String, branch: String, digest: &str) -> Result<Submitted, FleetError> {
        let theirs: Option<String> = self.describe(&id).await?.memo().get(SPEC).ok().flatten();
        if theirs.is_some_and(|theirs| theirs == digest) {
            Ok(Submitted { id, branch, is_new: false })
        } else {
            Err(FleetError::OtherTask(id))
        }
    }

    /// All tasks of this fleet, the newest first. No worker is needed for it.
    ///
    /// # Errors
    /// [`FleetError::Engine`].
    pub async fn list(&self) -> Result<Vec<FleetTask>, FleetError> {
        let query = format!("WorkflowType = 'rawko.task' AND TaskQueue = '{}'", self.queue.replace('\'', ""));
        let mut found = self.client.list_workflows(query, Default::default());
        let mut tasks = Vec::new();
        while let Some(execution) = found.next().await {
            let execution = execution.map_err(|error| FleetError::engine("list the tasks", &error))?;
            // A workflow that went on in a new run is one task: its newest run speaks for it.
            if execution.status() == WorkflowExecutionStatus::ContinuedAsNew {
                continue;
            }
            let Some(id) = execution.id().strip_prefix(names::TASK_PREFIX) else { continue };
            tasks.push(FleetTask {
                id: id.to_owned(),
                engine: EngineState::of(execution.status()),
                submitted_at: submitted_at(&execution.memo()).or_else(|| execution.start_time()),
                ended_at: execution.close_time(),
                failure: None,
                waits_for: None,
                status: self.status(&execution.memo()).await,
            });
        }
        Ok(tasks)
    }

    /// One task. No worker is needed for it.
    ///
    /// # Errors
    /// [`FleetError::NoTask`], [`FleetError::Engine`].
    pub async fn show(&self, id: &str) -> Result<FleetTask, FleetError> {
        let description = self.describe(id).await?;
        let mut task = FleetTask {
            id: id.to_owned(),
            engine: EngineState::of(description.status()),
            submitted_at: submitted_at(&description.memo()).or_else(|| description.start_time()),
            ended_at: description.close_time(),
            failure: None,
            waits_for: None,
            status: self.status(&description.memo()).await,
        };
        let has_outcome = task.status.as_ref().is_some_and(|status| status.outcome.is_some());
        if task.engine == EngineState::Failed && !has_outcome {
            task.failure = self.failure(id).await;
        } else if task.ended_at.is_none() {
            let pending = &description.raw().pending_activities;
            let failed = pending.iter().find_map(|activity| activity.last_failure.as_ref());
            task.failure = failed.map(|failure| failure.message.clone());
            task.waits_for = pending.iter().filter_map(Waiting::of).min_by_key(|waiting| waiting.since);
        }
        Ok(task)
    }

    /// Waits for the end of a task.
    ///
    /// # Errors
    /// [`FleetError::NoTask`], [`FleetError::Engine`].
    pub async fn wait(&self, id: &str) -> Result<FleetTask, FleetError> {
        match self.handle(id).get_result(Default::default()).await {
            Err(WorkflowGetResultError::NotFound(_)) => Err(FleetError::NoTask(id.to_owned())),
            Err(error @ WorkflowGetResultError::Rpc(_)) => {
                Err(FleetError::engine("wait for the task", &error))
            }
            // How it ended is in its status.
            Ok(_) | Err(_) => self.show(id).await,
        }
    }

    /// Asks a task to stop. It ends once what is under way is dead.
    ///
    /// # Errors
    /// [`FleetError::NoTask`], [`FleetError::Engine`].
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<(), FleetError> {
        let options = WorkflowCancelOptions::builder().reason(reason.to_owned()).build();
        self.handle(id).cancel(options).await.map_err(|error| interaction(id, "cancel the task", &error))
    }

    /// Answers the question of a task. Gives the question's digest.
    ///
    /// # Errors
    /// [`FleetError::Refused`] if no such question waits; [`FleetError::NoWorker`]; [`FleetError::NoTask`].
    pub async fn approve(&self, id: &str, answer: ApprovalAnswer) -> Result<String, FleetError> {
        let handle = self.handle(id);
        let approve = || handle.execute_update(TaskWorkflow::approve, answer.clone(), Default::default());
        self.updated(id, approve).await
    }

    /// Sends a command to a task.
    ///
    /// # Errors
    /// [`FleetError::Refused`] if it would change nothing; [`FleetError::NoWorker`]; [`FleetError::NoTask`].
    pub async fn steer(&self, id: &str, command: Override) -> Result<(), FleetError> {
        let handle = self.handle(id);
        let steer = || handle.execute_update(TaskWorkflow::steer, command.clone(), Default::default());
        self.updated(id, steer).await
    }

    /// Ends a task in the fleet and leaves its session as it is, for a process that drives it itself. Waits until what is under
    /// way is dead.
    ///
    /// # Errors
    /// [`FleetError::NoTask`], [`FleetError::Engine`].
    pub async fn release(&self, id: &str) -> Result<FleetTask, FleetError> {
        let sent = self.handle(id).signal(TaskWorkflow::release, (), Default::default()).await;
        sent.map_err(|error| interaction(id, "release the task", &error))?;
        self.wait(id).await
    }

    /// The header of a task's journal; `None` before a worker has begun it.
    ///
    /// # Errors
    /// [`FleetError::Store`].
    pub async fn header(&self, id: &str) -> Result<Option<JournalHeader>, FleetError> {
        let found = self.store.get(&format!("tasks/{id}/header")).await?;
        found.map(|bytes| parsed(&bytes)).transpose()
    }

    /// Events of a task's session, from number `from`, as far as they are in the store: all, once it has ended.
    ///
    /// # Errors
    /// [`FleetError::Store`].
    pub async fn events(&self, id: &str, from: u64) -> Result<Vec<Stamped>, FleetError> {
        let lines = self.store.events(id)?.read(from).await?;
        lines.iter().map(|(_, line)| parsed(line)).collect()
    }

    /// Files that belong to a task's session besides its journal.
    ///
    /// # Errors
    /// [`FleetError::Store`].
    pub async fn records(&self, id: &str) -> Result<Vec<(String, Bytes)>, FleetError> {
        let prefix = format!("tasks/{id}/records");
        let mut records = Vec::new();
        for key in self.store.list(&prefix).await? {
            let Some(name) = key.strip_prefix(&prefix).and_then(|name| name.strip_prefix('/')) else {
                continue;
            };
            if let Some(content) = self.store.get(&key).await? {
                records.push((name.to_owned(), content));
            }
        }
        Ok(records)
    }

    /// Why a workflow failed that has ended.
    async fn failure(&self, id: &str) -> Option<String> {
        match self.handle(id).get_result(Default::default()).await {
            Err(WorkflowGetResultError::Failed(failure)) => Some(failure.to_string()),
            Ok(_) | Err(_) => None,
        }
    }

    pub(crate) fn handle(&self, id: &str) -> WorkflowHandle<Client, TaskWorkflow> {
        self.client.get_workflow_handle(names::workflow_id(id))
    }

    async fn describe(
        &self,
        id: &str,
    ) -> Result<temporalio_client::WorkflowExecutionDescription, FleetError> {
        let described = self.handle(id).describe(Default::default()).await;
        described.map_err(|error| interaction(id, "find the task", &error))
    }

    async fn status(&self, memo: &Memo) -> Option<TaskStatus> {
        memo.get(STATUS).ok().flatten()
    }

    /// The answer of an update, which a worker has to give, once the task is taken up.
    async fn updated<T, Update>(&self, id: &str, update: impl Fn() -> Update) -> Result<T, FleetError>
    where
        Update: Future<Output = Result<T, WorkflowUpdateError>>,
    {
        let in_time = async {
            loop {
                match update().await {
                    Err(WorkflowUpdateError::Failed(failure)) if failure.message.contains(NOT_READY) => {
                        tokio::time::sleep(AGAIN).await;
                    }
                    updated => return updated,
                }
            }
        };
        let Ok(updated) = tokio::time::timeout(UPDATE, in_time).await else {
            return Err(FleetError::NoWorker { seconds: UPDATE.as_secs(), queue: self.queue.clone() });
        };
        match updated {
            Ok(answer) => Ok(answer),
            Err(WorkflowUpdateError::Failed(failure)) => Err(FleetError::Refused(failure.message)),
            // The engine says this of a task that has ended, too.
            Err(WorkflowUpdateError::NotFound(_)) => self
                .describe(id)
                .await
                .and_then(|_| Err(FleetError::Refused("the task has ended".to_owned()))),
            Err(error) => Err(FleetError::engine("update the task", &error)),
        }
    }
}

fn submitted_at(memo: &Memo) -> Option<SystemTime> {
    memo.get(SUBMITTED).ok().flatten()
}

/// How a task stands before a worker has begun it.
fn first_status(spec: &TaskSpec, branch: &str, carried: Option<&Carried>) -> TaskStatus {
    TaskStatus {
        task: truncate(&spec.task, TASK_CHARS),
        repository: spec.repository.clone(),
        branch: branch.to_owned(),
        submitter: spec.submitter.clone(),
        submission: spec.submission.clone(),
        session: carried.map(|carried| carried.session.clone()),
        state: rawko_core::machine::State::Idle,
        agent: None,
        iterations: 0,
        head: None,
        is_paused: false,
        question: None,
        outcome: None::<Outcome>,
        merge_request: None,
    }
}

/// What makes a task the same one: its words, its code, its settings; not who submits it, nor with what others.
fn digest(spec: &TaskSpec) -> String {
    let spec = TaskSpec { submitter: String::new(), submission: None, has_budget: false, ..spec.clone() };
    let text = serde_json::to_vec(&spec).unwrap_or_default();
    hex::encode(Sha256::digest(text))
}

fn interaction(id: &str, doing: &'static str, error: &WorkflowInteractionError) -> FleetError {
    match error {
        WorkflowInteractionError::NotFound(_) => FleetError::NoTask(id.to_owned()),
        error => FleetError::engine(doing, error),
    }
}

fn parsed<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, FleetError> {
    serde_json::from_slice(bytes).map_err(|error| FleetError::engine("give the session", &error))
}
