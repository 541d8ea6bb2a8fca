//! Tasks on their way into a fleet: ids that are taken once, and budgets that tasks share.

use std::time::SystemTime;

use rawko_core::machine::State;
use rawko_core::text::truncate;
use temporalio_client::errors::{WorkflowInteractionError, WorkflowStartError};
use temporalio_client::{
    WorkflowExecutionStatus, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions,
};
use temporalio_common::MemoValues;

use crate::budget::{self, BudgetWorkflow, SharedBudget};
use crate::error::FleetError;
use crate::fleet::Fleet;
use crate::kept::{StoredTask, Submission, digest, submitted};
use crate::names::{self, SPEC, STATUS, STORE, SUBMITTED};
use crate::shown::{EngineState, Submitted};
use crate::store::Creation;
use crate::task::{Carried, TaskInput, TaskSpec, TaskStatus};
use crate::tree::branch_of;
use crate::workflow::{TaskWorkflow, priority};
use crate::workspace::is_reserved;

/// The key of the memo that holds the limit of a budget.
const LIMIT: &str = "rawko-limit";
/// Characters of a task in its status.
const TASK_CHARS: usize = 200;

impl Fleet {
    /// Opens a submission with a budget in US dollars, which its tasks share, or lets further tasks share it. For tasks that were
    /// submitted before, nothing changes. A task is charged to it if it says so ([`TaskSpec::has_budget`]). Gives whether the budget
    /// is new: then tasks that turn out to have been submitted before have no part in it ([`leave_budget`](Self::leave_budget)).
    ///
    /// # Errors
    /// [`FleetError::Refused`] if the submission has another budget, or one that ended with the last of its tasks;
    /// [`FleetError::Engine`].
    pub async fn open_budget(
        &self,
        submission: &str,
        usd: f64,
        tasks: &[String],
    ) -> Result<bool, FleetError> {
        let id = budget::workflow_id(submission);
        let mut memo = MemoValues::new();
        memo.insert(LIMIT, usd);
        let options = WorkflowStartOptions::new(self.queue.clone(), id.clone())
            .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
            .id_conflict_policy(WorkflowIdConflictPolicy::Fail)
            .memo(memo)
            .build();
        let budget = SharedBudget::new(usd, tasks.to_vec());
        match self.client.start_workflow(BudgetWorkflow::run, budget, options).await {
            Ok(_) => return Ok(true),
            Err(WorkflowStartError::AlreadyStarted { .. }) => {}
            Err(error) => return Err(FleetError::engine("open the budget", &error)),
        }
        let mut new = Vec::new();
        for task in tasks {
            match self.describe(task).await {
                Err(FleetError::NoTask(_)) => new.push(task.clone()),
                known => drop(known?),
            }
        }
        if new.is_empty() {
            return Ok(false);
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
            Ok(()) => Ok(false),
            Err(WorkflowInteractionError::NotFound(_)) => Err(FleetError::Refused(format!(
                "the budget of the submission `{submission}` has ended with the last of its tasks: name another submission"
            ))),
            Err(error) => Err(failed(error)),
        }
    }

    /// Takes tasks out of a budget that waits for their end.
    ///
    /// # Errors
    /// [`FleetError::Engine`].
    pub async fn leave_budget(&self, submission: &str, tasks: &[String]) -> Result<(), FleetError> {
        let handle = self.client.get_workflow_handle::<BudgetWorkflow>(budget::workflow_id(submission));
        for task in tasks {
            match handle.signal(BudgetWorkflow::leave, task.clone(), Default::default()).await {
                Ok(()) | Err(WorkflowInteractionError::NotFound(_)) => {}
                Err(error) => return Err(FleetError::engine("leave the budget", &error)),
            }
        }
        Ok(())
    }

    /// Submits a task. The same task under the same id is submitted once. The id of a task that was broken before it began is free.
    ///
    /// # Errors
    /// [`FleetError::OtherTask`] if the id is another task's; [`FleetError::Refused`] if its task was broken after it had begun;
    /// [`FleetError::Store`] if the tasks of the fleet are in another store; [`FleetError::Engine`].
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
        let mark = self.mark().await?.clone();
        let mut spec = self.masked(spec);
        let (id, digest) = (spec.id.clone(), digest(&spec));
        // It holds longer than what the engine knows of the task.
        let submission = Submission { digest: digest.clone(), at: SystemTime::now() };
        let bytes =
            serde_json::to_vec(&submission).map_err(|error| FleetError::engine("take the task", &error))?;
        let policy = match self.store.create(&submitted(&id), bytes.into()).await? {
            Creation::Created => WorkflowIdReusePolicy::RejectDuplicate,
            Creation::Existing(_) => match self.taken(&id, &digest, carried.is_some()).await? {
                IdHolder::By(_) => return Ok(Submitted { id, branch, is_new: false }),
                IdHolder::Free => WorkflowIdReusePolicy::AllowDuplicateFailedOnly,
            },
        };
        let mut memo = MemoValues::new();
        memo.insert(STATUS, first_status(&spec, &branch, carried.as_ref()));
        memo.insert(SPEC, digest.clone());
        memo.insert(STORE, mark.clone());
        // Kept by each further run of the workflow, which has a beginning of its own.
        memo.insert(SUBMITTED, submission.at);
        let options = WorkflowStartOptions::new(self.queue.clone(), names::workflow_id(&id))
            .id_reuse_policy(policy)
            .id_conflict_policy(WorkflowIdConflictPolicy::Fail)
            .memo(memo)
            .priority(priority(&spec))
            .static_summary(truncate(spec.task.lines().next().unwrap_or_default(), 100))
            .build();
        spec.carriage.store = Some(mark);
        let has_session = carried.is_some();
        let started =
            self.client.start_workflow(TaskWorkflow::run, TaskInput { spec, carried }, options).await;
        match started {
            Ok(_) => Ok(Submitted { id, branch, is_new: true }),
            Err(WorkflowStartError::AlreadyStarted { .. }) => {
                match self.taken(&id, &digest, has_session).await? {
                    IdHolder::By(_) => Ok(Submitted { id, branch, is_new: false }),
                    IdHolder::Free => Err(FleetError::OtherTask(id)),
                }
            }
            Err(error) => Err(FleetError::engine("take the task", &error)),
        }
    }

    /// The task, if it was submitted already.
    pub(crate) async fn known(&self, spec: &TaskSpec) -> Result<Option<Submitted>, FleetError> {
        let (branch, digest) = (branch_of(&spec.id)?, digest(&self.masked(spec.clone())));
        match self.taken(&spec.id, &digest, true).await? {
            IdHolder::By(id) => Ok(Some(Submitted { id, branch, is_new: false })),
            IdHolder::Free => Ok(None),
        }
    }

    fn masked(&self, spec: TaskSpec) -> TaskSpec {
        TaskSpec { task: self.redactor.text(&spec.task), ..spec }
    }

    /// Whether the task of this digest has the id, or no task has. `has_session` says that it brings a session with it.
    async fn taken(&self, id: &str, digest: &str, has_session: bool) -> Result<IdHolder, FleetError> {
        let begun = || {
            FleetError::Refused(format!(
                "the task `{id}` was broken after it had begun: bring its session here (rawko fleet export {id}), and submit that \
                 under another id (rawko submit --session last --id ID)"
            ))
        };
        let theirs = match self.describe(id).await {
            Ok(description) => {
                let status = self.status(&description.memo()).await;
                if is_broken(description.status(), status.as_ref()) {
                    let has_begun = status.is_some_and(|status| status.session.is_some());
                    return if has_begun { Err(begun()) } else { Ok(IdHolder::Free) };
                }
                description.memo().get(SPEC).ok().flatten().unwrap_or_default()
            }
            Err(FleetError::NoTask(_)) => match StoredTask::of(&self.store, id).await? {
                None => return Ok(IdHolder::Free),
                Some(kept) if kept.is_free() => return Ok(IdHolder::Free),
                // Its submission was cut off before the engine had it.
                Some(kept) if kept.ended.is_none() && has_session => return Ok(IdHolder::Free),
                Some(kept) if kept.ended.is_none() => return Err(begun()),
                Some(kept) => kept.digest().to_owned(),
            },
            Err(error) => return Err(error),
        };
        if theirs == digest {
            Ok(IdHolder::By(id.to_owned()))
        } else {
            Err(FleetError::OtherTask(id.to_owned()))
        }
    }
}

/// Who has an id.
enum IdHolder {
    /// The same task.
    By(String),
    Free,
}

/// Whether the fleet could not carry a task on.
fn is_broken(engine: WorkflowExecutionStatus, status: Option<&TaskStatus>) -> bool {
    let has_outcome = status.is_some_and(|status| status.outcome.is_some());
    matches!(EngineState::of(engine), EngineState::Failed | EngineState::Terminated) && !has_outcome
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
        state: State::Idle,
        agent: None,
        iterations: 0,
        head: None,
        is_paused: false,
        question: None,
        outcome: None,
        merge_request: None,
    }
}
