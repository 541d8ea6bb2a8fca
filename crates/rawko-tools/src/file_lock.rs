//! A lock that one holder has at a time, over all processes: a `flock` on an open file or folder.
//!
//! It is advisory, and belongs to the open file. So it ends when that is closed, also by a kill, and a child that was given
//! the open file holds it too. (A session's lock is of another kind, because no child may hold it: see `journal/lock.rs` in
//! `rawko`.)

use std::fs::{File, TryLockError};
use std::io;
use std::time::{Duration, Instant};

/// The first pause between two tries.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A lock, until it is dropped.
#[derive(Debug)]
pub struct FileLock(File);

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum FileLockError {
    /// Another holder still has it.
    #[error("another process holds the lock")]
    Held,
    /// It cannot be had: the file system may know no such locks.
    #[error(transparent)]
    Unknown(#[from] io::Error),
}

impl FileLock {
    /// Locks an open file or folder, for which it waits no longer than `patience`.
    ///
    /// # Errors
    /// [`FileLockError::Held`] if others have it for that long.
    pub fn take(file: impl Into<File>, patience: Duration) -> Result<Self, FileLockError> {
        let file = file.into();
        let until = Instant::now() + patience;
        let mut pause = LOOK_AGAIN;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(FileLockError::Held);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// The same for those who go on without a lock where the file system knows none: `None` there.
    ///
    /// # Errors
    /// [`FileLockError::Held`] if others have it for that long.
    pub fn take_if_known(file: impl Into<File>, patience: Duration) -> Result<Option<Self>, FileLockError> {
        match Self::take(file, patience) {
            Ok(lock) => Ok(Some(lock)),
            Err(FileLockError::Unknown(_)) => Ok(None),
            Err(FileLockError::Held) => Err(FileLockError::Held),
        }
    }

    /// Locks an open file or folder, however long others have it.
    ///
    /// # Errors
    /// If it cannot be locked.
    pub fn wait_for(file: impl Into<File>) -> io::Result<Self> {
        let file = file.into();
        file.lock()?;
        Ok(Self(file))
    }

    /// The open file. A process that has a copy of it holds the lock too.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Ends it, whatever process has a copy of the open file.
    pub fn release(&self) {
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::open(dir.path()).unwrap();
        let take = |patience| FileLock::take_if_known(open(), patience);
        let first = take(Duration::ZERO).unwrap().unwrap();
        assert!(matches!(take(Duration::ZERO), Err(FileLockError::Held)));
        let begun = Instant::now();
        assert!(matches!(take(Duration::from_millis(30)), Err(FileLockError::Held)));
        assert!(begun.elapsed() >= Duration::from_millis(30));
        let copy = first.file().try_clone().unwrap();
        drop(first);
        assert!(matches!(take(Duration::ZERO), Err(FileLockError::Held)), "a copy holds it");
        FileLock(copy).release();
        assert!(take(Duration::ZERO).unwrap().is_some());
        FileLock::wait_for(open()).unwrap();
    }
}
