//! Delivers one answer over one connection.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::answer::{Answer, Chunking, Cut, Delivery, Framing, LineEnd, Say};
use crate::exchange::Asked;
use crate::http;
use crate::render::{self, RenderedAnswer};

/// How often a waiting thread checks whether the server is stopping.
const TICK: Duration = Duration::from_millis(5);

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// Completely; the connection can be used again.
    Kept,
    /// As configured; the connection is closed.
    Closed,
    /// The client closed the connection first.
    ClientLeft,
}

/// A connection on which an answer is sent.
pub(crate) struct Sender<'a> {
    pub(crate) stream: &'a TcpStream,
    pub(crate) stop: &'a AtomicBool,
}

impl Sender<'_> {
    pub(crate) fn send(&self, answer: &Answer, asked: &Asked) -> SendOutcome {
        match answer {
            Answer::Say(say) => self.say(say, asked),
            Answer::Refuse(refusal) => {
                let body = render::refusal(refusal, asked.wire);
                let kind = if body.starts_with('<') { "text/html" } else { "application/json" };
                self.write(
                    &http::response(refusal.status, kind, &refusal.headers, body.as_bytes()),
                    SendOutcome::Kept,
                )
            }
            Answer::Raw(bytes) => self.write(bytes, SendOutcome::Closed),
            Answer::HangUp => SendOutcome::Closed,
            Answer::Silence => self.hold(),
        }
    }

    fn say(&self, say: &Say, asked: &Asked) -> SendOutcome {
        let delivery = &say.delivery;
        if !self.wait(delivery.delay) {
            return SendOutcome::ClientLeft;
        }
        let rendered = RenderedAnswer::new(say, asked);
        if delivery.whole {
            let kind = delivery.content_type.as_deref().unwrap_or("application/json");
            let body = rendered.whole(asked.wire).to_string();
            return self
                .write(&http::response(200, kind, &delivery.headers, body.as_bytes()), SendOutcome::Kept);
        }
        let kind = delivery.content_type.as_deref().unwrap_or("text/event-stream");
        let mut head = http::head(200, kind, &delivery.headers);
        let framing: &[u8] = match delivery.framing {
            Framing::Chunked => b"transfer-encoding: chunked\r\n\r\n",
            Framing::UntilClose => b"connection: close\r\n\r\n",
        };
        head.extend_from_slice(framing);
        if self.write(&head, SendOutcome::Kept) == SendOutcome::ClientLeft {
            return SendOutcome::ClientLeft;
        }
        for (at, piece) in body_pieces(&rendered, asked, delivery).iter().enumerate() {
            let paused = at == 0 || self.wait(delivery.pause);
            if !paused
                || self.write(&framed(piece, delivery.framing), SendOutcome::Kept) == SendOutcome::ClientLeft
            {
                return SendOutcome::ClientLeft;
            }
        }
        self.end(&rendered, asked, delivery)
    }

    fn end(&self, rendered: &RenderedAnswer<'_>, asked: &Asked, delivery: &Delivery) -> SendOutcome {
        if delivery.endless {
            let more = format!("{}\n", rendered.more_text(asked.wire));
            while self.wait(delivery.pause.max(Duration::from_millis(1))) {
                if self.write(&framed(more.as_bytes(), delivery.framing), SendOutcome::Kept)
                    == SendOutcome::ClientLeft
                {
                    break;
                }
            }
            return SendOutcome::ClientLeft;
        }
        match (delivery.cut, delivery.stall, delivery.framing) {
            (_, true, _) => self.hold(),
            (Some(_), false, _) | (None, false, Framing::UntilClose) => SendOutcome::Closed,
            (None, false, Framing::Chunked) => self.write(http::LAST_CHUNK, SendOutcome::Kept),
        }
    }

    fn write(&self, bytes: &[u8], then: SendOutcome) -> SendOutcome {
        match (&mut &*self.stream).write_all(bytes) {
            Ok(()) => then,
            Err(_) => SendOutcome::ClientLeft,
        }
    }

    /// Waits until the client closes the connection or the server stops.
    fn hold(&self) -> SendOutcome {
        while self.wait(TICK) {}
        SendOutcome::ClientLeft
    }

    /// Waits for this time; returns `false` as soon as the client has closed the connection or the server stops.
    fn wait(&self, time: Duration) -> bool {
        let end = std::time::Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return true;
            }
            if self.stop.load(Ordering::Relaxed) || self.client_has_left(left.min(TICK)) {
                return false;
            }
        }
    }

    /// Reads for this time: a client that waits for its answer sends nothing, and one that left has closed the connection.
    fn client_has_left(&self, time: Duration) -> bool {
        if self.stream.set_read_timeout(Some(time)).is_err() {
            return true;
        }
        let read = (&mut &*self.stream).read(&mut [0]);
        let _ = self.stream.set_read_timeout(None);
        match read {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

fn framed(piece: &[u8], framing: Framing) -> Vec<u8> {
    match framing {
        Framing::Chunked => http::chunk(piece),
        Framing::UntilClose => piece.to_vec(),
    }
}

/// Whether an event of Responses ends something: a part, an item, or the response.
fn is_end(event: &str) -> bool {
    let name = event.lines().next().filter(|name| name.starts_with("event: response.")).unwrap_or_default();
    name.ends_with(".done") || name.ends_with(".completed") || name.ends_with(".incomplete")
}

/// The pieces of the body: with noise inserted, line ends converted, split and cut off.
fn body_pieces(rendered: &RenderedAnswer<'_>, asked: &Asked, delivery: &Delivery) -> Vec<Vec<u8>> {
    let mut events = rendered.events(asked.wire);
    if delivery.no_end_mark || delivery.endless {
        events.pop();
    }
    if delivery.endless {
        // The answer goes on, so the end of the message is left out too.
        events.retain(|e| {
            !e.contains("message_delta")
                && !e.contains("\"finish_reason\":\"")
                && !e.contains("\"choices\":[]")
        });
        events.retain(|e| !e.contains("content_block_stop"));
        events.retain(|e| !is_end(e));
    }
    if let Some(Cut::Events(count)) = delivery.cut {
        events.truncate(count);
    }
    let end = match delivery.line_end {
        LineEnd::Lf => "\n",
        LineEnd::CrLf => "\r\n",
        LineEnd::Cr => "\r",
    };
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    if delivery.byte_order_mark {
        blocks.push(b"\xEF\xBB\xBF".to_vec());
    }
    for event in events {
        blocks.extend(delivery.noise.iter().map(|noise| noise.clone().into_bytes()));
        blocks.push(format!("{event}\n").replace('\n', end).into_bytes());
    }
    let mut body = blocks.concat();
    if let Some(Cut::Bytes(count)) = delivery.cut {
        body.truncate(count);
    }
    match delivery.pieces {
        Chunking::Events if !matches!(delivery.cut, Some(Cut::Bytes(_))) => blocks,
        Chunking::Events | Chunking::Whole => vec![body],
        Chunking::Every(size) => body.chunks(size.max(1)).map(<[u8]>::to_vec).collect(),
    }
    .into_iter()
    .filter(|piece| !piece.is_empty())
    .collect()
}
