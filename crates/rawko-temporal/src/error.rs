//! The errors of a fleet, for its users.

use crate::store::StoreError;
use crate::tree::TreeError;

/// An error of a fleet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The settings of the engine's address are wrong.
    #[error("the address of the engine is not usable: {0}")]
    Settings(String),
    /// The engine does not answer.
    #[error("no Temporal server answers at {address}: {message}")]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// What was found there.
        message: String,
    },
    /// There is no such task.
    #[error("the fleet has no task `{0}`")]
    NoTask(String),
    /// A task of that id is there already, and it is another one.
    #[error("the fleet has a task `{0}` already, with other words, another repository or other settings")]
    OtherTask(String),
    /// The workflow refused it.
    #[error("{0}")]
    Refused(String),
    /// No worker took it up in time.
    #[error("no worker answered within {seconds} s: is one running on the queue `{queue}`?")]
    NoWorker {
        /// How long it was waited for.
        seconds: u64,
        /// The queue that was asked.
        queue: String,
    },
    /// The engine said something unexpected.
    #[error("the engine could not {doing}: {message}")]
    Engine {
        /// What was tried.
        doing: &'static str,
        /// What it said.
        message: String,
    },
    /// What the workers share.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The repository.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Git in the user's project.
    #[error("git {arguments}: {message}")]
    Git {
        /// What git was asked.
        arguments: String,
        /// What it said.
        message: String,
    },
    /// A session.
    #[error(transparent)]
    Session(#[from] rawko::Error),
    /// The journal of a session.
    #[error(transparent)]
    Journal(#[from] rawko::journal::JournalError),
    /// A file.
    #[error("cannot {doing} {path}: {source}")]
    File {
        /// What was tried.
        doing: &'static str,
        /// Which one.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
}

impl FleetError {
    /// What to try.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Settings(_) => "set --address, `fleet.address` in the configuration, or TEMPORAL_ADDRESS",
            Self::Unreachable { .. } => "start one for a first try: rawko fleet up",
            Self::NoTask(_) => "`rawko fleet list` shows all tasks",
            Self::OtherTask(_) => "choose another --id, or leave it out",
            Self::NoWorker { .. } => "start one: rawko worker",
            Self::Refused(_)
            | Self::Engine { .. }
            | Self::Store(_)
            | Self::Tree(_)
            | Self::Git { .. }
            | Self::Session(_)
            | Self::Journal(_)
            | Self::File { .. } => return None,
        })
    }

    pub(crate) fn engine(doing: &'static str, error: &impl ToString) -> Self {
        Self::Engine { doing, message: error.to_string() }
    }
}
