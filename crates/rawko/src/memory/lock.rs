//! One writer at a time in the memories' folder, over all processes.
//!
//! Owns the lock: advisory, on the open folder itself, so that no file is left and nothing can be left locked. It is waited for, but not
//! for ever: its holder may have been stopped, or mean harm. Reading takes no lock.

use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How long a writer that needs the lock waits for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks whether it is free.
const PAUSE: Duration = Duration::from_millis(5);

/// The result of asking for it.
#[derive(Debug)]
pub(super) enum Lock {
    /// It is held for as long as this lives.
    Held {
        /// The locked folder: closing it unlocks it.
        _folder: OwnedFd,
    },
    /// The file system knows no such locks: then no process is held back.
    Unknown,
    /// Another process still holds it.
    Busy,
}

impl Lock {
    /// Locks the open `folder`, for which it waits no longer than `patience`.
    pub(super) fn take(folder: OwnedFd, patience: Duration) -> Self {
        let begun = Instant::now();
        loop {
            match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Self::Held { _folder: folder },
                Err(Errno::WOULDBLOCK | Errno::INTR) if begun.elapsed() < patience => sleep(PAUSE),
                Err(Errno::WOULDBLOCK | Errno::INTR) => return Self::Busy,
                Err(_) => return Self::Unknown,
            }
        }
    }

    /// Whether no other process writes as long as this lives.
    pub(super) fn is_held(&self) -> bool {
        match self {
            Self::Held { .. } => true,
            Self::Unknown | Self::Busy => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let take = |patience| Lock::take(std::fs::File::open(dir.path()).unwrap().into(), patience);
        let first = take(Duration::ZERO);
        assert!(first.is_held());
        assert!(matches!(take(Duration::ZERO), Lock::Busy));
        let begun = Instant::now();
        assert!(matches!(take(Duration::from_millis(30)), Lock::Busy));
        assert!(begun.elapsed() >= Duration::from_millis(30));
        drop(first);
        assert!(take(Duration::ZERO).is_held());
    }
}
