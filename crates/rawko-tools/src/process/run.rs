//! Runs one command to its end, or to the end of patience.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rawko_core::error::ErrorCode;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::command::{Held, Source, Spawned};
use super::family::Family;
use super::roster::{self, Number};
use super::stream::{Streams, has_news};

/// How long a process has to end by itself before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// How long output may still come after the command itself has ended.
const DRAIN: Duration = Duration::from_millis(200);

/// Why a command came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It ended by itself.
    Exited {
        /// Its exit status; `None` where a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// It took too long.
    TimedOut,
    /// Its leash was pulled.
    GivenUp,
}

impl Cause {
    /// In a few words.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Exited { code: Some(code), .. } => format!("exit code {code}"),
            Self::Exited { code: None, signal: Some(signal) } => format!("ended by signal {signal}"),
            Self::Exited { code: None, signal: None } => "ended by a signal".to_owned(),
            Self::TimedOut => "timed out".to_owned(),
            Self::GivenUp => "given up".to_owned(),
        }
    }

    /// The exit status of a command that exited by itself.
    pub(crate) fn exit_code(self) -> Option<i32> {
        match self {
            Self::Exited { code, .. } => code,
            Self::TimedOut | Self::GivenUp => None,
        }
    }

    /// What kind of failure it is, if it is one.
    pub(crate) fn error_code(self) -> Option<ErrorCode> {
        match self {
            Self::Exited { code: Some(0), .. } => None,
            Self::Exited { .. } | Self::GivenUp => Some(ErrorCode::ToolFailure),
            Self::TimedOut => Some(ErrorCode::Timeout),
        }
    }
}

/// What came of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finished {
    pub(crate) cause: Cause,
    /// Processes that it left behind, and that were ended.
    pub(crate) left_behind: usize,
}

/// A command that was started. Whoever has it must see it to its end; dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    family: Family,
    number: Number,
    streams: Streams,
    /// Closed when the leash is pulled.
    woken: PipeReader,
    deadline: Option<Instant>,
    is_reaped: bool,
    /// The lifeline lets go of it when it has ended.
    _held: Held,
}

impl Running {
    pub(super) fn new(
        spawned: Spawned,
        number: Number,
        woken: PipeReader,
        timeout: Option<Duration>,
    ) -> Self {
        let Spawned { child, family, output, held } = spawned;
        // A time that no clock reaches is as good as none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self {
            child,
            family,
            number,
            streams: Streams::new(output),
            woken,
            deadline,
            is_reaped: false,
            _held: held,
        }
    }

    /// The number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the command, and ends everything it started. `take` is given the output as it comes.
    pub(crate) fn finish(mut self, take: &mut dyn FnMut(Source, &[u8])) -> io::Result<Finished> {
        let patience = self.wait(take);
        if matches!(patience, Patience::Enough) {
            let deadline = Instant::now() + DRAIN;
            while self.streams.are_open() && Instant::now() < deadline {
                self.streams.wait(&[], Some(deadline), take);
            }
        }
        let left_behind = self.family.end(GRACE, || self.streams.take(take));
        self.streams.take(take);
        let status = self.reap()?;
        let cause = match patience {
            Patience::Enough => Cause::Exited { code: status.code(), signal: status.signal() },
            Patience::TimeIsUp => Cause::TimedOut,
            Patience::LeashPulled => Cause::GivenUp,
        };
        Ok(Finished { cause, left_behind })
    }

    /// Waits until the command has exited, or for as long as it may take.
    fn wait(&mut self, take: &mut dyn FnMut(Source, &[u8])) -> Patience {
        let pid = Pid::from_child(&self.child);
        let exit = exit_event(pid);
        loop {
            if has_exited(pid) {
                return Patience::Enough;
            }
            if has_news(&self.woken) {
                return Patience::LeashPulled;
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Patience::TimeIsUp;
            }
            match &exit {
                Some(exit) => {
                    self.streams.wait(&[exit.as_fd(), self.woken.as_fd()], self.deadline, take);
                }
                None => self.streams.wait(&[], self.deadline, take),
            }
        }
    }

    /// Reaps the command. From then on its number may be another's, so nobody may signal it.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        self.is_reaped = true;
        roster::retire(self.number);
        let status = self.child.wait();
        roster::strike(self.number);
        status
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.family.kill();
            // It was killed: there is nothing to learn from its end.
            let _ = self.reap();
        }
    }
}

/// How waiting for a command came to its end.
#[derive(Debug, Clone, Copy)]
enum Patience {
    /// It has exited.
    Enough,
    /// It has had its time.
    TimeIsUp,
    /// It was given up.
    LeashPulled,
}

/// Whether the process has ended, without reaping it.
fn has_exited(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that somebody else reaped it: then it has ended, too.
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

/// Something that wakes a poll when the process ends, where the system has it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn exit_event(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn exit_event(_: Pid) -> Option<OwnedFd> {
    None
}
