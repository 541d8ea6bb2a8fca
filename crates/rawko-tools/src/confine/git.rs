//! The parts of a repository that decide what git runs.

use std::fs;
use std::path::{Path, PathBuf};

/// Files and folders of a repository that name programs: read-only for every command.
const DECIDING: [&str; 4] = ["config", "config.worktree", "hooks", "info/attributes"];

/// The repository that a folder belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repository {
    /// The top of the work tree.
    pub(super) top: PathBuf,
    /// The folders that git writes: the repository's own, and for a linked work tree that of the main one.
    pub(super) folders: Vec<PathBuf>,
}

/// The repository around `folder`, if it lies in one.
pub(super) fn repository_of(folder: &Path) -> Option<Repository> {
    let top = folder.ancestors().find(|top| top.join(".git").symlink_metadata().is_ok())?;
    Some(Repository { top: top.to_owned(), folders: folders_of(&top.join(".git")) })
}

/// The folders of a repository whose `.git` is this: the folder itself, or those that a file names.
pub(super) fn folders_of(dot_git: &Path) -> Vec<PathBuf> {
    let Ok(text) = fs::read_to_string(dot_git) else { return real(dot_git).into_iter().collect() };
    let named = text
        .strip_prefix("gitdir:")
        .map(str::trim)
        .and_then(|named| dot_git.parent().map(|top| top.join(named)));
    let Some(own) = named.and_then(|named| real(&named)) else { return Vec::new() };
    let common =
        fs::read_to_string(own.join("commondir")).ok().and_then(|named| real(&own.join(named.trim())));
    common.into_iter().chain([own]).collect()
}

/// What must stay as it is in a folder of a repository, those of submodules included.
pub(super) fn deciding(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        DECIDING.iter().map(|name| folder.join(name)).filter(|path| is_there(path)).collect();
    if let Ok(modules) = fs::read_dir(folder.join("modules")) {
        found.extend(modules.filter_map(Result::ok).flat_map(|module| deciding(&module.path())));
    }
    found
}

/// Whether git would take the folder itself for a repository.
pub(super) fn looks_bare(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|kind| !kind.is_symlink())
}

fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok().filter(|path| path.is_dir())
}
