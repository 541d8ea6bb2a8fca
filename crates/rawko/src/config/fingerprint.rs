//! Detects whether files changed since they were read, with a few `stat` calls that are cheap enough for every iteration.
//!
//! It does not know what changed, or whether the new content is valid: that takes loading again.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The metadata of files and directories at one time, including missing ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprint {
    seen: Vec<(PathBuf, Option<FileStamp>)>,
}

/// Metadata that changes with a file's content. The inode catches an editor that writes a new file and renames
/// it; the change time catches a tool that resets the modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
    changed: (i64, i64),
}

impl FileStamp {
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
    /// Records `path` as it is now. Call it before reading, so that a change in between is detected.
    pub(super) fn note(&mut self, path: &Path) {
        if !self.seen.iter().any(|(known, _)| known == path) {
            self.seen.push((path.to_owned(), FileStamp::of(path)));
        }
    }

    /// Whether any of the files was changed, added or removed since.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.seen.iter().any(|(path, stamp)| FileStamp::of(path) != *stamp)
    }

    /// Records the files as they are now, so that changes up to now are not reported again.
    pub fn refresh(&mut self) {
        for (path, stamp) in &mut self.seen {
            *stamp = FileStamp::of(path);
        }
    }

    /// The watched files and directories, for callers that use the system's file notifications instead.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.seen.iter().map(|(path, _)| path.as_path())
    }
}
