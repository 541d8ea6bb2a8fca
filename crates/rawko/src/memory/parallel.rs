//! The same work on many things, on a few threads.

use std::num::NonZeroUsize;
use std::thread;

/// Things below which a thread is not worth its start.
const WORTH: usize = 512;
/// Most threads.
const MAX_THREADS: usize = 8;

/// What `work` makes of all of `items`, in their order. Each thread is given one run of them.
pub(super) fn in_runs<T: Sync, R: Send>(items: &[T], work: impl Fn(&[T]) -> Vec<R> + Sync) -> Vec<R> {
    let threads = available().min(items.len() / WORTH);
    if threads < 2 {
        return work(items);
    }
    let run = items.len().div_ceil(threads);
    thread::scope(|scope| {
        let mut runs = items.chunks(run);
        let own = runs.next().unwrap_or_default();
        let work = &work;
        let others: Vec<_> = runs.map(|run| (run, scope.spawn(move || work(run)))).collect();
        let mut all = work(own);
        for (run, other) in others {
            // A thread that broke has its run done again here, where a panic shows.
            all.extend(other.join().unwrap_or_else(|_| work(run)));
        }
        all
    })
}

fn available() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_stays() {
        for count in [0, 1, WORTH * 2, WORTH * 5 + 3] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(in_runs(&items, <[usize]>::to_vec), items);
        }
    }
}
