//! Git, asked about trees that are kept. It runs no code of the repository: only plumbing commands are asked, and only those
//! that start no other process. Nothing that looks into submodules (`add`, `status`, `diff-files`) is ever used.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rawko_tools::{Git, GitError, program_outside};

use super::error::CheckpointError;

/// A tree is kept with whatever names its files have.
const SETTINGS: [&str; 2] = ["core.protectNTFS=false", "core.protectHFS=false"];

/// What git may take for a question about its repository alone.
pub(super) const BRIEF: Duration = Duration::from_secs(10);
/// What git may take for one that reads no files' contents.
const QUICK: Duration = Duration::from_secs(30);
/// What git may take for one that does.
pub(super) const THOROUGH: Duration = Duration::from_secs(300);

/// The first question that git did not answer in time, and its seconds. It would not answer the next ones either, so no
/// more are asked, and no caller has to wait for each.
pub(super) type Unanswered = Arc<OnceLock<(&'static str, u64)>>;

/// One question to git.
pub(super) type GitQuery = Git<CheckpointError>;

/// A git program.
#[derive(Debug, Clone)]
pub(super) struct GitProgram {
    program: PathBuf,
    unanswered: Unanswered,
}

impl GitProgram {
    /// The first git in `path`, ignoring any inside `work_tree`: the repository decides what is in a folder there.
    pub(super) fn find(path: Option<&OsStr>, work_tree: &Path, unanswered: &Unanswered) -> Option<Self> {
        let program = program_outside("git", path, &[work_tree])?;
        Some(Self { program, unanswered: Arc::clone(unanswered) })
    }

    /// A question to git. `doing` completes "git …" in an error.
    pub(super) fn ask(&self, doing: &'static str) -> GitQuery {
        let unanswered = Arc::clone(&self.unanswered);
        let mut git = Git::alone(&self.program).within_time(QUICK).settings(SETTINGS);
        git = git.env("GIT_OPTIONAL_LOCKS", "0");
        if unanswered.get().is_some() {
            git = git.not_asked(GitError::TooSlow(QUICK));
        }
        git.or(move |error| match error {
            GitError::TooSlow(time) => {
                let (doing, seconds) = *unanswered.get_or_init(|| (doing, time.as_secs()));
                CheckpointError::TooSlow { doing, seconds }
            }
            other => CheckpointError::Git { doing, message: other.to_string() },
        })
    }
}
