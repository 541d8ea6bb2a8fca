//! Errors of a task's tree.

use std::path::{Path, PathBuf};

/// Errors of a task's tree.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// A name, an address or a revision that cannot be used.
    #[error("`{given}` is no {what}: {why}")]
    Name {
        /// What it should be.
        what: &'static str,
        /// What was given.
        given: String,
        /// Why it cannot be used, and what to try.
        why: &'static str,
    },
    /// There is no git program.
    #[error("git is not installed, or not in PATH: install git 2.36 or newer on every worker")]
    NoGit,
    /// Git could not do it on this machine.
    #[error("git cannot {doing} in {place}: {message}")]
    Git {
        /// What was tried.
        doing: &'static str,
        /// The repository on this machine.
        place: PathBuf,
        /// What git said.
        message: String,
    },
    /// Git could not do it with the remote repository.
    #[error(
        "git cannot {doing} {repository}: {message}\nthe worker reaches a repository with its own configuration of git: try `git ls-remote {repository}` there"
    )]
    Remote {
        /// What was tried.
        doing: &'static str,
        /// The address of the repository.
        repository: String,
        /// What git said.
        message: String,
    },
    /// Git took too long.
    #[error("git did not {doing} {place} within {seconds} s: try again, or give the work place more time")]
    TooSlow {
        /// What was tried.
        doing: &'static str,
        /// Where.
        place: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The repository has no such commit, branch or tag.
    #[error("{repository} has no {what}: push it, or name a branch, tag or commit that is there")]
    Missing {
        /// The address of the repository.
        repository: String,
        /// What was looked for.
        what: String,
    },
    /// The worker is not for this repository.
    #[error(
        "the worker does not work on {repository}: start one with --allow-repo and a pattern for this address"
    )]
    NotAllowed {
        /// The address of the repository.
        repository: String,
    },
    /// Others work with what is needed.
    #[error("{path} is in use by another process, for longer than {seconds} s: {hint}")]
    Busy {
        /// The file that is locked.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
        /// What to try.
        hint: &'static str,
    },
    /// A file of the work place.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl TreeError {
    pub(super) fn io(doing: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), source }
    }

    /// Whether the cause is in the task, so that every machine has this problem.
    #[must_use]
    pub fn is_of_task(&self) -> bool {
        match self {
            Self::Name { .. } | Self::Missing { .. } => true,
            Self::NoGit
            | Self::Git { .. }
            | Self::Remote { .. }
            | Self::TooSlow { .. }
            | Self::NotAllowed { .. }
            | Self::Busy { .. }
            | Self::Io { .. } => false,
        }
    }

    /// Whether a new clone could help.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Git { .. } | Self::Io { .. })
    }
}
