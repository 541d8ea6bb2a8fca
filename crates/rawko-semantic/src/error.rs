//! What can go wrong with the model and its cache, and what to do then.

use std::path::PathBuf;

/// Why there is no similarity of meaning. Nothing else depends on it: memories are matched by words all the same.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the model is not there.
    #[error(
        "the model for memories' meaning is not there: no {file} in {}\n  try: scripts/fetch-model.sh, or memory.semantic: false",
        directory.display()
    )]
    Missing {
        /// Where it was looked for.
        directory: PathBuf,
        /// What is missing.
        file: &'static str,
    },
    /// A file of the model cannot be read.
    #[error("{}: {source}\n  try: make it readable, or fetch it again with scripts/fetch-model.sh", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of the model holds something else.
    #[error("{} is not what belongs there: {why}\n  try: fetch it again with scripts/fetch-model.sh", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The arithmetic failed.
    #[error("the model could not embed a text: {0}\n  try: fetch it again with scripts/fetch-model.sh")]
    Embedding(String),
    /// The cache of vectors cannot be written.
    #[error("the cache of vectors {} could not be written: {source}\n  try: make its folder writable; it is safe to delete", path.display())]
    Cache {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
