//! Whether a path still leads to the file that was read, without reading it again.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use rustix::fs::Stat;

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
    /// How many bytes one is kept as.
    pub const BYTES: usize = 56;

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

    /// The same of what the kernel says of an entry.
    #[must_use]
    pub fn of_stat(found: &Stat) -> Self {
        // Their types differ by system.
        let number = |number: i128| u64::try_from(number).unwrap_or_default();
        let time = |seconds: i128, part: i128| {
            (i64::try_from(seconds).unwrap_or_default(), i64::try_from(part).unwrap_or_default())
        };
        Self {
            id: (number(found.st_dev.into()), number(found.st_ino.into())),
            size: number(found.st_size.into()),
            modified: time(found.st_mtime.into(), found.st_mtime_nsec.into()),
            changed: time(found.st_ctime.into(), found.st_ctime_nsec.into()),
        }
    }

    /// As bytes, to be kept.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let Self { id, size, modified, changed } = self;
        let numbers = [id.0, id.1, size].map(u64::to_le_bytes);
        let times = [modified.0, modified.1, changed.0, changed.1].map(i64::to_le_bytes);
        let mut bytes = [0; Self::BYTES];
        for (to, from) in bytes.chunks_exact_mut(8).zip(numbers.iter().chain(&times)) {
            to.copy_from_slice(from);
        }
        bytes
    }

    /// From these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let mut parts = bytes.chunks_exact(8).map(|part| part.try_into().unwrap_or_default());
        let mut part = || parts.next().unwrap_or_default();
        let id = (u64::from_le_bytes(part()), u64::from_le_bytes(part()));
        let size = u64::from_le_bytes(part());
        let modified = (i64::from_le_bytes(part()), i64::from_le_bytes(part()));
        Self { id, size, modified, changed: (i64::from_le_bytes(part()), i64::from_le_bytes(part())) }
    }

    /// When the file's status was changed.
    #[must_use]
    pub fn changed(&self) -> (i64, i64) {
        self.changed
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
