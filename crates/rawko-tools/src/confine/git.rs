//! The parts of a repository that decide what git runs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::regular::text_of;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};

/// Longest file that names a folder.
const LONGEST_NAME: u64 = 64 * 1024;

/// Files and folders of a repository that name programs: read-only for every command.
const DECIDING: [&str; 5] = ["commondir", "config", "config.worktree", "hooks", "info/attributes"];

/// The repository that a project belongs to, as it was before the first command: a command can make another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repository {
    /// The top of the work tree.
    pub(super) top: PathBuf,
    /// The folders that git writes: the repository's own, and for a linked work tree that of the main one.
    pub(super) folders: Vec<PathBuf>,
    /// The folder that holds the index of this work tree.
    pub(super) own: Option<PathBuf>,
}

/// The repository around `folder`, if it lies in one.
pub(super) fn repository_of(folder: &Path) -> Option<Repository> {
    let top = folder.ancestors().find(|top| top.join(".git").symlink_metadata().is_ok())?;
    let (own, shared) = folders_of(&top.join(".git")).unzip();
    Some(Repository { top: top.to_owned(), folders: shared.into_iter().collect(), own })
}

/// The folder of the work tree whose `.git` is this, and the one that holds all: the same, or that of the main work tree,
/// which knows of a linked one. A file may name any folder, so one that does not name the work tree back grants nothing.
fn folders_of(dot_git: &Path) -> Option<(PathBuf, PathBuf)> {
    if dot_git.symlink_metadata().is_ok_and(|kind| kind.is_dir()) {
        return looks_bare(dot_git).then(|| (dot_git.to_owned(), dot_git.to_owned()));
    }
    let text = text_of(dot_git, LONGEST_NAME).unwrap_or_default();
    let named = text.strip_prefix("gitdir:").map(str::trim)?;
    let own = real(&dot_git.parent()?.join(named))?;
    let back = text_of(&own.join("gitdir"), LONGEST_NAME).and_then(|back| fs::canonicalize(back.trim()).ok());
    let common = own.parent().filter(|parent| parent.ends_with("worktrees")).and_then(Path::parent)?;
    let is_named_back = back.is_some() && back == fs::canonicalize(dot_git).ok();
    (is_named_back && looks_bare(common)).then(|| (own.clone(), common.to_owned()))
}

/// What must stay as it is in a folder of a repository, those of submodules included.
pub(super) fn deciding(folder: &Path) -> Vec<PathBuf> {
    let all = with_inner(folder).into_iter().flat_map(|folder| DECIDING.map(|name| folder.join(name)));
    all.filter(|path| is_there(path)).collect()
}

/// What the work trees of a repository have for themselves but for this one, which is linked to it: their `HEAD`, their
/// index, what they are in the middle of.
pub(super) fn of_other_trees(repository: &Repository) -> Vec<PathBuf> {
    let Some(own) = &repository.own else { return Vec::new() };
    let mut others = Vec::new();
    for folder in repository.folders.iter().filter(|folder| *folder != own) {
        others.extend(["HEAD", "index"].map(|name| folder.join(name)));
        let trees = fs::read_dir(folder.join("worktrees")).into_iter().flatten().filter_map(Result::ok);
        others.extend(trees.map(|tree| tree.path()).filter(|tree| tree != own));
    }
    others.retain(|path| is_there(path));
    others
}

/// What git would obey and is not there.
#[derive(Debug, Default)]
pub(super) struct Absent(Vec<(PathBuf, &'static str)>);

/// What is not there now in the folders of a repository. A command may create files beside those that are protected, and
/// nothing can be mounted where nothing is.
pub(super) fn absent(repository: &Repository) -> Absent {
    let all = repository.folders.iter().flat_map(|folder| with_inner(folder));
    let all = all.flat_map(|folder| DECIDING.map(|name| (folder.clone(), name)));
    let is_absent = |(folder, name): &(PathBuf, &str)| {
        let path = folder.join(name);
        let is_through_link = path.parent().is_some_and(|above| above != folder && above.is_symlink());
        path.symlink_metadata().is_err() && !is_through_link
    };
    Absent(all.filter(is_absent).collect())
}

impl Absent {
    /// Removes what is there by now. What cannot be removed stays.
    pub(super) fn remove(&self) {
        for (folder, name) in &self.0 {
            match name.split_once('/') {
                // The folder is the command's, and may be a link by now.
                Some((above, _)) if folder.join(above).is_symlink() => {
                    let _ = fs::remove_file(folder.join(above));
                }
                Some((above, leaf)) => {
                    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let opened = openat(rustix::fs::CWD, folder.join(above), flags, Mode::empty());
                    let _ = opened.and_then(|above| unlinkat(above, leaf, AtFlags::empty()));
                }
                None => {
                    let path = folder.join(name);
                    match path.symlink_metadata() {
                        Ok(kind) if kind.is_dir() => drop(fs::remove_dir_all(&path)),
                        Ok(_) => drop(fs::remove_file(&path)),
                        Err(_) => {}
                    }
                }
            }
        }
    }
}

/// The folder of a repository, and those of its submodules and linked work trees.
fn with_inner(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for inner in ["modules", "worktrees"] {
        repositories_below(&folder.join(inner), MAX_DEPTH, &mut found);
    }
    found
}

/// How deep the names of submodules are looked for: a name may contain slashes.
const MAX_DEPTH: usize = 8;

fn repositories_below(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in
        entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    {
        if entry.path().join("HEAD").is_file() {
            found.extend(with_inner(&entry.path()));
        } else if depth > 0 {
            repositories_below(&entry.path(), depth - 1, found);
        }
    }
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
