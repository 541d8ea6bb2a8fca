//! A reader of lines that ends a connection whose messages are too long, and mends the others where that is needed.
//!
//! The protocol library would leave such a message out and go on, and its call would wait until its time is up. Here the
//! connection ends at once, and it is known why.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::mend;

/// Bytes that are read at once.
const PIECE: usize = 16 * 1024;

/// Why a connection was ended from this side; empty as long as it was not.
#[derive(Debug, Clone, Default)]
pub(crate) struct DisconnectReason(Arc<Mutex<Option<String>>>);

impl DisconnectReason {
    /// The reason, if there is one.
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, why: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

/// Reads lines of at most `most` bytes.
pub(crate) struct BoundedLineReader<R> {
    inner: R,
    most: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// Whole lines, and how much of them was given.
    whole: Vec<u8>,
    given: usize,
    fault: DisconnectReason,
}

impl<R> BoundedLineReader<R> {
    pub(crate) fn new(inner: R, most: usize, fault: DisconnectReason) -> Self {
        Self { inner, most, line: Vec::new(), whole: Vec::new(), given: 0, fault }
    }

    /// Takes a piece of what was read.
    fn take(&mut self, piece: &[u8]) -> io::Result<()> {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() > self.most {
                let why = format!("it sent a message of more than {} bytes", self.most);
                self.fault.set(why.clone());
                return Err(io::Error::other(why));
            }
            if part.ends_with(b"\n") {
                let mended = mend::line(&self.line);
                self.whole.extend_from_slice(mended.as_ref().unwrap_or(&self.line));
                self.line.clear();
            }
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLineReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut piece = [0; PIECE];
        while self.given == self.whole.len() {
            self.whole.clear();
            self.given = 0;
            let mut read = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut self.inner).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                // The end. A line that did not end is not a message.
                return Poll::Ready(Ok(()));
            }
            self.take(read.filled())?;
        }
        let rest = self.whole.get(self.given..).unwrap_or_default();
        let now = rest.get(..buffer.remaining()).unwrap_or(rest);
        buffer.put_slice(now);
        self.given += now.len();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    async fn check(text: &str, most: usize, fails: bool) {
        let fault = DisconnectReason::default();
        let mut read = String::new();
        let result =
            BoundedLineReader::new(text.as_bytes(), most, fault.clone()).read_to_string(&mut read).await;
        assert_eq!(result.is_err(), fails, "{text:?}");
        assert_eq!(fault.get().is_some(), fails, "{text:?}");
    }

    #[tokio::test]
    async fn only_lines_that_are_too_long_end_the_connection() {
        check("12345678\n", 9, false).await;
        check("12345678\n12345678\n", 9, false).await;
        check("123456789\n", 9, true).await;
        check("1\n123456789012", 9, true).await;
        check("", 0, false).await;
    }

    #[tokio::test]
    async fn lines_are_given_whole_and_mended_however_they_come() {
        let long = format!("{{\"a\":\"{}\"}}\n", "x".repeat(3 * PIECE));
        let text = format!("hello\n{long}{{\"id\":1,\"result\":{{}}}}\ncut off");
        let mut read = String::new();
        BoundedLineReader::new(text.as_bytes(), usize::MAX, DisconnectReason::default())
            .read_to_string(&mut read)
            .await
            .unwrap();
        let mended = "{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{}}\n";
        assert!(read == format!("hello\n{long}{mended}"), "{}", read.len());
    }
}
