//! Finds the folders that decide what rawko and git run, by device and inode: a link or a `gitdir:` file may give them
//! any name.
//!
//! They are looked up anew for each access, because a command may have moved something since.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, fstat, statat};

use super::grants::PROTECTED;
use super::real_place;
use super::repository::is_repository;
use crate::file_stamp::{FileId, file_id};
use crate::regular::text_of;

/// Longest file that names a folder.
const LONGEST_NAME: u64 = 64 * 1024;
/// Most entries of a protected folder that are looked at for links.
const MAX_ENTRIES: usize = 2_000;
/// What git obeys in a repository.
const DECIDING: [&str; 6] = ["commondir", "config", "config.worktree", "hooks", "info", "modules"];
/// What rawko reads in `.rawko` and `.claude`.
const READ: [&str; 5] = ["agents", "config.yaml", "memories", "prompts", "sessions"];
/// Folders in a protected one whose entries may be links too.
const INNER: [&str; 5] = ["agents", "hooks", "info", "memories", "prompts"];

/// A file or folder that no agent writes.
#[derive(Debug)]
struct ProtectedPath {
    /// The name that protects it.
    name: &'static str,
    real: PathBuf,
    id: Option<FileId>,
}

impl ProtectedPath {
    fn at(name: &'static str, real: PathBuf) -> Self {
        let id = fs::metadata(&real).ok().filter(fs::Metadata::is_dir).map(|found| file_id(&found));
        Self { name, real, id }
    }

    fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.real)
    }
}

/// What is protected in one project, besides what has a protected name.
#[derive(Debug)]
pub(super) struct ProtectedPlaces {
    root: PathBuf,
    places: Vec<ProtectedPath>,
    /// Journals and checkpoints, which hold what was denied.
    sessions: Option<ProtectedPath>,
}

impl ProtectedPlaces {
    /// What the project at `root`, a real path, calls its `.rawko`, `.claude` and `.git`, and that of the repository
    /// around it.
    pub(super) fn of(root: &Path) -> Self {
        let mut found = Self { root: root.to_owned(), places: Vec::new(), sessions: None };
        for name in PROTECTED {
            let path = root.join(name);
            if name != ".git" && path.symlink_metadata().is_ok() {
                found.add(name, real_place(&path), &READ);
            }
        }
        if let Some(top) = root.ancestors().find(|top| top.join(".git").symlink_metadata().is_ok()) {
            for folder in git_folders(top) {
                found.add(".git", folder, &DECIDING);
            }
        }
        // The project may be one itself, without a work tree.
        if is_repository(|name| root.join(name).symlink_metadata().is_ok()) {
            found.add("a repository", root.to_owned(), &DECIDING);
        }
        let sessions = real_place(&root.join(".rawko/sessions"));
        found.sessions = (!root.starts_with(&sessions)).then(|| ProtectedPath::at("sessions", sessions));
        found
    }

    /// Adds a folder, and where the links in it lead. Of one that contains the project, only what is obeyed is added.
    fn add(&mut self, name: &'static str, real: PathBuf, obeyed: &[&str]) {
        let all = if self.root.starts_with(&real) {
            obeyed.iter().map(|part| real_place(&real.join(part))).collect()
        } else {
            let mut all = links_in(&real);
            all.extend(INNER.iter().flat_map(|inner| links_in(&real.join(inner))));
            all.push(real);
            all
        };
        let all = all.into_iter().filter(|place| !self.root.starts_with(place));
        let all: Vec<ProtectedPath> = all.map(|place| ProtectedPath::at(name, place)).collect();
        self.places.extend(all);
    }

    /// The name that protects the file at `real` from being written, reached through these folders.
    pub(super) fn name_of(&self, real: &Path, folders: &[(OsString, OwnedFd)]) -> Option<&'static str> {
        if let Some(place) = self.places.iter().find(|place| place.holds(real)) {
            return Some(place.name);
        }
        self.passed(folders).find_map(|folder| {
            let id = id_of(folder)?;
            let known = self.places.iter().find(|place| place.id == Some(id)).map(|place| place.name);
            known.or_else(|| looks_bare(folder).then_some("a repository"))
        })
    }

    /// Whether this belongs to the project's sessions.
    pub(super) fn is_of_sessions(&self, real: &Path, folders: &[(OsString, OwnedFd)]) -> bool {
        // By name too: those of a project inside this one.
        let below = real.strip_prefix(&self.root).unwrap_or(real);
        let names: Vec<_> = below.iter().map(|name| name.to_ascii_lowercase()).collect();
        names.windows(2).any(|pair| pair[0] == ".rawko" && pair[1] == "sessions")
            || self.sessions.as_ref().is_some_and(|sessions| {
                sessions.holds(real)
                    || sessions.id.is_some()
                        && self.passed(folders).any(|folder| id_of(folder) == sessions.id)
            })
    }

    /// The folders on a path, without the project and those that contain it.
    fn passed<'a>(&self, folders: &'a [(OsString, OwnedFd)]) -> impl Iterator<Item = &'a OwnedFd> {
        let mut path = PathBuf::from("/");
        folders.iter().filter_map(move |(name, folder)| {
            path.push(name);
            (!self.root.starts_with(&path)).then_some(folder)
        })
    }
}

/// The folders that git would use for the work tree at `top`: its own, and that which a linked work tree shares.
fn git_folders(top: &Path) -> Vec<PathBuf> {
    let dot_git = real_place(&top.join(".git"));
    let own = match text_of(&dot_git, LONGEST_NAME) {
        Some(text) => match text.strip_prefix("gitdir:") {
            Some(named) => real_place(&top.join(named.trim_end_matches(['\n', '\r']).trim_start())),
            None => dot_git,
        },
        None => dot_git,
    };
    let common = text_of(&real_place(&own.join("commondir")), LONGEST_NAME);
    let common = common.map(|common| real_place(&own.join(common.trim())));
    [own].into_iter().chain(common).collect()
}

/// Where the links in a folder lead.
fn links_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES).flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.map(|entry| real_place(&entry.path())).collect()
}

fn id_of(folder: &OwnedFd) -> Option<FileId> {
    fstat(folder).ok().map(|found| id(&found))
}

/// Device and inode of what was found.
#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
pub(super) fn id(found: &rustix::fs::Stat) -> FileId {
    (found.st_dev as u64, found.st_ino as u64)
}

/// Whether git would take the folder itself for a repository.
fn looks_bare(folder: &OwnedFd) -> bool {
    is_repository(|name| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
}
