//! Lists the files of a kept tree: those that git tracks or would track, and never ignored ones.
//!
//! Left out, and named where a person may miss it: files above [`MAX_FILE`], files that cannot be read, untracked files
//! whose names say that they hold secrets, devices, FIFOs and sockets. Repositories inside the tree decide about their
//! own files (`nested`), and rawko's own sessions are never kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, accessat, statat};

use super::error::CheckpointError;
use super::git::{GitProgram, GitQuery};
use super::nested::{ProjectRepositories, RepositoryFiles};
use super::place::{UserFolders, WorkTree};
use super::private_names::{self, is_private};
use super::scratch::{Scratch, user_exclude};

/// Largest file that is kept.
pub(super) const MAX_FILE: u64 = 100 * 1024 * 1024;
/// Most files that git does not track, and that are kept all the same.
pub(super) const MAX_FILES: usize = 20_000;
/// Most bytes in them.
pub(super) const MAX_BYTES: u64 = 500 * 1024 * 1024;
/// Why the files of a repository inside are not kept.
const TOO_LARGE: &str = "a repository with more than 20,000 files or 500 MB";

/// A path below the project, as the bytes that it is.
pub(super) type TreePath = Vec<u8>;

/// The files of a tree.
#[derive(Debug, Clone, Default)]
pub(super) struct TreeListing {
    /// What is kept: regular files with their permissions, and symbolic links.
    pub(super) files: BTreeMap<TreePath, Option<u32>>,
    /// What should be and is not, each with why.
    pub(super) skipped: BTreeMap<TreePath, &'static str>,
    /// What was looked for by its name and is not there.
    pub(super) gone: BTreeSet<TreePath>,
    /// Whether a repository around, which ignores the project, was left out of account.
    pub(super) stands_alone: bool,
    /// The repositories inside, by their place.
    pub(super) nested: BTreeMap<TreePath, WorkTree>,
}

impl TreeListing {
    /// The innermost repository that has a say in a file; empty for the project's.
    pub(super) fn part_of(&self, path: &[u8]) -> &[u8] {
        let holds = |inside: &&TreePath| {
            path.strip_prefix(inside.as_slice()).is_some_and(|rest| rest.starts_with(b"/"))
        };
        self.nested.keys().filter(holds).max_by_key(|inside| inside.len()).map_or(b"", Vec::as_slice)
    }
}

/// What is never kept.
#[derive(Debug, Clone)]
pub(super) struct Never(Vec<PathBuf>);

impl Never {
    /// The sessions of `project`, and the folder that holds the session's `directory`.
    pub(super) fn of(project: &Path, directory: &Path) -> Self {
        let sessions = directory.parent().and_then(|parent| parent.canonicalize().ok());
        let inside = sessions.and_then(|sessions| sessions.strip_prefix(project).ok().map(Path::to_owned));
        let own = Path::new(".rawko").join("sessions");
        Self(inside.into_iter().filter(|path| !path.as_os_str().is_empty()).chain([own]).collect())
    }

    /// Whether `path`, below the project, is among it.
    pub(super) fn covers(&self, path: &[u8]) -> bool {
        self.0.iter().any(|folder| Path::new(OsStr::from_bytes(path)).starts_with(folder))
    }
}

/// Lists the tree, and what of `also` is there, ignored or not.
pub(super) fn list(
    git: &GitProgram,
    place: &WorkTree,
    scratch: &Scratch,
    user: &UserFolders,
    never: &Never,
    also: &BTreeSet<TreePath>,
) -> Result<TreeListing, CheckpointError> {
    let ProjectRepositories { project, nested, skipped, stands_alone } =
        ProjectRepositories::of(git, place, scratch.format, user, never)?;
    let mut sieve = Sieve::new(&place.project, never)?;
    for path in project.tracked.iter().chain(also) {
        sieve.take(path);
    }
    let of_nested = nested.iter().map(|part| (part.inside.clone(), part.place.clone())).collect();
    sieve.listing.skipped.extend(skipped);
    sieve.listing = TreeListing { nested: of_nested, stands_alone, ..sieve.listing };
    sieve.take_nested(&nested, also);
    let known = sieve.listing.files.len();
    let bytes = sieve.bytes;
    sieve.take_others(&project, also);
    let (files, bytes) = (sieve.listing.files.len() - known, sieve.bytes - bytes);
    if files > MAX_FILES || bytes > MAX_BYTES {
        return Err(too_much(&place.project, files, bytes));
    }
    let listing = sieve.listing;
    let is_there =
        |path: &&TreePath| listing.files.contains_key(*path) || listing.skipped.contains_key(*path);
    let gone = also.iter().filter(|path| !is_there(path)).cloned().collect();
    Ok(TreeListing { gone, ..listing })
}

/// What is at these paths: files and links in folders that are no links.
pub(super) fn of_paths<'a>(
    project: &Path,
    never: &Never,
    paths: impl Iterator<Item = &'a TreePath>,
) -> Result<TreeListing, CheckpointError> {
    let mut sieve = Sieve::new(project, never)?;
    paths.for_each(|path| sieve.take(path));
    Ok(sieve.listing)
}

/// What is ignored. A folder that is ignored as a whole is one entry, which ends with a slash.
pub(super) fn ignored(
    git: &GitProgram,
    place: &WorkTree,
    scratch: &Scratch,
    user: &UserFolders,
) -> Result<Vec<TreePath>, CheckpointError> {
    let answer = others(git, place, scratch, user)?.args(["--ignored", "--directory"]).answer()?;
    let paths = answer.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(<[u8]>::to_vec).collect())
}

/// Lists files as if none were tracked. What ends with a slash is another repository, which is not entered.
pub(super) fn others(
    git: &GitProgram,
    place: &WorkTree,
    scratch: &Scratch,
    user: &UserFolders,
) -> Result<GitQuery, CheckpointError> {
    scratch.exclude(place)?;
    let mut ask = scratch
        .ask(git, "lists the files", &scratch.objects(), &[])
        .env("GIT_WORK_TREE", &place.toplevel)
        .env("GIT_INDEX_FILE", scratch.path().join("no-index"))
        .within(&place.project);
    if let Some(excludes) = user_exclude(place, user) {
        ask = ask.setting("core.excludesFile", excludes.as_os_str());
    }
    Ok(ask.args(["ls-files", "-z", "--others", "--exclude-standard"]))
}

fn too_much(project: &Path, files: usize, bytes: u64) -> CheckpointError {
    CheckpointError::TooMuch {
        folder: project.to_owned(),
        files,
        megabytes: bytes / (1024 * 1024),
        limit_files: MAX_FILES,
        limit_megabytes: MAX_BYTES / (1024 * 1024),
    }
}

/// Looks at each path, and lets through what can be kept.
struct Sieve<'a> {
    root: OwnedFd,
    never: &'a Never,
    /// Folders that were looked at: whether they are folders, and not links to some.
    folders: BTreeMap<TreePath, bool>,
    listing: TreeListing,
    bytes: u64,
}

impl<'a> Sieve<'a> {
    fn new(project: &Path, never: &'a Never) -> Result<Self, CheckpointError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(project, flags, Mode::empty())
            .map_err(|errno| CheckpointError::io("cannot open the project", project, errno))?;
        Ok(Self { root, never, folders: BTreeMap::new(), listing: TreeListing::default(), bytes: 0 })
    }

    fn take(&mut self, path: &[u8]) {
        let known = self.listing.files.contains_key(path);
        if known || !is_plain(path) || self.never.covers(path) || !self.is_in_real_folder(path) {
            return;
        }
        let Ok(stat) = statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW) else { return };
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        let why = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if size > MAX_FILE => "larger than 100 MB",
            FileType::RegularFile if !self.is_readable(path) => "it cannot be read",
            kind @ (FileType::RegularFile | FileType::Symlink) => {
                self.bytes += size;
                let mode = (kind == FileType::RegularFile).then_some(stat.st_mode & 0o777);
                self.listing.files.insert(path.to_vec(), mode);
                return;
            }
            // What was a file and is a folder now; git lists the files in it.
            FileType::Directory => return,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => "it is no file",
        };
        self.listing.skipped.insert(path.to_vec(), why);
    }

    /// What git would track: of what may hold secrets, what is known already.
    fn take_others(&mut self, part: &RepositoryFiles, also: &BTreeSet<TreePath>) {
        for path in part.others.difference(&part.tracked) {
            if is_private(path) && !also.contains(path) {
                self.listing.skipped.insert(path.clone(), private_names::WHY);
            } else {
                self.take(path);
            }
        }
    }

    /// The files of the repositories inside, as long as there are not too many: git has none of them in the project's own.
    fn take_nested(&mut self, nested: &[RepositoryFiles], also: &BTreeSet<TreePath>) {
        let (known, bytes) = (self.listing.files.len(), self.bytes);
        for part in nested {
            let paths = part.tracked.union(&part.others);
            let new: BTreeSet<&TreePath> =
                paths.filter(|path| !self.listing.files.contains_key(*path)).collect();
            let bytes_before = self.bytes;
            part.tracked.iter().for_each(|path| self.take(path));
            self.take_others(part, also);
            if self.listing.files.len() - known > MAX_FILES || self.bytes - bytes > MAX_BYTES {
                self.listing.files.retain(|path, _| !new.contains(path));
                self.bytes = bytes_before;
                self.listing.skipped.insert(part.inside.clone(), TOO_LARGE);
            }
        }
    }

    fn is_readable(&self, path: &[u8]) -> bool {
        accessat(self.root.as_fd(), path, Access::READ_OK, AtFlags::EACCESS).is_ok()
    }

    /// A tracked path may lead through what has become a link, out of the project.
    fn is_in_real_folder(&mut self, path: &[u8]) -> bool {
        let Some(end) = path.iter().rposition(|byte| *byte == b'/') else { return true };
        let folder = path.get(..end).unwrap_or_default();
        if let Some(real) = self.folders.get(folder) {
            return *real;
        }
        let real = self.is_in_real_folder(folder)
            && statat(&self.root, folder, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        self.folders.insert(folder.to_vec(), real);
        real
    }
}

/// Whether every part of a path is an ordinary name. Indexes and trees can hold others, made by an attacker so
/// that a write lands somewhere else.
pub(super) fn is_plain(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|name| {
        !matches!(name, b"" | b"." | b"..") && !name.eq_ignore_ascii_case(b".git") && !name.contains(&0)
    })
}
