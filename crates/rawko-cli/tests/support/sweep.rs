//! Many cases in one test: which of them are tried, and how many at a time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether every case of a sweep is tried: under nextest's profile `thorough`, or where `RAWKO_THOROUGH` is set.
pub(crate) fn is_thorough() -> bool {
    std::env::var_os("RAWKO_THOROUGH").is_some()
        || std::env::var("NEXTEST_PROFILE").is_ok_and(|name| name == "thorough")
}

/// The cases that are tried: the first of each kind, or all of them if the sweep [is thorough](is_thorough).
pub(crate) fn sweep<T, K: Ord>(cases: Vec<T>, kind: impl Fn(&T) -> K) -> Vec<T> {
    let mut seen = BTreeSet::new();
    cases.into_iter().filter(|case| seen.insert(kind(case)) || is_thorough()).collect()
}

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
