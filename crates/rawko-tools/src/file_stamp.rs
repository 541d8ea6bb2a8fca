//! Whether a path still leads to the file that was read, without reading it again.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

/// After this time, what changes a file gives it another time.
const SETTLED: Duration = Duration::from_secs(2);

/// Device and inode: a file, under whatever name.
pub type FileId = (u64, u64);

/// The file of which this was found.
#[must_use]
pub fn file_id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}

/// What changes with a file's content. The inode catches an editor that writes a new file and renames it; the change of
/// status, which no program sets, one that resets the time of modification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileStamp {
    id: FileId,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// Of the file of which this was found. To be asked for before the file is read, so that a change in between is seen.
    #[must_use]
    pub fn of(found: &Metadata) -> Self {
        Self {
            id: file_id(found),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Whether the next change will show. The clock of files is coarse: what changed just now may change again within the
    /// same time.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let since = u64::try_from(self.changed.0).unwrap_or_default();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_secs().saturating_sub(since) >= SETTLED.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, FileTimes};
    use std::path::Path;

    use super::*;

    #[test]
    fn a_change_shows_that_keeps_size_and_time() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        let stamp = |path: &Path| FileStamp::of(&path.metadata().unwrap());
        let write = |path: &Path, text: &str| {
            fs::write(path, text).unwrap();
            let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
            File::options().write(true).open(path).unwrap().set_times(times).unwrap();
        };
        write(&path, "one");
        let first = stamp(&path);
        assert_eq!(stamp(&path), first);
        assert!(!first.is_settled());
        write(&other, "two");
        fs::rename(&other, &path).unwrap();
        assert_ne!(stamp(&path), first);
        assert!(FileStamp { changed: (0, 0), ..first }.is_settled());
    }
}
