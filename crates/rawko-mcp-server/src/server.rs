//! What all requests share.

use std::sync::Arc;

use rmcp::task_manager::TaskManager;
use tokio::sync::{Semaphore, watch};

use crate::follow::SessionWatchers;
use crate::project::{ServedProject, ToolProblem};
use crate::runs::ServedRuns;

/// Calls that read files or wait for processes at a time.
const AT_A_TIME: usize = 8;

/// The server of one project. Cheap to clone; all clones are the same server.
#[derive(Clone)]
pub struct RawkoServer {
    pub(crate) project: Arc<ServedProject>,
    pub(crate) runs: ServedRuns,
    pub(crate) watchers: Arc<SessionWatchers>,
    pub(crate) tasks: TaskManager,
    closing: watch::Sender<bool>,
    places: Arc<Semaphore>,
}

impl RawkoServer {
    /// A server of this project that has begun nothing.
    #[must_use]
    pub fn new(project: ServedProject) -> Self {
        let runs = ServedRuns::new(Arc::clone(&project.in_words));
        Self {
            project: Arc::new(project),
            runs,
            watchers: Arc::default(),
            tasks: TaskManager::new(),
            closing: watch::Sender::new(false),
            places: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    /// Says that the server ends, so that calls wait for nothing any more. The end of a client's input says so by itself.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Waits until the server ends.
    pub async fn closed(&self) {
        // This server keeps the sender.
        let _ = self.closing.subscribe().wait_for(|is_closing| *is_closing).await;
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Ends all runs of this process so that they can be resumed, and gives the ids of the sessions that have not ended.
    /// Nothing is begun any more.
    pub async fn end(&self) -> Vec<String> {
        self.close();
        self.tasks.shutdown();
        self.runs.end_all().await
    }

    /// Does what takes files or processes off the thread that serves the others.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ToolProblem> + Send + 'static,
    ) -> Result<T, ToolProblem> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let server = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            let _place = place;
            work(&server)
        });
        work.await.unwrap_or_else(|_| {
            Err(ToolProblem::new(
                "the call failed inside rawko",
                "try it in a terminal, and report what it says",
            ))
        })
    }
}

impl std::fmt::Debug for RawkoServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawkoServer").field("project", &self.project).finish_non_exhaustive()
    }
}
