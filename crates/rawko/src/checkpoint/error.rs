//! Why a tree could not be kept, compared or restored.

use std::path::{Path, PathBuf};

/// An error of the checkpoints. The user's index, branch and stash are as they were when one occurs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Git could not be run, or refused.
    #[error("git {doing}: {message}")]
    Git {
        /// What it was asked to do.
        doing: &'static str,
        /// Its message.
        message: String,
    },
    /// There is no git program.
    #[error("git is not installed, and rawko keeps the states of the project's files with it: install git")]
    NoGit,
    /// Git was ended because it took too long.
    #[error(
        "git {doing}: ended after {seconds} s: a FIFO or a device where a .gitignore should be, \
         or a slow disk, makes it wait"
    )]
    TooSlow {
        /// What it was asked to do.
        doing: &'static str,
        /// How long it had.
        seconds: u64,
    },
    /// Git would wait for ever for a list of what is ignored.
    #[error("{}: it is a FIFO or a device, and git would wait for it: remove it, or make it a file", path.display())]
    OddList {
        /// What is no file.
        path: PathBuf,
    },
    /// There is more to keep than rawko keeps by itself.
    #[error(
        "{}: {files} files ({megabytes} MB) that git does not track, more than the {limit_files} files or \
         {limit_megabytes} MB that are kept: list what is generated in .gitignore, or commit what is not",
        folder.display()
    )]
    TooMuch {
        /// The project.
        folder: PathBuf,
        /// Files that would have to be kept.
        files: usize,
        /// Their size.
        megabytes: u64,
        /// Most files that are kept.
        limit_files: usize,
        /// Most megabytes that are kept.
        limit_megabytes: u64,
    },
    /// No checkpoint answers to the name.
    #[error(
        "session {session} has no checkpoint `{asked}`: {}",
        if kept.is_empty() { "it changed nothing, or nothing could be kept".to_owned() }
        else { format!("there are {}", kept.join(", ")) }
    )]
    Unknown {
        /// The session.
        session: String,
        /// What was asked for.
        asked: String,
        /// The names that there are.
        kept: Vec<String>,
    },
    /// The checkpoint is recorded, but what it kept is no longer there.
    #[error(
        "the tree that was kept as {id} is no longer in {}: it was pruned, or belongs to another copy of the \
         project; another checkpoint may still be there",
        store.display()
    )]
    Gone {
        /// Its name.
        id: String,
        /// Where it was looked for.
        store: PathBuf,
    },
    /// The object under the name of something that was kept is not that object.
    #[error(
        "what {} has as {id} is not what was kept under that name: it was overwritten, or is damaged; another checkpoint \
         may still be whole",
        store.display()
    )]
    Altered {
        /// The name.
        id: String,
        /// Where it is.
        store: PathBuf,
    },
    /// A session is running in the tree.
    #[error("session {session} is running in this folder: `rawko cancel {session}` ends it, then try again")]
    Running {
        /// The session that runs.
        session: String,
    },
    /// A session of such a name is none that rawko made.
    #[error("`{session}` cannot be the id of a session that rawko made: nothing is kept or restored for it")]
    BadSession {
        /// The name.
        session: String,
    },
    /// The file system refused.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was being done, e.g. `cannot write`.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl CheckpointError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: impl Into<std::io::Error>) -> Self {
        Self::Io { doing, path: path.to_owned(), source: source.into() }
    }
}
