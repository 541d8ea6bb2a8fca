//! Temporary folders that do not outlive their process for long.
//!
//! A folder is removed with its value. A process that is killed cannot do that, so each folder is locked for as long as its
//! owner lives, and the next one who makes such a folder removes those that nobody holds.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Begins the names of copies of a project.
pub const VERIFY: &str = "rawko-verify-";
/// Begins the names of git directories of rawko's own.
pub const GIT: &str = "rawko-git-";
/// Begins the names of what the commands of a run have for themselves.
pub(crate) const RUN: &str = "rawko-run-";
/// How often a folder is made that another process takes for an abandoned one.
const ATTEMPTS: usize = 10;

/// A temporary folder, removed when it is dropped.
#[derive(Debug)]
pub struct TemporaryFolder {
    folder: tempfile::TempDir,
    /// Open, and so locked.
    lock: File,
}

impl TemporaryFolder {
    /// Makes a folder whose name begins with `prefix`.
    ///
    /// # Errors
    /// If none can be made.
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::within(&std::env::temp_dir(), prefix)
    }

    fn within(parent: &Path, prefix: &str) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
            // Until it is locked, another process may remove it.
            let Ok(lock) = File::open(folder.path()) else { continue };
            if is_held(&lock) {
                continue;
            }
            let is_there = folder.path().metadata().is_ok_and(|found| Some(found.ino()) == inode(&lock));
            if is_there {
                return Ok(Self { folder, lock });
            }
        }
        Err(io::Error::other("temporary folders are removed as soon as they are made"))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What keeps it locked. Whoever has a copy of this holds the folder too.
    #[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
    pub(crate) fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        remove(self.folder.path());
    }
}

/// Waits until nobody holds the folder any more, or for as long as `patience`. Returns whether nobody does.
#[must_use]
pub fn is_abandoned_within(folder: &Path, patience: Duration) -> bool {
    let begun = Instant::now();
    while folder.is_dir() && !is_abandoned(folder) {
        if begun.elapsed() >= patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Removes the folders that killed processes left. What cannot be removed stays.
pub fn remove_abandoned() {
    remove_abandoned_in(&std::env::temp_dir(), &[VERIFY, GIT, RUN]);
}

fn remove_abandoned_in(parent: &Path, prefixes: &[&str]) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_one = prefixes.iter().any(|prefix| name.to_string_lossy().starts_with(prefix));
        // Not a link: nothing outside is removed.
        if is_one && entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_abandoned(&entry.path()) {
            remove(&entry.path());
        }
    }
}

/// Removes a folder with all that is in it, also what nobody may open: a layered file system leaves such folders.
fn remove(folder: &Path) {
    if std::fs::remove_dir_all(folder).is_err() {
        open_up(folder);
        // What cannot be removed stays.
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn open_up(folder: &Path) {
    let _ = std::fs::set_permissions(folder, Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::DIRECTORY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let opened = File::options().read(true).custom_flags(flags).open(folder);
    opened.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// Locks a folder, unless another process holds it. Where folders cannot be locked, nobody does.
fn is_held(lock: &File) -> bool {
    flock(lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
}

fn inode(file: &File) -> Option<u64> {
    file.metadata().ok().map(|found| found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_that_nobody_holds_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let held = TemporaryFolder::within(parent.path(), "a-").unwrap();
        let killed = TemporaryFolder::within(parent.path(), "a-").unwrap();
        std::fs::write(killed.path().join("file"), "").unwrap();
        // As a kill does: the lock goes, the folder stays.
        std::fs::create_dir_all(killed.path().join("work/work")).unwrap();
        std::fs::set_permissions(killed.path().join("work/work"), Permissions::from_mode(0o000)).unwrap();
        let abandoned = killed.path().to_owned();
        flock(&killed.lock, FlockOperation::Unlock).unwrap();
        assert!(is_abandoned_within(&abandoned, Duration::ZERO));
        assert!(!is_abandoned_within(held.path(), Duration::from_millis(10)));
        std::mem::forget(killed);
        let other = parent.path().join("b-1");
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, parent.path().join("a-link")).unwrap();
        remove_abandoned_in(parent.path(), &["a-"]);
        assert!(!abandoned.exists());
        assert!(held.path().exists() && other.exists());
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }
}
