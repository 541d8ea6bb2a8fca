//! Handing events to watchers that may be slow or gone: they never hold back the run.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;

use crate::run_event::RunEvent;

/// Events a watcher may be behind before pieces of text are left out for it.
const BEHIND: usize = 4_096;

/// The sending end.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    watchers: Vec<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    sender: mpsc::UnboundedSender<RunEvent>,
    behind: Arc<AtomicUsize>,
}

/// The events of one run, from its start to [`RunEvent::SessionFinished`], which is always the last.
#[derive(Debug)]
pub struct RunEvents {
    receiver: mpsc::UnboundedReceiver<RunEvent>,
    behind: Arc<AtomicUsize>,
}

impl Hub {
    pub(crate) fn watch(&mut self) -> RunEvents {
        let (sender, receiver) = mpsc::unbounded_channel();
        let behind = Arc::new(AtomicUsize::new(0));
        self.watchers.push(Watcher { sender, behind: Arc::clone(&behind) });
        RunEvents { receiver, behind }
    }

    pub(crate) fn tell(&mut self, event: &RunEvent) {
        self.watchers.retain(|watcher| {
            if event.is_droppable() && watcher.behind.load(Ordering::Relaxed) > BEHIND {
                return !watcher.sender.is_closed();
            }
            watcher.behind.fetch_add(1, Ordering::Relaxed);
            watcher.sender.send(event.clone()).is_ok()
        });
    }
}

impl RunEvents {
    /// The next event; `None` when the run is over and everything was told.
    pub async fn next(&mut self) -> Option<RunEvent> {
        let event = self.receiver.recv().await;
        self.behind.fetch_sub(usize::from(event.is_some()), Ordering::Relaxed);
        event
    }
}

impl Stream for RunEvents {
    type Item = RunEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        let polled = self.receiver.poll_recv(cx);
        if let Poll::Ready(Some(_)) = &polled {
            self.behind.fetch_sub(1, Ordering::Relaxed);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_watcher_loses_text_and_nothing_else() {
        let mut hub = Hub::default();
        let mut slow = hub.watch();
        drop(hub.watch());
        for _ in 0..10_000 {
            hub.tell(&RunEvent::TextDelta { agent: "a".into(), text: "x".into() });
        }
        for _ in 0..10 {
            hub.tell(&RunEvent::Warning { message: "w".into() });
        }
        assert_eq!(hub.watchers.len(), 1, "the one that is gone is forgotten");
        drop(hub);
        let (mut texts, mut warnings) = (0, 0);
        while let Some(event) = slow.next().await {
            match event {
                RunEvent::TextDelta { .. } => texts += 1,
                _ => warnings += 1,
            }
        }
        assert_eq!(warnings, 10);
        assert!((BEHIND..BEHIND + 2).contains(&texts), "{texts}");
    }
}
