//! Temporary folders that do not outlive their process for long.
//!
//! A folder is removed with its value. A process that is killed cannot do that, so each folder is locked for as long as its
//! owner lives, and the next one who makes such a folder removes those that nobody holds.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Begins the names of copies of a project.
pub(crate) const VERIFY: &str = "rawko-verify-";
/// Begins the names of git directories of rawko's own.
pub(crate) const GIT: &str = "rawko-git-";
/// How often a folder is made that another process takes for an abandoned one.
const ATTEMPTS: usize = 10;

/// A temporary folder, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryFolder {
    folder: tempfile::TempDir,
    /// Open, and so locked.
    _lock: File,
}

impl TemporaryFolder {
    /// Makes a folder whose name begins with `prefix`.
    pub(crate) fn new(prefix: &str) -> io::Result<Self> {
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
                return Ok(Self { folder, _lock: lock });
            }
        }
        Err(io::Error::other("temporary folders are removed as soon as they are made"))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders that killed processes left. What cannot be removed stays.
pub(crate) fn remove_abandoned() {
    remove_abandoned_in(&std::env::temp_dir(), &[VERIFY, GIT]);
}

fn remove_abandoned_in(parent: &Path, prefixes: &[&str]) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_one = prefixes.iter().any(|prefix| name.to_string_lossy().starts_with(prefix));
        // Not a link: nothing outside is removed.
        if is_one && entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_abandoned(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
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
        let TemporaryFolder { folder, _lock } = killed;
        let abandoned = folder.keep();
        drop(_lock);
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
