//! What each agent has read: the ground on which `Write` and `Edit` may stand.
//!
//! Kept per run and agent, in memory. When a session is resumed the driver fills it with [`FileTracker::record`] from
//! the outcomes in the journal; what it does not know an agent has to read again before it changes it, which is the
//! safe side.

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
}

impl Digest {
    /// Reads what [`Digest`] prints as; `None` where `text` is no digest.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
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
    /// relative to the project, or absolute outside of it. What it gives belongs into the call's outcome, so that a
    /// resumed run can begin with the same knowledge.
    pub fn record(&self, agent: &str, path: &str, digest: Digest) -> SeenFile {
        self.lock().insert((agent.to_owned(), path.to_owned()), digest);
        SeenFile { path: path.to_owned(), digest: format!("{digest:?}") }
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
        let seen = tracker.record("planner", "a.txt", Digest::of(b"one"));
        assert_eq!(Digest::from_hex(&seen.digest), Some(Digest::of(b"one")));
        assert_eq!(tracker.known("planner", "a.txt"), Some(Digest::of(b"one")));
        assert_eq!(tracker.known("developer", "a.txt"), None);
        tracker.record("planner", "a.txt", Digest::of(b"two"));
        assert_eq!(tracker.known("planner", "a.txt"), Some(Digest::of(b"two")));
    }
}
