//! What can go wrong with the model and its cache, and what to do then.

use std::path::PathBuf;

/// Why there is no similarity of meaning. Nothing else depends on it: memories are matched by words all the same.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the model is not there.
    #[error("the model for the meaning of memories is not there: no {file} in {}", directory.display())]
    Missing {
        /// Where it was looked for.
        directory: PathBuf,
        /// What is missing.
        file: &'static str,
    },
    /// A file of the model cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the model holds something else.
    #[error("{} is not what belongs there: {why}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The arithmetic failed.
    #[error("the model could not embed a text: {0}")]
    Embedding(String),
    /// The cache of vectors cannot be written.
    #[error("the cache of vectors {} could not be written: {source}", path.display())]
    Cache {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// What to try.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "fetch it with scripts/fetch-model.sh, or set `memory.semantic: false`",
            Self::Unreadable { .. } => "make it readable, or fetch it again with scripts/fetch-model.sh",
            Self::Damaged { .. } | Self::Embedding(_) => {
                "delete its folder and fetch it again with scripts/fetch-model.sh"
            }
            Self::Cache { .. } => "make its folder writable; the file itself is safe to delete",
        }
    }
}
