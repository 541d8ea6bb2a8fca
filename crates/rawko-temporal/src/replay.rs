//! Histories of the engine, replayed: does this version of rawko still derive the same?

use temporalio_client::WorkflowHistory;
use temporalio_sdk::workflow_replayer::{WorkflowReplayError, WorkflowReplayer, WorkflowReplayerOptions};

use crate::codec::converter;
use crate::error::FleetError;
use crate::fleet::Fleet;
use crate::store::SharedStore;
use crate::workflow::TaskWorkflow;

/// Replays a history of a task's workflow, as the engine exports it, without an engine. What it refers to comes from the store.
///
/// # Errors
/// [`FleetError::Refused`] with the first command that this version would not give.
pub async fn replay(history: &[u8], store: &SharedStore) -> Result<(), FleetError> {
    let wrong = |error: &dyn std::fmt::Display| FleetError::engine("read the history", &error.to_string());
    let history = WorkflowHistory::from_json(history).map_err(|error| wrong(&error))?;
    let options = WorkflowReplayerOptions::new()
        .register_workflow::<TaskWorkflow>()
        .map_err(|error| wrong(&error))?
        .data_converter(converter(store))
        .build();
    let replayer = WorkflowReplayer::new(options).map_err(|error| wrong(&error))?;
    match replayer.replay_workflow(history).await {
        Ok(()) => Ok(()),
        Err(WorkflowReplayError::Replay(failure)) => {
            Err(FleetError::Refused(format!("this version derives something else: {failure}")))
        }
        Err(error) => Err(wrong(&error)),
    }
}

impl Fleet {
    /// The history of a task's newest run, for [`replay`].
    ///
    /// # Errors
    /// [`FleetError::NoTask`], [`FleetError::Engine`].
    pub async fn history(&self, id: &str) -> Result<Vec<u8>, FleetError> {
        let history = self.handle(id).fetch_history(Default::default());
        history.to_json().await.map_err(|error| FleetError::engine("give the history", &error))
    }
}
