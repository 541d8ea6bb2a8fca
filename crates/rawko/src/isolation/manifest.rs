//! What was copied, so that a later copy of the same folder can be made of an earlier one: only what has changed since, on
//! either side, is copied again.
//!
//! An agent may have written to the earlier copy, and may have set a file's size and time of modification to what they were.
//! No program sets the time at which its status was changed.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rawko_tools::FileStamp;
use rustix::fs::{AtFlags, Stat, statat};

/// How long it may take until the clock of files has moved on. It ticks every few milliseconds.
const TICKS: Duration = Duration::from_millis(200);

/// The files of a copy, by their paths: what each was copied from, and what it is.
#[derive(Debug, Default)]
pub(super) struct Manifest(HashMap<PathBuf, (FileStamp, FileStamp)>);

impl Manifest {
    /// That in the file `path`; an empty one where it is missing or not whole.
    pub(super) fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_default();
        let mut files = HashMap::new();
        let mut rest = bytes.as_slice();
        let stamps = 2 * FileStamp::BYTES;
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
            let Some((record, after)) =
                length.checked_add(stamps).and_then(|all| after.split_at_checked(all))
            else {
                return Self::default();
            };
            let (Some((from, later)), path) = (record.split_first_chunk(), record.get(stamps..)) else {
                break;
            };
            let (Some((to, _)), Some(path)) = (later.split_first_chunk(), path) else { break };
            let stamps = (FileStamp::from_bytes(from), FileStamp::from_bytes(to));
            files.insert(PathBuf::from(OsStr::from_bytes(path)), stamps);
            rest = after;
        }
        Self(files)
    }

    /// Writes it to the file `path`, when the next change of any file of the copy will show.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let latest = self.0.values().map(|(_, to)| to.changed()).max().unwrap_or_default();
        let begun = Instant::now();
        while begun.elapsed() < TICKS {
            std::fs::write(path, "")?;
            if FileStamp::of(&path.metadata()?).changed() > latest {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut bytes = Vec::with_capacity(self.0.len() * (4 + 2 * FileStamp::BYTES + 40));
        for (path, (from, to)) in &self.0 {
            let path = path.as_os_str().as_bytes();
            bytes.extend(u32::try_from(path.len()).unwrap_or_default().to_le_bytes());
            bytes.extend(from.to_bytes());
            bytes.extend(to.to_bytes());
            bytes.extend(path);
        }
        std::fs::write(path, bytes)
    }

    /// Whether the file at `path` in the folder `to` is still the copy of the one that is like `from` now.
    pub(super) fn holds(
        &self,
        path: &Path,
        from: &Stat,
        to: impl std::os::fd::AsFd,
    ) -> Option<(FileStamp, FileStamp)> {
        let (was, copy) = self.0.get(path)?;
        let name = path.file_name()?;
        let now = statat(to, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (*was == FileStamp::of_stat(from) && *copy == FileStamp::of_stat(&now)).then_some((*was, *copy))
    }

    /// Adds what was copied.
    pub(super) fn extend(&mut self, copied: impl IntoIterator<Item = (PathBuf, (FileStamp, FileStamp))>) {
        self.0.extend(copied);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
