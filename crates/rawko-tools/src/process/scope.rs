//! Which run gives a call up, so that its end waits for its own calls and not for those of other runs of the process.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

static LAST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static CURRENT: Cell<Option<RunScope>> = const { Cell::new(None) };
}

/// One run of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunScope(u64);

impl RunScope {
    /// That of another run.
    #[must_use]
    pub fn another() -> Self {
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }

    /// Calls that are given up in `work`, on this thread, are this run's.
    pub fn within<T>(self, work: impl FnOnce() -> T) -> T {
        struct Restore(Option<RunScope>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self)));
        work()
    }
}

/// The run that works on this thread, where one is known.
pub(super) fn current() -> Option<RunScope> {
    CURRENT.get()
}
