//! The same work on many things, on a few threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// What `look` makes of each of `items`, in no order, and what `work` makes: this thread does that first and then joins the others.
pub(super) fn while_working<T: Sync, R: Send, W>(
    items: &[T],
    look: impl Fn(&T) -> R + Sync,
    work: impl FnOnce() -> W,
) -> (Vec<R>, W) {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut all = Vec::new();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            all.push(look(item));
        }
        all
    };
    let threads = if items.len() < 2 { 1 } else { available() };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let done = work();
        let mut all = take();
        for other in others {
            // What a thread that broke had taken is lost: all of it is done again here, where a panic shows.
            match other.join() {
                Ok(more) => all.extend(more),
                Err(_) => all = items.iter().map(&look).collect(),
            }
        }
        (all, done)
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
            let (mut looked, done) = while_working(&items, |item| *item, || "done");
            looked.sort_unstable();
            assert_eq!((looked, done), (items, "done"));
        }
    }
}
