//! What a run looks like between two events, for a program that shows its present state.

use rawko_core::facts::Verification;
use rawko_core::machine::{Plan, State};
use rawko_core::session::{Session, SoFar, Status};
use rawko_core::timeline::Timeline;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The present state of a run: see [`Run::snapshots`](crate::Run::snapshots).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Snapshot {
    /// The session's id.
    pub session: String,
    /// The machine's state.
    pub state: State,
    /// The agent that works, or worked last; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The plan, with what the working agent has changed; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Executions that the session has begun.
    pub iteration: u32,
    /// What counts for the task.
    pub spend: SoFar,
    /// The last verification; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<SeenChecks>,
    /// Whether the run is paused.
    pub paused: bool,
    /// How the run ended; absent while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// The last verification of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SeenChecks {
    /// What rawko ran, and how it ended.
    pub verification: Verification,
    /// Whether nothing was written since that could change it.
    pub current: bool,
}

impl Snapshot {
    /// Of a session after its last event.
    pub(crate) fn of(id: &str, session: &Session) -> Self {
        let agent = session.context().map(|context| context.current_mode.clone());
        let checks = session
            .last_verification()
            .map(|(verification, current)| SeenChecks { verification: verification.clone(), current });
        Self {
            session: id.to_owned(),
            state: session.state(),
            agent: agent.filter(|agent| !agent.is_empty()),
            plan: session.plan(),
            iteration: session.executions(),
            spend: session.so_far().unwrap_or_default(),
            checks,
            paused: session.paused_since().is_some(),
            status: session.outcome().map(|outcome| outcome.status),
        }
    }
}

/// Where a run leaves its newest snapshot.
#[derive(Debug)]
pub(crate) struct Snapshots(watch::Sender<Snapshot>);

impl Snapshots {
    /// Of a run that goes on after `session`.
    pub(crate) fn new(id: &str, session: &Session) -> Self {
        Self(watch::Sender::new(Snapshot::of(id, session)))
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Snapshot> {
        self.0.subscribe()
    }

    /// Leaves the newest, if it differs and anyone looks.
    pub(crate) fn update(&self, id: &str, timeline: &Timeline) {
        if self.0.receiver_count() == 0 {
            return;
        }
        let newest = Snapshot::of(id, timeline.session());
        self.0.send_if_modified(|latest| {
            let differs = *latest != newest;
            *latest = newest;
            differs
        });
    }
}
