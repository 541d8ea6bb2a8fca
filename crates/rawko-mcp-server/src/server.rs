//! What all requests share.

use std::sync::Arc;

use rmcp::task_manager::TaskManager;
use tokio::sync::Semaphore;

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
            places: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    /// Ends all runs of this process so that they can be resumed, and gives the ids of their sessions. Nothing is begun
    /// any more.
    pub async fn end(&self) -> Vec<String> {
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
