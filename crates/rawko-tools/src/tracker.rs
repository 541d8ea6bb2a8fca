//! What each agent has read: the ground on which `Write` and `Edit` may stand.
//!
//! Kept per run and agent, in memory. When a session is resumed it starts empty unless the driver fills it with
//! [`FileTracker::record`] from the journal: an agent then has to read a file again before it changes it, which
//! is the safe side.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

/// SHA-256 of a file's content.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Which content of which file each agent knows.
#[derive(Debug, Default)]
pub struct FileTracker {
    known: Mutex<HashMap<(String, String), Digest>>,
}

impl FileTracker {
    /// A tracker that knows of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `agent` has seen, or written, the content with this digest. `path` is the file's name as tools show it:
    /// relative to the project, or absolute outside of it.
    pub fn record(&self, agent: &str, path: &str, digest: Digest) {
        self.lock().insert((agent.to_owned(), path.to_owned()), digest);
    }

    /// The content that `agent` knows of `path`.
    #[must_use]
    pub fn known(&self, agent: &str, path: &str) -> Option<Digest> {
        self.lock().get(&(agent.to_owned(), path.to_owned())).copied()
    }

    /// A panic of another thread cannot leave a map half inserted into: the lock is taken all the same.
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Digest>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_agent_knows_what_it_has_seen_itself() {
        let tracker = FileTracker::new();
        tracker.record("planner", "a.txt", Digest::of(b"one"));
        assert_eq!(tracker.known("planner", "a.txt"), Some(Digest::of(b"one")));
        assert_eq!(tracker.known("developer", "a.txt"), None);
        tracker.record("planner", "a.txt", Digest::of(b"two"));
        assert_eq!(tracker.known("planner", "a.txt"), Some(Digest::of(b"two")));
    }
}
