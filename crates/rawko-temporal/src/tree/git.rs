//! Git, asked in a way that runs no code of the repository.
//!
//! Two ways to ask. *Locally*: with an environment and settings of its own, nothing of the user's, nothing of the network.
//! *Remotely*: with the worker's own configuration of git, which is how it reaches a repository (credential helpers,
//! proxies, keys), but without the `GIT_` variables of the environment, without a prompt, and by no protocol but that of the
//! address. What a clone's own settings could name is overridden here, and the file is written anew before it is used
//! (`task`). Filters are switched off by the clone's `info/attributes`, which wins over any `.gitattributes`.

use std::path::Path;
use std::time::Duration;

use rawko_tools::{Git, GitError};

use super::error::TreeError;
use super::lock::TreeLock;
use super::names::Repository;
use super::place::WorkPlace;

/// The command line wins over every file.
const SETTINGS: [&str; 9] = [
    "core.sparseCheckout=false",
    "credential.interactive=never",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "push.gpgSign=false",
    // A pack arrives whole or not at all. Single objects of a killed fetch could be a commit without its files.
    "fetch.unpackLimit=1",
    "transfer.unpackLimit=1",
    // A connection that stalls ends.
    "http.lowSpeedLimit=100",
    "http.lowSpeedTime=120",
];

/// Settings of the other end, where it is a process of this machine. A shell reads them.
const OTHER_END: [&str; 7] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    // The one program of its settings that receiving runs. `:` does nothing, and says nothing of alternates.
    "core.alternateRefsCommand=:",
    "gc.auto=0",
    "maintenance.auto=false",
    "receive.autogc=false",
    "receive.denyCurrentBranch=refuse",
];

/// What git may take without the network.
const LOCAL: Duration = Duration::from_secs(600);

/// One question to git.
pub(super) type TreeGit = Git<TreeError>;

/// About a repository of this machine. `doing` completes "git cannot …". Git holds the lock until it has ended.
pub(super) fn local(
    place: &WorkPlace,
    lock: &TreeLock,
    doing: &'static str,
    git_folder: &Path,
) -> Result<TreeGit, TreeError> {
    let at = git_folder.to_owned();
    let git = begun(Git::alone(&place.git), Some(lock), git_folder)?.within_time(LOCAL);
    Ok(git.or(move |error| match error {
        GitError::TooSlow(time) => too_slow(doing, at.display().to_string(), time),
        other => TreeError::Git { doing, place: at, message: other.to_string() },
    }))
}

/// To a remote repository. `git_folder` is the one of this machine that it is for, if there is one.
pub(super) fn remote(
    place: &WorkPlace,
    lock: Option<&TreeLock>,
    doing: &'static str,
    git_folder: Option<&Path>,
    repository: &Repository,
) -> Result<TreeGit, TreeError> {
    place.check(repository)?;
    let git = Git::as_user(&place.git).unattended().within(Path::new("/")).within_time(place.network);
    let git = git.env("GIT_ALLOW_PROTOCOL", repository.protocols());
    let git = begun(git, lock, git_folder.unwrap_or(Path::new("/dev/null")))?;
    let repository = repository.to_string();
    Ok(git.or(move |error| match error {
        GitError::TooSlow(time) => too_slow(doing, repository, time),
        other => TreeError::Remote { doing, repository, message: other.to_string() },
    }))
}

fn begun(git: Git, lock: Option<&TreeLock>, git_folder: &Path) -> Result<Git, TreeError> {
    #[cfg(test)]
    super::tests::count();
    let git = git.settings(SETTINGS).env("GIT_DIR", git_folder);
    Ok(match lock {
        Some(lock) => git.reading(lock.as_input()?),
        None => git,
    })
}

fn too_slow(doing: &'static str, place: String, time: Duration) -> TreeError {
    TreeError::TooSlow { doing, place, seconds: time.as_secs() }
}

/// The option with which the other end of a repository on this machine runs no hooks either, and cleans nothing up.
/// Other servers are as their owner wants them.
pub(super) fn other_end(place: &WorkPlace, repository: &Repository, command: &str) -> Option<String> {
    let git = place.git.to_string_lossy().replace('\'', r"'\''");
    let settings = OTHER_END.map(|setting| format!("-c {setting} ")).concat();
    repository.is_path().then(|| format!("--{command}='{git}' {settings}{command}"))
}
