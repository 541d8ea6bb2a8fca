//! What the program that serves says of itself: how a folder becomes a project, and how errors are explained.

use std::path::{Path, PathBuf};

use rawko::RawkoBuilder;

use super::fault::AcpFault;

type OfFolder<T> = Box<dyn Fn(&Path) -> Result<T, AcpFault> + Send + Sync>;
type Explain = Box<dyn Fn(rawko::Error, &Path) -> AcpFault + Send + Sync>;

/// The program that serves.
pub struct AgentHost {
    /// Its version, which clients show.
    pub version: String,
    /// Whose sessions are listed where the client names no folder.
    pub folder: PathBuf,
    /// The project that a folder belongs to.
    pub project: OfFolder<PathBuf>,
    /// A builder for work in a folder, with everything but what the client gives.
    pub builder: OfFolder<RawkoBuilder>,
    /// The words for an error, about work in this folder.
    pub explain: Explain,
}

impl std::fmt::Debug for AgentHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentHost").field("folder", &self.folder).finish_non_exhaustive()
    }
}
