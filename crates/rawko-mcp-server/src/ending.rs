//! The end of runs whose server ends: each is left so that `rawko resume` goes on with it. This is the only place that knows
//! how.

use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use rawko::{Error, Outcome, Run};

use crate::runs::ServedRun;

type RunFuture = Pin<Box<dyn Future<Output = Result<Outcome, Error>> + Send>>;

/// A run that is not closed as cancelled when it is dropped: its session stays without an end, as after a crash, and can
/// be resumed.
pub(crate) struct ResumableRun(ManuallyDrop<RunFuture>);

impl ResumableRun {
    pub(crate) fn new(run: Run) -> Self {
        Self(ManuallyDrop::new(run.into_future()))
    }
}

impl Future for ResumableRun {
    type Output = Result<Outcome, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.0.as_mut().poll(cx);
        if polled.is_ready() {
            // What has ended holds nothing that must stay open.
            let done: RunFuture = Box::pin(std::future::pending());
            drop(std::mem::replace(&mut *self.0, done));
        }
        polled
    }
}

/// Ends these runs and all commands that they began. The journals hold everything that happened.
pub(crate) async fn suspend(runs: Vec<ServedRun>) {
    for run in runs {
        run.work.abort();
        let _ = run.work.await;
    }
    rawko::tools::kill_all_now();
}
