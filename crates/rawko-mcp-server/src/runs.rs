//! The runs of this process. They belong to the server and not to a request: a client that goes away in a call leaves them
//! alone, and the end of the server suspends them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rawko::{Notifications, Run, RunControl, Snapshot};
use tokio::sync::watch;

use crate::ending::suspend;
use crate::project::{ErrorWords, ToolProblem};

/// How many broken runs are remembered.
const BROKEN: usize = 16;
/// How long the last spans of a run may take.
const LAST_SPANS: std::time::Duration = std::time::Duration::from_secs(2);
/// How long the hooks of a session that has ended may keep the next run waiting.
const LAST_HOOKS: std::time::Duration = std::time::Duration::from_secs(15);

/// A run of this process.
pub(crate) struct ServedRun {
    pub(crate) control: RunControl,
    /// Whether nothing of it runs any more, its hooks included.
    pub(crate) ended: watch::Receiver<bool>,
    /// The last one has the status of its end, once the journal has it.
    snapshots: watch::Receiver<Snapshot>,
}

/// The runs of this process, by the ids of their sessions.
#[derive(Clone)]
pub(crate) struct ServedRuns {
    registry: Arc<Mutex<RunRegistry>>,
    in_words: ErrorWords,
}

#[derive(Default)]
struct RunRegistry {
    /// Whether the server ends, so that nothing is begun any more.
    is_closed: bool,
    runs: HashMap<String, ServedRun>,
    /// Why runs broke off: what no journal could take.
    broken: VecDeque<(String, ToolProblem)>,
}

impl ServedRuns {
    pub(crate) fn new(in_words: ErrorWords) -> Self {
        Self { registry: Arc::default(), in_words }
    }

    /// Carries out the run beside everything else. To be called on the server's runtime.
    pub(crate) fn begin(&self, mut run: Run) -> Result<(), ToolProblem> {
        let id = run.session_id().to_owned();
        let (control, snapshots) = (run.control(), run.snapshots());
        let (notifications, telemetry) = (run.take_notifications(), run.telemetry());
        let (has_ended, ended) = watch::channel(false);
        let mut registry = self.lock();
        if registry.is_closed {
            return Err(ToolProblem::new("the server is ending", "start it again, and then the task"));
        }
        let (runs, session) = (self.clone(), id.clone());
        tokio::spawn(async move {
            let result = run.await;
            runs.ended(&session, result.err().map(|error| (runs.in_words)(error)));
            let _ = has_ended.send(true);
            // A slow program or collector holds nothing up but the end of this task.
            let last = tokio::task::spawn_blocking(move || {
                let _ = notifications.map(Notifications::finish);
                let _ = telemetry.and_then(|end| end.wait(LAST_SPANS));
            });
            let _ = last.await;
        });
        registry.runs.insert(id, ServedRun { control, ended, snapshots });
        Ok(())
    }

    fn ended(&self, session: &str, broken: Option<ToolProblem>) {
        let mut registry = self.lock();
        registry.runs.remove(session);
        if let Some(problem) = broken {
            registry.broken.push_back((session.to_owned(), problem));
            if registry.broken.len() > BROKEN {
                registry.broken.pop_front();
            }
        }
    }

    /// Waits for runs whose sessions have ended and whose last hooks still run: until then they keep session and folder.
    pub(crate) async fn settled(&self) {
        let ending: Vec<_> = {
            let registry = self.lock();
            let has_end = |run: &&ServedRun| run.snapshots.borrow().status.is_some();
            let ending = registry.runs.values().filter(has_end);
            ending.map(|run| (run.ended.clone(), run.snapshots.clone())).collect()
        };
        let all = async {
            for (mut ended, mut snapshots) in ending {
                tokio::select! {
                    _ = ended.wait_for(|has_ended| *has_ended) => {}
                    // It has just begun another task of its session.
                    Ok(_) = snapshots.wait_for(|last| last.status.is_none()) => {}
                }
            }
        };
        let _ = tokio::time::timeout(LAST_HOOKS, all).await;
    }

    /// Cancels the session, if this process runs it, and gives what says when it has ended.
    pub(crate) fn cancel(&self, session: &str, reason: &str) -> Option<watch::Receiver<bool>> {
        let registry = self.lock();
        let run = registry.runs.get(session)?;
        run.control.cancel(reason);
        Some(run.ended.clone())
    }

    /// Why the session broke off, if it did in this process.
    pub(crate) fn broken(&self, session: &str) -> Option<ToolProblem> {
        let registry = self.lock();
        registry.broken.iter().rev().find(|(id, _)| id == session).map(|(_, problem)| problem.clone())
    }

    /// Suspends all runs, so that they can be resumed, and begins none any more. Gives the ids of those whose sessions have
    /// not ended: of others, the last hooks alone still ran.
    pub(crate) async fn end_all(&self) -> Vec<String> {
        let runs: Vec<ServedRun> = {
            let mut registry = self.lock();
            registry.is_closed = true;
            registry.runs.drain().map(|(_, run)| run).collect()
        };
        let last: Vec<_> = runs.iter().map(|run| run.snapshots.clone()).collect();
        if !runs.is_empty() {
            suspend(runs).await;
        }
        let interrupted = last.iter().filter_map(|last| {
            let last = last.borrow();
            last.status.is_none().then(|| last.session.clone())
        });
        interrupted.collect()
    }

    fn lock(&self) -> MutexGuard<'_, RunRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
