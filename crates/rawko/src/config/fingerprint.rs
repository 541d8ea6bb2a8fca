//! Detects whether files changed since they were read, with a few `stat` calls that are cheap enough for every iteration.
//!
//! It does not know what changed, or whether the new content is valid: that takes loading again.

use std::path::{Path, PathBuf};

use rawko_tools::FileStamp;

/// The metadata of files and directories at one time, including missing ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprint {
    seen: Vec<(PathBuf, Option<FileStamp>)>,
}

/// Of the file that the path leads to.
fn stamp(path: &Path) -> Option<FileStamp> {
    std::fs::metadata(path).ok().map(|found| FileStamp::of(&found))
}

impl Fingerprint {
    /// Records `path` as it is now, and says whether it is there. Call it before reading, so that a change in between is detected.
    pub(super) fn note(&mut self, path: &Path) -> bool {
        if let Some((_, known)) = self.seen.iter().find(|(known, _)| known == path) {
            return known.is_some();
        }
        let stamp = stamp(path);
        let is_there = stamp.is_some();
        self.seen.push((path.to_owned(), stamp));
        is_there
    }

    /// Whether any of the files was changed, added or removed since.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.seen.iter().any(|(path, known)| stamp(path) != *known)
    }

    /// Records the files as they are now, so that changes up to now are not reported again.
    pub fn refresh(&mut self) {
        for (path, known) in &mut self.seen {
            *known = stamp(path);
        }
    }

    /// The watched files and directories, for callers that use the system's file notifications instead.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.seen.iter().map(|(path, _)| path.as_path())
    }
}
