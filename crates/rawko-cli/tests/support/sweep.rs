//! Many cases in one test, some at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Does `work` for every case, some at a time: a case waits more than it works.
pub(crate) fn each<T: Sync>(cases: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(case);
                }
            });
        }
    });
}
