//! Sends events to consumers. A consumer that is slow or gone never holds back the run.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;

use crate::run::event::RunEvent;

/// With this many unread events, a consumer gets no more pieces of text.
const MAX_UNREAD: usize = 4_096;

/// The sending end.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    consumers: Vec<Consumer>,
}

#[derive(Debug)]
struct Consumer {
    sender: mpsc::UnboundedSender<RunEvent>,
    unread: Arc<AtomicUsize>,
}

/// The events of one run. The last one is always [`RunEvent::SessionFinished`], or
/// [`RunEvent::SessionSuspended`].
#[derive(Debug)]
pub struct RunEvents {
    receiver: mpsc::UnboundedReceiver<RunEvent>,
    unread: Arc<AtomicUsize>,
}

impl Hub {
    pub(crate) fn watch(&mut self) -> RunEvents {
        let (sender, receiver) = mpsc::unbounded_channel();
        let unread = Arc::new(AtomicUsize::new(0));
        self.consumers.push(Consumer { sender, unread: Arc::clone(&unread) });
        RunEvents { receiver, unread }
    }

    pub(crate) fn send(&mut self, event: &RunEvent) {
        self.consumers.retain(|consumer| {
            if event.is_droppable() && consumer.unread.load(Ordering::Relaxed) > MAX_UNREAD {
                return !consumer.sender.is_closed();
            }
            consumer.unread.fetch_add(1, Ordering::Relaxed);
            consumer.sender.send(event.clone()).is_ok()
        });
    }
}

impl RunEvents {
    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<RunEvent> {
        let event = self.receiver.recv().await;
        self.unread.fetch_sub(usize::from(event.is_some()), Ordering::Relaxed);
        event
    }
}

impl Stream for RunEvents {
    type Item = RunEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        let polled = self.receiver.poll_recv(cx);
        if let Poll::Ready(Some(_)) = &polled {
            self.unread.fetch_sub(1, Ordering::Relaxed);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_consumer_loses_text_and_nothing_else() {
        let mut hub = Hub::default();
        let mut slow = hub.watch();
        drop(hub.watch());
        for _ in 0..10_000 {
            hub.send(&RunEvent::TextDelta { agent: "a".into(), text: "x".into() });
        }
        for _ in 0..10 {
            hub.send(&RunEvent::warning("w"));
        }
        assert_eq!(hub.consumers.len(), 1, "the dropped one is removed");
        drop(hub);
        let (mut texts, mut warnings) = (0, 0);
        while let Some(event) = slow.next().await {
            match event {
                RunEvent::TextDelta { .. } => texts += 1,
                _ => warnings += 1,
            }
        }
        assert_eq!(warnings, 10);
        assert!((MAX_UNREAD..MAX_UNREAD + 2).contains(&texts), "{texts}");
    }
}
