//! The lines of an agent's program: one JSON message each, of bounded length. A program that prints something else is
//! forgiven a few lines, because some print a greeting.

use std::io;

use futures_util::{Sink, Stream, sink, stream};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Bytes of a line: room for a whole file in a diff.
const LONGEST_LINE: u64 = 32 * 1024 * 1024;
/// Lines that are no messages and that are left out.
const STRAY_LINES: usize = 20;
/// Characters of such a line in an error.
const SHOWN: usize = 120;

/// Both directions of the program's line.
pub(super) fn split(
    line: UnixStream,
) -> (
    impl Sink<String, Error = io::Error> + Send + 'static,
    impl Stream<Item = io::Result<String>> + Send + 'static,
) {
    let (read, write) = line.into_split();
    let incoming = stream::unfold(Incoming { reader: Some(BufReader::new(read)), stray: 0 }, next);
    (Box::pin(sink::unfold(write, send)), Box::pin(incoming))
}

struct Incoming {
    /// `None` after an error: what follows is not read.
    reader: Option<BufReader<OwnedReadHalf>>,
    stray: usize,
}

async fn send(mut write: OwnedWriteHalf, line: String) -> io::Result<OwnedWriteHalf> {
    let mut bytes = line.into_bytes();
    bytes.push(b'\n');
    write.write_all(&bytes).await?;
    Ok(write)
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
                if line.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(&line).is_ok() {
                    incoming.reader = Some(reader);
                    return Some((Ok(line), incoming));
                }
                incoming.stray += 1;
                if incoming.stray <= STRAY_LINES {
                    continue;
                }
                let shown: String = line.chars().take(SHOWN).collect();
                format!("it prints what is no message of the protocol: {shown}")
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
    use futures_util::StreamExt as _;

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
        let lines = read(b"Welcome!\n\n{\"a\":1}\n[1]\n{\"b\":2}\n{\"cut").await;
        assert_eq!(lines, [Ok("{\"a\":1}".to_owned()), Ok("{\"b\":2}".to_owned())]);
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
