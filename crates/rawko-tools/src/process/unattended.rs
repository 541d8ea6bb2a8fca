//! Work on threads that may block, whose end [`settle`](super::settle) waits for where nobody awaits it any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::{AbortHandle, JoinError};

use super::registry::{self, LeftWork};

/// Does `work` on a thread that may block. If the future is dropped, work that has not begun is not done, and
/// [`settle`](crate::settle) waits for work that has; its result is dropped before.
///
/// # Errors
/// If the work panics, or its runtime is shutting down.
pub async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    let shared = Shared::default();
    // In this order, the work and what it holds are dropped before its end is noted.
    let at_end = NotesEnd(shared.clone());
    let results = shared.clone();
    let working = tokio::task::spawn_blocking(move || {
        results.finish(work());
        drop(at_end);
    });
    let leaving = Leaves { shared: shared.clone(), working: working.abort_handle() };
    working.await?;
    let result = shared.lock().result.take();
    drop(leaving);
    match result {
        Some(result) => Ok(result),
        // Only work that nobody awaits leaves none.
        None => std::future::pending().await,
    }
}

struct Shared<T>(Arc<Mutex<Work<T>>>);

struct Work<T> {
    result: Option<T>,
    /// Nobody awaits it any more.
    left: Option<LeftWork>,
    has_ended: bool,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Work { result: None, left: None, has_ended: false })))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Work<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, result: T) {
        let mut work = self.lock();
        if work.left.is_some() {
            drop(work);
            drop(result);
        } else {
            work.result = Some(result);
        }
    }
}

/// Notes that the work has ended, was given up before it began, or panicked.
struct NotesEnd<T>(Shared<T>);

impl<T> Drop for NotesEnd<T> {
    fn drop(&mut self) {
        let mut work = self.0.lock();
        work.has_ended = true;
        if let Some(left) = &work.left {
            registry::left_work_ended(left);
        }
    }
}

/// Leaves the work to itself.
struct Leaves<T> {
    shared: Shared<T>,
    working: AbortHandle,
}

impl<T> Drop for Leaves<T> {
    fn drop(&mut self) {
        let mut work = self.shared.lock();
        if !work.has_ended {
            work.left = Some(registry::work_left());
        }
        let result = work.result.take();
        drop(work);
        drop(result);
        self.working.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::super::{LeftOpen, RunScope};
    use super::*;

    struct SetOnDrop(Arc<AtomicBool>);

    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn what_is_awaited_gives_its_result() {
        assert_eq!(on_thread(|| 42).await.ok(), Some(42));
        assert!(on_thread(|| assert_eq!(1, 2, "broken")).await.is_err_and(|error| error.is_panic()));
    }

    #[tokio::test]
    async fn work_that_is_left_is_waited_for_and_its_result_is_dropped() {
        let (began, begins) = mpsc::channel();
        let (go, waits) = mpsc::channel::<()>();
        let is_dropped = Arc::new(AtomicBool::new(false));
        let result = SetOnDrop(Arc::clone(&is_dropped));
        let mut working = Box::pin(on_thread(move || {
            began.send(()).unwrap();
            waits.recv().unwrap();
            result
        }));
        assert!(futures_util::poll!(&mut working).is_pending());
        begins.recv().unwrap();
        drop(working);
        assert!(!is_dropped.load(Ordering::SeqCst), "it still works");
        go.send(()).unwrap();
        let _ = super::super::settle();
        assert!(is_dropped.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_run_waits_for_its_own_work_and_reports_it() {
        let (own, other) = (RunScope::another(), RunScope::another());
        let (began, begins) = mpsc::channel();
        let (go, waits) = mpsc::channel::<()>();
        let mut working = Box::pin(on_thread(move || {
            began.send(()).unwrap();
            waits.recv().unwrap();
        }));
        assert!(futures_util::poll!(&mut working).is_pending());
        begins.recv().unwrap();
        own.within(|| drop(working));
        let open_of = |run| registry::settle_within(Duration::ZERO, run);
        let one = LeftOpen { commands: 0, works: 1 };
        assert_eq!((open_of(Some(own)), open_of(None)), (one, one));
        assert!(open_of(Some(other)).is_nothing(), "another run does not wait for it");
        go.send(()).unwrap();
        assert!(super::super::settle_run(own).is_nothing());
    }
}
