//! A reader that ends a connection whose messages are too long.
//!
//! The protocol library would leave such a message out and go on, and its call would wait until its time is up. Here the
//! connection ends at once, and it is known why.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// Why a connection was ended from this side.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fault(Arc<Mutex<Option<String>>>);

impl Fault {
    /// The reason, if there is one.
    pub(crate) fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, why: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

/// Reads lines of at most `most` bytes.
pub(crate) struct BoundedReader<R> {
    inner: R,
    most: usize,
    length: usize,
    fault: Fault,
}

impl<R> BoundedReader<R> {
    pub(crate) fn new(inner: R, most: usize, fault: Fault) -> Self {
        Self { inner, most, length: 0, fault }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = polled {
            let new = buffer.filled().get(before..).unwrap_or_default();
            let mut longest = 0;
            for piece in new.split_inclusive(|byte| *byte == b'\n') {
                self.length += piece.len();
                longest = longest.max(self.length);
                if piece.ends_with(b"\n") {
                    self.length = 0;
                }
            }
            if longest > self.most {
                let why = format!("it sent a message of more than {} bytes", self.most);
                self.fault.set(why.clone());
                // An error comes without bytes.
                buffer.set_filled(before);
                return Poll::Ready(Err(io::Error::other(why)));
            }
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    async fn check(text: &str, most: usize, fails: bool) {
        let fault = Fault::default();
        let mut read = String::new();
        let result = BoundedReader::new(text.as_bytes(), most, fault.clone()).read_to_string(&mut read).await;
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
}
