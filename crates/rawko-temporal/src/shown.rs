//! Tasks as their submitters see them.

use std::time::SystemTime;

use rawko_core::session::{Outcome, Status};
use serde::{Deserialize, Serialize};
use temporalio_client::WorkflowExecutionStatus;
use temporalio_common::protos::temporal::api::enums::v1::PendingActivityState;
use temporalio_common::protos::temporal::api::workflow::v1::PendingActivityInfo;

use crate::task::TaskStatus;

/// The result of submitting one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Submitted {
    /// The task's id.
    pub id: String,
    /// The branch that its work will be on.
    pub branch: String,
    /// Whether it begins now. It does not if the same task was submitted before.
    pub is_new: bool,
}

/// How the engine sees a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineState {
    /// It is under way, or waits for a worker.
    Running,
    /// It ended as verified or claimed.
    Completed,
    /// It ended as failed or limited, or could not be carried on.
    Failed,
    /// It was cancelled, or given to a process that drives it itself.
    Cancelled,
    /// It was ended by the engine, from outside rawko.
    Terminated,
}

impl EngineState {
    /// Its name in output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
        }
    }

    /// How the engine sees a task that ended so.
    pub(crate) fn of_outcome(outcome: &Outcome) -> Self {
        match outcome.status {
            Status::Verified | Status::Claimed => Self::Completed,
            Status::Cancelled => Self::Cancelled,
            Status::Failed | Status::Limited => Self::Failed,
        }
    }

    pub(crate) fn of(status: WorkflowExecutionStatus) -> Self {
        match status {
            WorkflowExecutionStatus::Completed => Self::Completed,
            WorkflowExecutionStatus::Failed => Self::Failed,
            WorkflowExecutionStatus::Canceled => Self::Cancelled,
            WorkflowExecutionStatus::Terminated | WorkflowExecutionStatus::TimedOut => Self::Terminated,
            _ => Self::Running,
        }
    }
}

/// A task of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetTask {
    /// Its id.
    pub id: String,
    /// How the engine sees it.
    pub engine: EngineState,
    /// When it was submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_at: Option<SystemTime>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<SystemTime>,
    /// Why it ended without an outcome, where it could not be carried on; or, while it is under way, what went wrong with the last
    /// attempt at what it waits for. A list does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What no worker has taken yet. A list does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Waiting>,
    /// How it stands.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskStatus>,
}

/// A part of a task that is ready for a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The queue that it is in. `rawko worker` says which queues a worker takes from: steps, verifications, and the model calls of
    /// each of its providers.
    pub queue: String,
    /// Since when.
    pub since: SystemTime,
}

impl Waiting {
    pub(crate) fn of(activity: &PendingActivityInfo) -> Option<Self> {
        if activity.state() != PendingActivityState::Scheduled {
            return None;
        }
        let queue = activity.activity_options.as_ref()?.task_queue.as_ref()?.name.clone();
        Some(Self { queue, since: SystemTime::try_from(activity.scheduled_time?).ok()? })
    }
}
