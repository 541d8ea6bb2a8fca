//! Keeping the tree before an execution first changes it, and bringing it back (`spec/sessions.md`; issue "Sessions
//! that survive anything"). The user's index, branch and stash are never touched, and no code of the repository runs.

use std::path::{Path, PathBuf};

/// The checkpoints of one session.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    project: PathBuf,
    directory: PathBuf,
    session: String,
}

/// Why a tree could not be kept or brought back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Git could not be run, or refused.
    #[error("git {doing}: {message}")]
    Git {
        /// What it was asked to do.
        doing: &'static str,
        /// What it said.
        message: String,
    },
}

impl Checkpoints {
    /// The checkpoints of `session`, whose directory is `directory`, for the tree below `project`.
    #[must_use]
    pub fn new(project: &Path, directory: &Path, session: &str) -> Self {
        Self { project: project.to_owned(), directory: directory.to_owned(), session: session.to_owned() }
    }
}

impl Checkpoints {
    /// Keeps the tree as it is now, and names what was kept. Takes as long as git needs; call it off the runtime's thread.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn take(&self, iteration: u32) -> Result<String, CheckpointError> {
        let _ = (iteration, &self.project, &self.directory, &self.session);
        Err(CheckpointError::Git { doing: "is not asked yet", message: "in the making".to_owned() })
    }
}
