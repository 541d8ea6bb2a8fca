//! Reads the output of a command as it arrives, without ever blocking on it.

use std::io::{PipeReader, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::command::OutputStream;

/// How often to check the pipes if there is no event to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes read at once, and how often in a row: a flood of output must not delay the check of the deadline.
const CHUNK: usize = 16 * 1024;
const CHUNKS: usize = 64;

/// The pipes that a command writes to. Each is removed once all its writers have closed it.
#[derive(Debug)]
pub(super) struct Streams(Vec<(OutputStream, PipeReader)>);

impl Streams {
    pub(super) fn new(pipes: Vec<(OutputStream, PipeReader)>) -> Self {
        Self(pipes)
    }

    pub(super) fn are_open(&self) -> bool {
        !self.0.is_empty()
    }

    /// Waits for output or for one of `events`, until `deadline` at most, and reads what is there. Without events it
    /// returns after a short interval.
    pub(super) fn wait(
        &mut self,
        events: &[BorrowedFd<'_>],
        deadline: Option<Instant>,
        take: &mut dyn FnMut(OutputStream, &[u8]),
    ) {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let most = match (events, left) {
            ([], left) => Some(left.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL)),
            (_, left) => left,
        };
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(4);
        fds.extend(self.0.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN)));
        fds.extend(events.iter().map(|event| PollFd::new(event, PollFlags::IN)));
        let timeout = most.map(|most| Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        });
        // An interrupted or failed poll counts as no news: the caller polls again.
        let _ = poll(&mut fds, timeout.as_ref());
        self.take(take);
    }

    /// Reads what is there without waiting, up to a bound.
    pub(super) fn take(&mut self, take: &mut dyn FnMut(OutputStream, &[u8])) {
        let mut buffer = [0; CHUNK];
        self.0.retain_mut(|(source, pipe)| {
            for _ in 0..CHUNKS {
                if !has_news(&*pipe) {
                    return true;
                }
                match pipe.read(&mut buffer) {
                    Ok(0) | Err(_) => return false,
                    Ok(length) => take(*source, &buffer[..length]),
                }
            }
            true
        });
    }
}

/// Whether a read would not block: there is data, or the other end is closed.
pub(super) fn has_news(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(ready) if ready > 0)
}
