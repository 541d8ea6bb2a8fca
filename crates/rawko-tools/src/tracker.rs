//! Records which content of which file each agent has read. `Write` and `Edit` change only what their agent has read.
//!
//! Kept in memory for one run. When a session is resumed, the driver fills it with [`FileTracker::record`] from the
//! outcomes in the journal. An agent has to read a file again if its record is missing.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rawko_core::tool::SeenFile;
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

    /// Parses the hexadecimal form that [`Debug`](fmt::Debug) prints; `None` if `text` has another form.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// The content of each file that each agent has read or written last.
#[derive(Debug, Default)]
pub struct FileTracker {
    known: Mutex<HashMap<(String, String), Digest>>,
}

impl FileTracker {
    /// An empty tracker.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that `agent` has read or written the content with this digest. `path` is the file's name as tools show it:
    /// relative to the project, or absolute outside of it. The result belongs into the call's outcome, so that a resumed
    /// run starts with the same records.
    pub fn record(&self, agent: &str, path: &str, digest: Digest) -> SeenFile {
        self.lock().insert((agent.to_owned(), path.to_owned()), digest);
        SeenFile { path: path.to_owned(), digest: format!("{digest:?}") }
    }

    /// The content that `agent` has last read or written at `path`.
    #[must_use]
    pub fn known(&self, agent: &str, path: &str) -> Option<Digest> {
        self.lock().get(&(agent.to_owned(), path.to_owned())).copied()
    }

    /// A panic of another thread cannot leave the map inconsistent, so a poisoned lock is ignored.
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
        let seen = tracker.record("planner", "a.txt", Digest::of(b"one"));
        assert_eq!(Digest::from_hex(&seen.digest), Some(Digest::of(b"one")));
        assert_eq!(tracker.known("planner", "a.txt"), Some(Digest::of(b"one")));
        assert_eq!(tracker.known("developer", "a.txt"), None);
        tracker.record("planner", "a.txt", Digest::of(b"two"));
        assert_eq!(tracker.known("planner", "a.txt"), Some(Digest::of(b"two")));
    }
}
