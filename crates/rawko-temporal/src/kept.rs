//! What the store keeps of a task beside its session, for longer than the engine does: that its id is taken, and how it ended.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::FleetError;
use crate::shown::{EngineState, FleetTask};
use crate::store::SharedStore;
use crate::task::{Carriage, TaskSpec, TaskStatus};

/// A task that was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Submission {
    /// What makes it the same one.
    pub(crate) digest: String,
    pub(crate) at: SystemTime,
}

/// A task that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FinishedTask {
    /// What makes it the same one.
    pub(crate) digest: String,
    pub(crate) at: SystemTime,
    pub(crate) engine: EngineState,
    pub(crate) status: TaskStatus,
}

/// What the store has of a task that the engine does not know.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredTask {
    pub(crate) submission: Submission,
    pub(crate) ended: Option<FinishedTask>,
    pub(crate) has_session: bool,
}

impl StoredTask {
    /// `None` if it was never submitted.
    pub(crate) async fn of(store: &SharedStore, task: &str) -> Result<Option<Self>, FleetError> {
        let Some(submission) = read(store, &submitted(task)).await? else { return Ok(None) };
        let ended = read(store, &closed(task)).await?;
        let has_session = store.get(&header(task)).await?.is_some();
        Ok(Some(Self { submission, ended, has_session }))
    }

    /// Whether another task may have its id: it has not begun, and the engine knows nothing of it.
    pub(crate) fn is_free(&self) -> bool {
        self.ended.is_none() && !self.has_session
    }

    /// What makes it the same one.
    pub(crate) fn digest(&self) -> &str {
        self.ended.as_ref().map_or(&self.submission.digest, |ended| &ended.digest)
    }

    /// The task, as far as it is known.
    pub(crate) fn shown(self, id: &str) -> FleetTask {
        let failure = self.ended.is_none().then(|| {
            "the engine does not know it any more, and the store has no end of it: it was broken, ended from outside rawko, or never begun"
                .to_owned()
        });
        FleetTask {
            id: id.to_owned(),
            engine: self.ended.as_ref().map_or(EngineState::Terminated, |ended| ended.engine),
            submitted_at: Some(self.submission.at),
            ended_at: self.ended.as_ref().map(|ended| ended.at),
            failure,
            waits_for: None,
            status: self.ended.map(|ended| ended.status),
        }
    }
}

/// The key that says that a task's id is taken.
pub(crate) fn submitted(task: &str) -> String {
    format!("tasks/{task}/submitted")
}

/// The key of the header of a task's journal.
pub(crate) fn header(task: &str) -> String {
    format!("tasks/{task}/header")
}

async fn read<T: serde::de::DeserializeOwned>(
    store: &SharedStore,
    key: &str,
) -> Result<Option<T>, FleetError> {
    let found = store.get(key).await?;
    let parsed = found.map(|bytes| serde_json::from_slice(&bytes)).transpose();
    parsed.map_err(|error| FleetError::engine("give the task", &format!("{key} in the store: {error}")))
}

/// What makes a task the same one: its words, its code, its settings; not who submits it, nor with what others, nor where it is kept.
pub(crate) fn digest(spec: &TaskSpec) -> String {
    let carriage = Carriage { store: None, ..spec.carriage.clone() };
    let spec =
        TaskSpec { submitter: String::new(), submission: None, has_budget: false, carriage, ..spec.clone() };
    let text = serde_json::to_vec(&spec).unwrap_or_default();
    hex::encode(Sha256::digest(text))
}

/// The key that says that a task is over, and how.
pub(crate) fn closed(task: &str) -> String {
    format!("tasks/{task}/closed")
}
