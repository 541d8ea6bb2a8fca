//! The delivery of one answer over one connection.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::answer::{Answer, Cut, Delivery, Framing, LineEnd, Pieces, Say};
use crate::exchange::Asked;
use crate::http;
use crate::speak::{self, Speech};

/// How often a thread that waits looks whether the server is to end.
const TICK: Duration = Duration::from_millis(5);

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Whole; the connection can be used again.
    Kept,
    /// As told, with the connection closed.
    Closed,
    /// The client closed the connection first.
    ClientLeft,
}

/// A connection being answered on.
pub(crate) struct Sender<'a> {
    pub(crate) stream: &'a TcpStream,
    pub(crate) stop: &'a AtomicBool,
}

impl Sender<'_> {
    pub(crate) fn send(&self, answer: &Answer, asked: &Asked) -> Outcome {
        match answer {
            Answer::Say(say) => self.say(say, asked),
            Answer::Refuse(refusal) => {
                let body = speak::refusal(refusal, asked.wire);
                let kind = if body.starts_with('<') { "text/html" } else { "application/json" };
                self.write(
                    &http::response(refusal.status, kind, &refusal.headers, body.as_bytes()),
                    Outcome::Kept,
                )
            }
            Answer::Raw(bytes) => self.write(bytes, Outcome::Closed),
            Answer::HangUp => Outcome::Closed,
            Answer::Silence => self.hold(),
        }
    }

    fn say(&self, say: &Say, asked: &Asked) -> Outcome {
        let delivery = &say.delivery;
        if !self.wait(delivery.delay) {
            return Outcome::ClientLeft;
        }
        let speech = Speech::new(say, asked);
        if delivery.whole {
            let kind = delivery.content_type.as_deref().unwrap_or("application/json");
            let body = speech.whole(asked.wire).to_string();
            return self.write(&http::response(200, kind, &delivery.headers, body.as_bytes()), Outcome::Kept);
        }
        let kind = delivery.content_type.as_deref().unwrap_or("text/event-stream");
        let mut head = http::head(200, kind, &delivery.headers);
        let framing: &[u8] = match delivery.framing {
            Framing::Chunked => b"transfer-encoding: chunked\r\n\r\n",
            Framing::UntilClose => b"connection: close\r\n\r\n",
        };
        head.extend_from_slice(framing);
        if self.write(&head, Outcome::Kept) == Outcome::ClientLeft {
            return Outcome::ClientLeft;
        }
        for (at, piece) in body_pieces(&speech, asked, delivery).iter().enumerate() {
            let paused = at == 0 || self.wait(delivery.pause);
            if !paused || self.write(&framed(piece, delivery.framing), Outcome::Kept) == Outcome::ClientLeft {
                return Outcome::ClientLeft;
            }
        }
        self.end(&speech, asked, delivery)
    }

    fn end(&self, speech: &Speech<'_>, asked: &Asked, delivery: &Delivery) -> Outcome {
        if delivery.endless {
            let more = format!("{}\n", speech.more_text(asked.wire));
            while self.wait(delivery.pause.max(Duration::from_millis(1))) {
                if self.write(&framed(more.as_bytes(), delivery.framing), Outcome::Kept)
                    == Outcome::ClientLeft
                {
                    break;
                }
            }
            return Outcome::ClientLeft;
        }
        match (delivery.cut, delivery.stall, delivery.framing) {
            (_, true, _) => self.hold(),
            (Some(_), false, _) | (None, false, Framing::UntilClose) => Outcome::Closed,
            (None, false, Framing::Chunked) => self.write(http::LAST_CHUNK, Outcome::Kept),
        }
    }

    fn write(&self, bytes: &[u8], then: Outcome) -> Outcome {
        match (&mut &*self.stream).write_all(bytes) {
            Ok(()) => then,
            Err(_) => Outcome::ClientLeft,
        }
    }

    /// Waits until the client closes the connection, or the server ends.
    fn hold(&self) -> Outcome {
        while self.wait(TICK) {}
        Outcome::ClientLeft
    }

    /// Waits so long; `false` as soon as the client has left or the server ends.
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

    /// Listens for that long: a client that waits for an answer says nothing, one that left has closed.
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

/// The body as it is to arrive: noise in its places, lines ended, cut up and cut off.
fn body_pieces(speech: &Speech<'_>, asked: &Asked, delivery: &Delivery) -> Vec<Vec<u8>> {
    let mut events = speech.events(asked.wire);
    if delivery.no_end_mark || delivery.endless {
        events.pop();
    }
    if delivery.endless {
        // Without the end of the message too: it goes on.
        events.retain(|e| {
            !e.contains("message_delta")
                && !e.contains("\"finish_reason\":\"")
                && !e.contains("\"choices\":[]")
        });
        events.retain(|e| !e.contains("content_block_stop"));
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
        Pieces::Events if !matches!(delivery.cut, Some(Cut::Bytes(_))) => blocks,
        Pieces::Events | Pieces::Whole => vec![body],
        Pieces::Every(size) => body.chunks(size.max(1)).map(<[u8]>::to_vec).collect(),
    }
    .into_iter()
    .filter(|piece| !piece.is_empty())
    .collect()
}
