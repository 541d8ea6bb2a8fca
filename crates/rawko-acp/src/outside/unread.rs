//! The answers that a program has not read yet, which wait in memory: bounded by what they answer.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// Bytes of questions whose answers may wait. The longest line fits.
const MOST_BYTES: usize = 40 * 1024 * 1024;
/// What an answer takes besides the bytes of its question, so that about 10,000 short ones may wait.
const OVERHEAD: usize = 4 * 1024;

/// The questions whose answers are not written yet.
#[derive(Debug)]
pub(super) struct Unread {
    room: Semaphore,
    /// What each takes, the oldest first.
    sizes: Mutex<VecDeque<usize>>,
}

impl Default for Unread {
    fn default() -> Self {
        Self { room: Semaphore::new(MOST_BYTES), sizes: Mutex::default() }
    }
}

impl Unread {
    fn sizes(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for the answer to `question`.
    pub(super) async fn room_for(&self, question: &str) {
        let size = (question.len() + OVERHEAD).min(MOST_BYTES);
        // It is never closed.
        if let Ok(permits) = self.room.acquire_many(u32::try_from(size).unwrap_or(u32::MAX)).await {
            permits.forget();
            self.sizes().push_back(size);
        }
    }

    /// An answer was written.
    pub(super) fn answered(&self) {
        if let Some(size) = self.sizes().pop_front() {
            self.room.add_permits(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn the_room_is_bounded_and_comes_back() {
        let unread = Unread::default();
        let taken = (0..).take_while(|_| unread.room_for("").now_or_never().is_some()).count();
        assert_eq!(taken, MOST_BYTES / OVERHEAD);
        unread.answered();
        assert!(unread.room_for("").now_or_never().is_some());
        (0..taken).for_each(|_| unread.answered());
        // More answers than questions make no room of their own.
        unread.answered();
        let longest = "x".repeat(MOST_BYTES);
        assert!(unread.room_for(&longest).now_or_never().is_some());
        assert!(unread.room_for("").now_or_never().is_none());
    }
}
