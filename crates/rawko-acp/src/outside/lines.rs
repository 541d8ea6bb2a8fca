//! The lines of an agent's program: one JSON message each, of bounded length. A program that prints something else is
//! forgiven a few lines, because some print a greeting.
//!
//! A program that asks and does not read the answers is not listened to until it has read some. That blocks a program of
//! one thread for good, so there is an end to it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::{RawJsonRpcMessage, TransportFrame};
use futures_util::{Sink, Stream, sink, stream};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::unread::Unread;

/// Bytes of a line: room for a whole file in a diff.
const LONGEST_LINE: u64 = 32 * 1024 * 1024;
/// Lines that are no messages and that are left out.
const STRAY_LINES: usize = 20;
/// Characters of such a line in an error.
const SHOWN: usize = 120;
/// How long a program may leave all the answers unread that [`Unread`] has room for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both directions of the program's line.
pub(super) fn split(
    line: UnixStream,
) -> (
    impl Sink<String, Error = io::Error> + Send + 'static,
    impl Stream<Item = io::Result<String>> + Send + 'static,
) {
    split_with(line, PATIENCE)
}

fn split_with(
    line: UnixStream,
    patience: Duration,
) -> (
    impl Sink<String, Error = io::Error> + Send + 'static,
    impl Stream<Item = io::Result<String>> + Send + 'static,
) {
    let (read, write) = line.into_split();
    let unread = Arc::new(Unread::default());
    let incoming =
        Incoming { reader: Some(BufReader::new(read)), stray: 0, unread: Arc::clone(&unread), patience };
    (Box::pin(sink::unfold((write, unread), send)), Box::pin(stream::unfold(incoming, next)))
}

struct Incoming {
    /// `None` after an error: what follows is not read.
    reader: Option<BufReader<OwnedReadHalf>>,
    stray: usize,
    unread: Arc<Unread>,
    patience: Duration,
}

impl Incoming {
    /// Waits, not for ever, until there is room for the answer to a question.
    async fn has_room(&self, question: &str) -> bool {
        tokio::time::timeout(self.patience, self.unread.room_for(question)).await.is_ok()
    }
}

type Outgoing = (OwnedWriteHalf, Arc<Unread>);

async fn send((mut write, unread): Outgoing, line: String) -> io::Result<Outgoing> {
    let is_answer =
        matches!(TransportFrame::parse_json(&line), TransportFrame::Single(RawJsonRpcMessage::Response(_)));
    let mut bytes = line.into_bytes();
    bytes.push(b'\n');
    write.write_all(&bytes).await?;
    if is_answer {
        unread.answered();
    }
    Ok((write, unread))
}

/// The next message; `None` at the end.
async fn next(mut incoming: Incoming) -> Option<(io::Result<String>, Incoming)> {
    let mut reader = incoming.reader.take()?;
    loop {
        let mut bytes = Vec::new();
        let read = (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut bytes).await;
        let wrong = match read {
            Ok(0) => return None,
            Ok(_) if bytes.last() == Some(&b'\n') => {
                let line = String::from_utf8_lossy(&bytes).trim().to_owned();
                if line.is_empty() {
                    continue;
                }
                // An answer to anything else would name no request, so the program could do nothing with it.
                let frame = line.starts_with('{').then(|| TransportFrame::parse_json(&line));
                if let Some(TransportFrame::Single(message)) = frame {
                    let is_request = matches!(message, RawJsonRpcMessage::Request(_));
                    if !is_request || incoming.has_room(&line).await {
                        incoming.reader = Some(reader);
                        return Some((Ok(line), incoming));
                    }
                    "it asks again and again, and reads no answers".to_owned()
                } else {
                    incoming.stray += 1;
                    if incoming.stray <= STRAY_LINES {
                        continue;
                    }
                    let shown: String = line.chars().take(SHOWN).collect();
                    format!("it prints what is no message of the protocol: {shown}")
                }
            }
            Ok(count) if u64::try_from(count).is_ok_and(|count| count >= LONGEST_LINE) => {
                format!("it printed a line of more than {} MiB", LONGEST_LINE / 1024 / 1024)
            }
            // The end, in the middle of a line.
            Ok(_) => return None,
            Err(error) => return Some((Err(error), incoming)),
        };
        return Some((Err(io::Error::new(io::ErrorKind::InvalidData, wrong)), incoming));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{SinkExt as _, StreamExt as _};
    use serde_json::json;

    async fn read(text: &[u8]) -> Vec<Result<String, String>> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let text = text.to_vec();
        let writing = tokio::spawn(async move {
            // The reader may stop before the end.
            let _ = theirs.write_all(&text).await;
        });
        let (_outgoing, incoming) = split(ours);
        let lines = incoming.map(|line| line.map_err(|error| error.to_string())).collect().await;
        writing.abort();
        lines
    }

    #[tokio::test]
    async fn messages_are_read_and_a_greeting_is_left_out() {
        let (one, two) = (said("one"), said("two"));
        let text = format!("Welcome!\n\n{one}\n[1]\n{{\"a\":1}}\n{two}\n{{\"cut");
        assert_eq!(read(text.as_bytes()).await, [Ok(one), Ok(two)]);
    }

    fn said(method: &str) -> String {
        json!({"jsonrpc": "2.0", "method": method}).to_string()
    }

    fn question(id: usize) -> String {
        json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission"}).to_string()
    }

    #[tokio::test]
    async fn a_program_that_reads_no_answers_is_not_listened_to() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (mut outgoing, mut incoming) = split_with(ours, Duration::from_millis(200));
        let asking = tokio::spawn(async move {
            let mut id = 0;
            while theirs.write_all(format!("{}\n", question(id)).as_bytes()).await.is_ok() {
                id += 1;
            }
        });
        // What the connection does: it goes on reading while an answer cannot be written.
        let answering = tokio::spawn(async move {
            let answer = json!({"jsonrpc": "2.0", "id": 0, "result": {}}).to_string();
            while outgoing.send(answer.clone()).await.is_ok() {}
        });
        // Answers fill the line first.
        let mut heard = 0;
        let error = loop {
            match incoming.next().await.unwrap() {
                Ok(_) => heard += 1,
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("reads no answers"), "{error}");
        assert!(heard < 100_000, "{heard} questions were taken");
        assert!(incoming.next().await.is_none(), "and no more");
        drop(incoming);
        answering.abort();
        asking.abort();
    }

    #[tokio::test]
    async fn a_program_that_reads_its_answers_may_ask_as_often_as_it_likes() {
        const QUESTIONS: usize = 12_000;
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut outgoing, mut incoming) = split_with(ours, PATIENCE);
        let (reads, mut asks) = theirs.into_split();
        let asking = tokio::spawn(async move {
            for id in 0..QUESTIONS {
                asks.write_all(format!("{}\n{}\n", question(id), said("session/update")).as_bytes())
                    .await
                    .unwrap();
            }
            asks
        });
        let reading = tokio::spawn(async move {
            let mut lines = BufReader::new(reads).lines();
            for _ in 0..QUESTIONS {
                lines.next_line().await.unwrap().unwrap();
            }
        });
        let mut heard = 0;
        while heard < 2 * QUESTIONS {
            let line = incoming.next().await.unwrap().unwrap();
            heard += 1;
            if line.contains("\"id\"") {
                outgoing.send(json!({"jsonrpc": "2.0", "id": 0, "result": {}}).to_string()).await.unwrap();
            }
        }
        reading.await.unwrap();
        drop(asking.await.unwrap());
    }

    #[tokio::test]
    async fn a_program_that_prints_something_else_is_an_error() {
        let lines = read("garbage\n".repeat(1_000).as_bytes()).await;
        assert_eq!(lines.len(), 1);
        assert!(lines[0].as_ref().unwrap_err().contains("no message of the protocol: garbage"), "{lines:?}");
        let endless = vec![b'x'; usize::try_from(LONGEST_LINE).unwrap() + 1];
        let lines = read(&endless).await;
        assert!(lines[0].as_ref().unwrap_err().contains("a line of more than 32 MiB"), "{lines:?}");
    }
}
