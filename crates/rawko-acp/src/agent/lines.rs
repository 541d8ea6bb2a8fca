//! The transport: one message a line, of bounded length. Standard output carries nothing else.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::{Sink, Stream, sink, stream};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, ReadBuf,
};
use tokio::sync::watch;

use super::outbox::Budget;

/// The longest line that is read, in bytes: a prompt with a few pictures fits.
const LONGEST: usize = 48 * 1024 * 1024;
/// What stands in the place of a longer one. It is no JSON, so the client gets an error.
const TOO_LONG: &str = "a line of more than 48 MiB";

/// An input that says when it has ended, at once: what the connection still does then may wait for a client that does not read.
pub(super) struct Watched<R> {
    input: R,
    ended: watch::Sender<bool>,
}

impl<R> Watched<R> {
    pub(super) fn new(input: R, ended: watch::Sender<bool>) -> Self {
        Self { input, ended }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.input).poll_read(context, buffer);
        let is_over = match &polled {
            Poll::Ready(Ok(())) => buffer.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_over {
            self.ended.send_replace(true);
        }
        polled
    }
}

/// The client's lines. Empty ones are passed over.
pub(super) fn incoming(
    input: impl AsyncRead + Send + Unpin,
) -> impl Stream<Item = io::Result<String>> + Send {
    stream::unfold(BufReader::new(input), |mut reader| async move {
        let line = next_line(&mut reader, LONGEST).await.transpose()?;
        Some((line, reader))
    })
}

/// Where lines for the client go. Each update that is written gives its place in the budget back.
pub(super) fn outgoing(
    output: impl AsyncWrite + Send + Unpin,
    budget: Arc<Budget>,
) -> impl Sink<String, Error = io::Error> + Send {
    sink::unfold((output, budget), |(mut output, budget), line: String| async move {
        output.write_all(line.as_bytes()).await?;
        output.write_all(b"\n").await?;
        output.flush().await?;
        budget.written(&line);
        Ok((output, budget))
    })
}

async fn next_line(reader: &mut (impl AsyncBufRead + Unpin), longest: usize) -> io::Result<Option<String>> {
    let (mut line, mut is_too_long) = (Vec::new(), false);
    loop {
        let read = reader.fill_buf().await?;
        let end = read.iter().position(|byte| *byte == b'\n');
        let (part, used) = match end {
            Some(end) => (read.get(..end).unwrap_or_default(), end + 1),
            None => (read, read.len()),
        };
        if used == 0 && line.is_empty() && !is_too_long {
            return Ok(None);
        }
        if line.len() + part.len() > longest {
            (line, is_too_long) = (Vec::new(), true);
        } else if !is_too_long {
            line.extend_from_slice(part);
        }
        reader.consume(used);
        if end.is_none() && used > 0 {
            continue;
        }
        if is_too_long {
            return Ok(Some(TOO_LONG.to_owned()));
        }
        if line.iter().any(|byte| !byte.is_ascii_whitespace()) {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8], longest: usize) -> Vec<String> {
        let mut reader = BufReader::with_capacity(4, text);
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut reader, longest).await.unwrap() {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn lines_are_whole_and_bounded() {
        assert_eq!(lines(b"one\ntwo, longer\n", 20).await, ["one", "two, longer"]);
        assert_eq!(lines(b"\n \r\none\n\nlast", 20).await, ["one", "last"]);
        assert_eq!(lines(b"0123456789\nafter\n", 9).await, [TOO_LONG, "after"]);
        assert_eq!(lines(b"0123456789", 9).await, [TOO_LONG]);
        assert_eq!(lines(b"a\xffb\n", 9).await, ["a\u{fffd}b"]);
        assert!(lines(b"", 9).await.is_empty());
    }
}
