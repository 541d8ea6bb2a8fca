//! Temporary folders that do not outlive their process for long.
//!
//! A folder is removed with its value. A process that is killed cannot do that, so each folder holds a locked file for as
//! long as its owner lives, and the next one who makes such a folder removes those that nobody holds.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// Begins the names of copies of a project.
pub(crate) const VERIFY: &str = "rawko-verify-";
/// Begins the names of git directories of rawko's own.
pub(crate) const GIT: &str = "rawko-git-";
/// Held by the owner.
const LOCK: &str = "rawko.lock";

/// A temporary folder, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct TemporaryFolder {
    folder: tempfile::TempDir,
    _lock: File,
}

impl TemporaryFolder {
    /// Makes a folder whose name begins with `prefix`.
    pub(crate) fn new(prefix: &str) -> io::Result<Self> {
        Self::within(&std::env::temp_dir(), prefix)
    }

    fn within(parent: &Path, prefix: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
        let lock = OpenOptions::new().write(true).create_new(true).open(folder.path().join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { folder, _lock: lock })
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

/// Without the file, its owner may be about to make it.
fn is_abandoned(folder: &Path) -> bool {
    let lock = OpenOptions::new().write(true).open(folder.join(LOCK));
    lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
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
        let abandoned = killed.folder.keep();
        drop(killed._lock);
        let other = parent.path().join("b-1");
        let begun = parent.path().join("a-begun");
        for folder in [&other, &begun] {
            std::fs::create_dir(folder).unwrap();
        }
        std::fs::write(other.join(LOCK), "").unwrap();
        std::os::unix::fs::symlink(&other, parent.path().join("a-link")).unwrap();
        remove_abandoned_in(parent.path(), &["a-"]);
        assert!(!abandoned.exists());
        assert!(held.path().exists() && other.exists() && begun.exists());
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }
}
