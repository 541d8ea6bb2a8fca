//! The client's side of a fleet: see how tasks stand, answer, steer and cancel. `submission` gives it tasks.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::StreamExt as _;
use rawko::EventRedactor;
use rawko::journal::JournalHeader;
use rawko_core::session::{Event, Override, Stamped};
use temporalio_client::errors::{WorkflowGetResultError, WorkflowInteractionError, WorkflowUpdateError};
use temporalio_client::{
    Client, WorkflowCancelOptions, WorkflowExecutionStatus, WorkflowHandle, WorkflowListOptions,
};
use temporalio_common::Memo;
use temporalio_common::protos::temporal::api::failure::v1::failure::FailureInfo;
use temporalio_common::protos::temporal::api::workflow::v1::PendingActivityInfo;
use tokio::sync::OnceCell;

use crate::engine::EngineAddress;
use crate::error::FleetError;
use crate::failed::HANDED_BACK;
use crate::kept::{StoredTask, header};
use crate::names::{self, STATUS, STORE, SUBMITTED};
use crate::shown::{EngineState, FleetTask, Waiting};
use crate::store::SharedStore;
use crate::task::{ApprovalAnswer, TaskStatus};
use crate::tree::branch_of;
use crate::workflow::{NOT_READY, TaskWorkflow};

/// How long a worker may take to answer an update.
const UPDATE: Duration = Duration::from_secs(20);
/// Between two attempts at it.
const AGAIN: Duration = Duration::from_millis(200);

/// A fleet, as its users see it.
#[derive(Clone)]
pub struct Fleet {
    pub(crate) client: Client,
    pub(crate) store: SharedStore,
    pub(crate) queue: String,
    /// Takes secrets out of what is said to a task, before it leaves this process.
    pub(crate) redactor: Arc<EventRedactor>,
    /// The mark of the store, once it was checked that the tasks are there.
    mark: Arc<OnceCell<String>>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Fleet {
    /// Connects to the fleet whose workers serve `queue` and share `store`. All messages to it pass through `redactor`.
    ///
    /// # Errors
    /// [`FleetError::Settings`], [`FleetError::Unreachable`].
    pub async fn connect(
        engine: &EngineAddress,
        store: SharedStore,
        queue: &str,
        redactor: Arc<EventRedactor>,
    ) -> Result<Self, FleetError> {
        let client = engine.connect(&store).await?;
        Ok(Self { client, store, queue: queue.to_owned(), redactor, mark: Arc::default() })
    }

    /// The mark of the store, which is made with the first task. A store without it, or with another one, is not where the tasks
    /// under way are kept.
    pub(crate) async fn mark(&self) -> Result<&String, FleetError> {
        let find = || async {
            if let Some(wanted) = mark_of_tasks(&self.client, &self.queue).await? {
                self.store.check_mark(&wanted).await?;
            }
            Ok(self.store.marked().await?)
        };
        self.mark.get_or_try_init(find).await
    }

    /// The store of the fleet.
    #[must_use]
    pub fn store(&self) -> &SharedStore {
        &self.store
    }

    /// All tasks of this fleet, the newest first. No worker is needed for it.
    ///
    /// # Errors
    /// [`FleetError::Engine`].
    pub async fn list(&self) -> Result<Vec<FleetTask>, FleetError> {
        let mut found = self.client.list_workflows(of_queue(&self.queue), Default::default());
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

    /// One task. No worker is needed for it. What the engine does not know any more comes from the store.
    ///
    /// # Errors
    /// [`FleetError::NoTask`], [`FleetError::Engine`]; [`FleetError::Store`] if the task is in another store.
    pub async fn show(&self, id: &str) -> Result<FleetTask, FleetError> {
        let description = match self.describe(id).await {
            Err(FleetError::NoTask(id)) => {
                branch_of(&id)?;
                let kept = StoredTask::of(&self.store, &id).await?;
                return kept.map(|kept| kept.shown(&id)).ok_or(FleetError::NoTask(id));
            }
            description => description?,
        };
        if let Some(mark) = store_of(&description.memo()) {
            self.store.check_mark(&mark).await?;
        }
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
            task.failure = pending.iter().find_map(last_failure);
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
        let options = WorkflowCancelOptions::builder().reason(self.redactor.text(reason)).build();
        self.handle(id).cancel(options).await.map_err(|error| interaction(id, "cancel the task", &error))
    }

    /// Answers the question of a task. Gives the question's digest.
    ///
    /// # Errors
    /// [`FleetError::Refused`] if no such question waits; [`FleetError::NoWorker`]; [`FleetError::NoTask`].
    pub async fn approve(&self, id: &str, answer: ApprovalAnswer) -> Result<String, FleetError> {
        let handle = self.handle(id);
        let answer = ApprovalAnswer { by: self.redactor.text(&answer.by), ..answer };
        let approve = || handle.execute_update(TaskWorkflow::approve, answer.clone(), Default::default());
        self.updated(id, approve).await
    }

    /// Sends a command to a task.
    ///
    /// # Errors
    /// [`FleetError::Refused`] if it would change nothing; [`FleetError::NoWorker`]; [`FleetError::NoTask`].
    pub async fn steer(&self, id: &str, command: Override) -> Result<(), FleetError> {
        let handle = self.handle(id);
        let event = self.redactor.event(Event::OverrideRequested { command, request: None });
        let Event::OverrideRequested { command, .. } = event else { return Ok(()) };
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
        let found = self.store.get(&header(id)).await?;
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

    pub(crate) async fn describe(
        &self,
        id: &str,
    ) -> Result<temporalio_client::WorkflowExecutionDescription, FleetError> {
        let described = self.handle(id).describe(Default::default()).await;
        described.map_err(|error| interaction(id, "find the task", &error))
    }

    pub(crate) async fn status(&self, memo: &Memo) -> Option<TaskStatus> {
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

fn store_of(memo: &Memo) -> Option<String> {
    memo.get(STORE).ok().flatten()
}

/// The mark of the store that the tasks under way are in; `None` if there are none.
pub(crate) async fn mark_of_tasks(client: &Client, queue: &str) -> Result<Option<String>, FleetError> {
    let query = format!("{} AND ExecutionStatus = 'Running'", of_queue(queue));
    let options = WorkflowListOptions::builder().limit(1).build();
    let found = client.list_workflows(query, options).next().await;
    let found = found.transpose().map_err(|error| FleetError::engine("list the tasks", &error))?;
    Ok(found.and_then(|execution| store_of(&execution.memo())))
}

/// The query for the tasks of a queue.
fn of_queue(queue: &str) -> String {
    format!("WorkflowType = 'rawko.task' AND TaskQueue = '{}'", queue.replace('\'', ""))
}

/// What went wrong with the last attempt at something that is under way.
fn last_failure(activity: &PendingActivityInfo) -> Option<String> {
    let failure = activity.last_failure.as_ref()?;
    let handed_back = match &failure.failure_info {
        Some(FailureInfo::ApplicationFailureInfo(info)) => info.r#type == HANDED_BACK,
        _ => false,
    };
    Some(match handed_back {
        true => format!(
            "handed back by the worker {}, it waits for one that can do it: {}",
            activity.last_worker_identity, failure.message
        ),
        false => failure.message.clone(),
    })
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
