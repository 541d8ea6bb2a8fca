//! The effects of a run that are under way. The run's own future advances them, so that none outlives it: dropping this
//! ends them, with their commands, and waits until they have ended.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, Abortable, Aborted};
use futures_util::stream::FuturesUnordered;
use rawko_core::session::EffectId;
use rawko_tools::{BoxFuture, LeftOpen, RunScope};

use crate::run::perform::Performer;

/// Effects under way, and what else goes on beside them.
pub(crate) struct RunningEffects {
    performer: Arc<Performer>,
    running: FuturesUnordered<Abortable<BoxFuture<'static, Option<EffectId>>>>,
    handles: BTreeMap<EffectId, AbortHandle>,
    /// Whether nothing is left that has to be ended.
    is_closed: bool,
    /// Whose calls these are, beside other runs of the process.
    scope: RunScope,
}

impl RunningEffects {
    pub(crate) fn new(performer: Arc<Performer>) -> Self {
        Self {
            performer,
            running: FuturesUnordered::new(),
            handles: BTreeMap::new(),
            is_closed: false,
            scope: RunScope::another(),
        }
    }

    /// Performs them.
    pub(crate) fn performer(&self) -> &Arc<Performer> {
        &self.performer
    }

    /// Begins an effect. Nothing of it is done before [`Self::advance`].
    pub(crate) fn begin(&mut self, id: EffectId, effect: impl Future<Output = ()> + Send + 'static) {
        let (handle, registration) = AbortHandle::new_pair();
        let performed: BoxFuture<'static, _> = Box::pin(async move {
            effect.await;
            Some(id)
        });
        self.running.push(Abortable::new(performed, registration));
        self.handles.insert(id, handle);
    }

    /// Lets something go on beside the effects, until the run is over.
    pub(crate) fn accompany(&mut self, work: BoxFuture<'static, ()>) {
        let (_, registration) = AbortHandle::new_pair();
        let worked: BoxFuture<'static, _> = Box::pin(async move {
            work.await;
            None
        });
        self.running.push(Abortable::new(worked, registration));
    }

    /// Gives an effect up.
    pub(crate) fn abandon(&mut self, id: EffectId) {
        if let Some(handle) = self.handles.remove(&id) {
            handle.abort();
        }
    }

    /// Advances everything until something has ended; never returns while nothing is under way.
    pub(crate) async fn advance(&mut self) {
        let (scope, running) = (self.scope, &mut self.running);
        match poll_fn(|context| scope.within(|| running.poll_next_unpin(context))).await {
            Some(Ok(Some(id))) => drop(self.handles.remove(&id)),
            Some(Ok(None) | Err(Aborted)) => {}
            None => std::future::pending().await,
        }
    }

    /// Ends everything, background jobs included, and waits for it. Returns what could not be ended.
    pub(crate) async fn end(&mut self) -> LeftOpen {
        self.give_up();
        let scope = self.scope;
        // A runtime that is shutting down does not wait, so this cannot either.
        tokio::task::spawn_blocking(move || rawko_tools::settle_run(scope)).await.unwrap_or_default()
    }

    /// Nothing begins any more, and [`Self::end`] has ended everything.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    fn give_up(&mut self) {
        self.scope.within(|| {
            self.handles.clear();
            self.running.clear();
            self.performer.guard.end();
            self.performer.end();
        });
    }
}

impl Drop for RunningEffects {
    fn drop(&mut self) {
        if !self.is_closed {
            self.give_up();
            let _ = rawko_tools::settle_run(self.scope);
        }
    }
}
