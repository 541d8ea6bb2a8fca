//! Whether the files have changed since they were read: a few `stat` calls, cheap enough for every iteration.
//!
//! Owns only that question. What changed, and whether it is any good, is found out by loading again.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files and directories as they were, absent ones too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprint {
    seen: Vec<(PathBuf, Option<Stamp>)>,
}

/// What changes about a file when its content does. The inode catches an editor that writes a new file and renames
/// it, the change time one that sets the modification time back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        let (inode, changed) = {
            use std::os::unix::fs::MetadataExt;
            (metadata.ino(), (metadata.ctime(), metadata.ctime_nsec()))
        };
        #[cfg(not(unix))]
        let (inode, changed) = (0, (0, 0));
        Some(Self { modified: metadata.modified().ok(), size: metadata.len(), inode, changed })
    }
}

impl Fingerprint {
    /// Notes `path` as it is now. Call it before reading: a change in between is then seen.
    pub(super) fn note(&mut self, path: &Path) {
        if !self.seen.iter().any(|(known, _)| known == path) {
            self.seen.push((path.to_owned(), Stamp::of(path)));
        }
    }

    /// Whether any of the files was changed, added or removed since.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.seen.iter().any(|(path, stamp)| Stamp::of(path) != *stamp)
    }

    /// Takes the files as they are now for seen: what has changed until here is not told again.
    pub fn refresh(&mut self) {
        for (path, stamp) in &mut self.seen {
            *stamp = Stamp::of(path);
        }
    }

    /// The files and directories that are watched, for those who want to be woken by the system instead.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.seen.iter().map(|(path, _)| path.as_path())
    }
}
