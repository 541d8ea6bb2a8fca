//! The handle of a run: watch it, steer it, stop it, wait for its end.

pub(crate) mod continuing;
pub(crate) mod decision_cache;
pub(crate) mod denials;
pub(crate) mod driver;
pub(crate) mod effects;
pub(crate) mod event;
pub(crate) mod followed;
pub(crate) mod hub;
pub(crate) mod launch;
pub(crate) mod notify;
pub(crate) mod perform;
pub(crate) mod raised_limits;
pub(crate) mod recorded;
pub(crate) mod reload;
pub(crate) mod remembering;
pub(crate) mod resume;
pub(crate) mod snapshot;
pub(crate) mod waiting;

use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rawko_core::session::Outcome;
use tokio::sync::watch;

use crate::channel::cancel::Unfinished;
use crate::channel::control::{RunControl, Signals};
use crate::channel::holder::HolderMark;
use crate::error::Error;
use crate::isolation::{IsolatedTree, on_threads_of};
use crate::run::driver::{Driver, Start};
use crate::run::event::RunEvent;
use crate::run::hub::{Hub, RunEvents};
use crate::run::notify::Notifications;
use crate::run::snapshot::{Snapshot, Snapshots};
use crate::telemetry::TelemetryEnd;

/// A run that has been prepared. Nothing happens until it is awaited: the run advances inside that await, on the
/// caller's Tokio runtime.
///
/// Dropping the run, or the future that carries it on, ends it, and blocks the thread until its commands have ended: a
/// session that has begun is closed as cancelled, and one that has not leaves nothing. A session that was to be resumed stays
/// as it was until the run is awaited. [`RunControl::suspend`] stops a run that is to be resumed.
pub struct Run {
    pub(crate) id: String,
    pub(crate) journal: PathBuf,
    pub(crate) isolation: Option<Arc<IsolatedTree>>,
    pub(crate) no_memories: Option<PathBuf>,
    pub(crate) signals: Signals,
    pub(crate) hub: Hub,
    pub(crate) snapshots: Snapshots,
    pub(crate) start: Start,
    pub(crate) started: RunEvent,
    pub(crate) telemetry: Option<TelemetryEnd>,
    pub(crate) mark: Option<HolderMark>,
    pub(crate) notifications: Option<Notifications>,
    pub(crate) driver: Box<dyn FnOnce((Hub, Snapshots)) -> Driver + Send>,
    /// Dropped last: the driver holds the journal's lock.
    pub(crate) unfinished: Unfinished,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("id", &self.id).field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl Run {
    /// The session's id.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.id
    }

    /// Where the journal is.
    #[must_use]
    pub fn journal_path(&self) -> &Path {
        &self.journal
    }

    /// The copy of the project that the run works in, where it has a tree of its own.
    #[must_use]
    pub fn tree(&self) -> Option<&Path> {
        self.isolation.as_ref().map(|tree| tree.copy())
    }

    /// The folder in which runs would keep what they learn, where it is not there and nothing is configured: then this run
    /// learns nothing.
    #[must_use]
    pub fn missing_memories(&self) -> Option<&Path> {
        self.no_memories.as_deref()
    }

    /// The events of the run. Every call gives a new watcher; all of them see everything from the start.
    pub fn events(&mut self) -> RunEvents {
        self.hub.watch()
    }

    /// The present state of the run, after each event that changed it. The last one has the run's status, unless the run was
    /// suspended or broke; then no more follows.
    #[must_use]
    pub fn snapshots(&self) -> watch::Receiver<Snapshot> {
        self.snapshots.subscribe()
    }

    /// The notifications of the run, if any are configured: to wait for them after its end, so that none is lost.
    pub fn take_notifications(&mut self) -> Option<Notifications> {
        self.notifications.take()
    }

    /// The means to steer and stop the run from elsewhere.
    #[must_use]
    pub fn control(&self) -> RunControl {
        RunControl::new(self.signals.clone())
    }

    /// The means to wait until the run's telemetry is sent, where any is. Without it the last spans are lost if the process ends
    /// with the run. Gives it once.
    pub fn telemetry(&mut self) -> Option<TelemetryEnd> {
        self.telemetry.take()
    }

    /// Runs the task to its end.
    ///
    /// # Errors
    /// [`Error::Journal`] where the journal cannot be written any more: the run then stops at once, because what is
    /// not recorded is not done. [`Error::Suspended`] after [`RunControl::suspend`], [`Error::Panicked`] after a panic of rawko
    /// or of a function that it was given, [`Error::Setup`] without a Tokio runtime that has timers. Everything else that goes
    /// wrong inside the run is in the [`Outcome`].
    pub async fn finish(self) -> Result<Outcome, Error> {
        check_runtime()?;
        match self.isolation.clone().filter(|tree| tree.within().is_elsewhere()) {
            Some(tree) => on_threads_of(tree, self.drive()).await,
            None => self.drive().await,
        }
    }

    async fn drive(self) -> Result<Outcome, Error> {
        let mut unfinished = self.unfinished;
        unfinished.begin(&self.journal);
        // While the run lasts, `cancel` finds this process by it.
        let _mark = self.mark;
        let driver = (self.driver)((self.hub, self.snapshots));
        let result = driver.drive(self.start, self.started).await;
        unfinished.end();
        result
    }
}

fn check_runtime() -> Result<(), Error> {
    let lacks = |what: &str| Error::Setup {
        message: format!("the run is awaited {what}"),
        hint: "await it on a Tokio runtime built with `enable_all()`, as `#[tokio::main]` builds it"
            .to_owned(),
    };
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(lacks("outside of a Tokio runtime"));
    }
    // Nothing else says whether there are timers.
    match std::panic::catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))) {
        Ok(()) => Ok(()),
        Err(_) => Err(lacks("on a Tokio runtime without timers")),
    }
}

impl IntoFuture for Run {
    type Output = Result<Outcome, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.finish())
    }
}
