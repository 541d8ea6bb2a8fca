//! Runs one command until it exits, times out or is cancelled.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rawko_core::error::ErrorCode;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::OrphanReaper;
use super::command::{OutputStream, SpawnedCommand};
use super::pipe_status;
use super::registry::{self, RegistryId};
use super::stream::{Streams, has_news};
use super::tree::ProcessTree;
use crate::refusals::Refusals;

/// How long a process that was asked to end has before it is killed.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// How long output may still arrive after the command itself has exited.
const DRAIN: Duration = Duration::from_millis(200);

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It ended by itself: with an exit code, or by a signal.
    Exited { code: Option<i32>, signal: Option<i32> },
    /// It took too long.
    TimedOut,
    /// It took more memory than this, in MiB.
    OutOfMemory { limit: u64 },
    /// Its kill handle was used.
    Cancelled,
}

impl Cause {
    /// A short description for people and models.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Exited { code: Some(code), .. } => format!("exit code {code}"),
            Self::Exited { code: None, signal: Some(signal) } => format!("ended by signal {signal}"),
            Self::Exited { code: None, signal: None } => "ended by a signal".to_owned(),
            Self::TimedOut => "timed out".to_owned(),
            Self::OutOfMemory { limit } => {
                format!("the command used more than {limit} MiB of memory and was ended: make it use less")
            }
            Self::Cancelled => "cancelled".to_owned(),
        }
    }

    /// The exit status of a command that exited by itself.
    pub(crate) fn exit_code(self) -> Option<i32> {
        match self {
            Self::Exited { code, .. } => code,
            Self::TimedOut | Self::OutOfMemory { .. } | Self::Cancelled => None,
        }
    }

    /// The kind of failure, if it is one.
    pub(crate) fn error_code(self) -> Option<ErrorCode> {
        match self {
            Self::Exited { code: Some(0), .. } => None,
            Self::Exited { .. } | Self::OutOfMemory { .. } | Self::Cancelled => Some(ErrorCode::ToolFailure),
            Self::TimedOut => Some(ErrorCode::Timeout),
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) cause: Cause,
    /// How many of its background processes had to be ended.
    pub(crate) leftovers: usize,
    /// The exit statuses of the members of the last pipeline, where they were recorded.
    pub(crate) pipe_status: Vec<i32>,
    /// What the sandbox refused to it.
    pub(crate) refusals: Refusals,
}

/// A command that runs. Dropping it kills the command.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    child: Child,
    tree: ProcessTree,
    id: RegistryId,
    streams: Streams,
    pipe_status: Option<PipeReader>,
    /// Closed when the kill handle is used.
    woken: PipeReader,
    deadline: Option<Instant>,
    is_reaped: bool,
    /// Ends the command if this process is killed.
    _reaper: OrphanReaper,
    refusals: Refusals,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    control: Option<crate::confine::Watched>,
}

impl RunningCommand {
    pub(super) fn new(
        spawned: SpawnedCommand,
        id: RegistryId,
        woken: PipeReader,
        timeout: Option<Duration>,
    ) -> Self {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let control = spawned.control;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let refusals = control.as_ref().map(crate::confine::Watched::refusals).unwrap_or_default();
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let refusals = Refusals::default();
        let SpawnedCommand { child, tree, output, pipe_status, reaper, .. } = spawned;
        // A deadline beyond the range of the clock is no deadline.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self {
            child,
            tree,
            id,
            streams: Streams::new(output),
            pipe_status,
            woken,
            deadline,
            is_reaped: false,
            _reaper: reaper,
            refusals,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            control,
        }
    }

    /// What the sandbox refuses to it.
    pub(crate) fn refusals(&self) -> Refusals {
        self.refusals.clone()
    }

    /// Waits until the command ends, and ends everything it started. Calls `take` with output as it arrives.
    pub(crate) fn finish(mut self, take: &mut dyn FnMut(OutputStream, &[u8])) -> io::Result<Finished> {
        let end = self.wait(take);
        if matches!(end, WaitEnd::Exited) {
            let deadline = Instant::now() + DRAIN;
            while self.streams.are_open() && Instant::now() < deadline {
                self.streams.wait(&[], Some(deadline), take);
            }
        }
        let mut leftovers = self.tree.end(GRACE, || self.streams.take(take));
        self.streams.take(take);
        let status = self.reap()?;
        let (mut code, mut signal) = (status.code(), status.signal());
        let mut exceeded = None;
        if let Some(end) = self.of_sandbox()? {
            SandboxEnd { code, signal, leftovers, exceeded } = end;
        }
        let cause = match (end, exceeded) {
            (WaitEnd::Exited, Some(limit)) => Cause::OutOfMemory { limit },
            (WaitEnd::Exited, None) => Cause::Exited { code, signal },
            (WaitEnd::TimedOut, _) => Cause::TimedOut,
            (WaitEnd::Cancelled, _) => Cause::Cancelled,
        };
        let pipe_status = self.pipe_status.take().map(pipe_status::read).unwrap_or_default();
        Ok(Finished { cause, leftovers, pipe_status, refusals: self.refusals() })
    }

    /// Waits until the command has exited, timed out or been cancelled.
    fn wait(&mut self, take: &mut dyn FnMut(OutputStream, &[u8])) -> WaitEnd {
        let pid = Pid::from_child(&self.child);
        let exit = exit_event(pid);
        loop {
            if has_exited(pid) {
                return WaitEnd::Exited;
            }
            if has_news(&self.woken) {
                return WaitEnd::Cancelled;
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return WaitEnd::TimedOut;
            }
            match &exit {
                Some(exit) => {
                    self.streams.wait(&[exit.as_fd(), self.woken.as_fd()], self.deadline, take);
                }
                None => self.streams.wait(&[], self.deadline, take),
            }
        }
    }

    /// What the sandbox's helper said of the command's end.
    ///
    /// # Errors
    /// If the sandbox could not be made, and the command did not run.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn of_sandbox(&mut self) -> io::Result<Option<SandboxEnd>> {
        use rawko_sandbox::HelperReport;
        let Some(mut control) = self.control.take() else { return Ok(None) };
        while let Some(report) = control.report()? {
            match report {
                HelperReport::Ready => {}
                HelperReport::Failed { what } | HelperReport::Unfit { why: what } => {
                    return Err(io::Error::other(format!("the sandbox could not be made: {what}")));
                }
                HelperReport::Ended { code, signal, leftovers } => {
                    let exceeded = control.exceeded();
                    return Ok(Some(SandboxEnd { code, signal, leftovers, exceeded }));
                }
            }
        }
        // The helper was ended with the command.
        let killed = |limit| SandboxEnd {
            code: None,
            signal: Some(rustix::process::Signal::KILL.as_raw()),
            leftovers: 0,
            exceeded: Some(limit),
        };
        Ok(control.exceeded().map(killed))
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn of_sandbox(&mut self) -> io::Result<Option<SandboxEnd>> {
        Ok(None)
    }

    /// Reaps the command. Afterwards its process id may belong to another process, so it must not be signalled.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        self.is_reaped = true;
        registry::stop_signalling(self.id);
        let status = self.child.wait();
        registry::remove(self.id);
        status
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.tree.kill();
            // The status of a killed process says nothing new.
            let _ = self.reap();
        }
    }
}

/// A program that was asked to be a helper, and what it has started. To be used until it is reaped.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) struct HelperProcess(Pid);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl HelperProcess {
    /// The program is the first of its process group.
    pub(crate) fn new(program: Pid) -> Self {
        Self(program)
    }

    /// Waits until it has exited; `false` if it has not by the deadline.
    pub(crate) fn exits_by(&self, deadline: Instant) -> bool {
        let exit = exit_event(self.0);
        let events: Vec<_> = exit.iter().map(AsFd::as_fd).collect();
        while !has_exited(self.0) {
            if Instant::now() >= deadline {
                return false;
            }
            Streams::new(Vec::new()).wait(&events, Some(deadline), &mut |_, _| {});
        }
        true
    }

    /// Kills what is left.
    pub(crate) fn kill(&self) {
        ProcessTree::new(self.0, None).kill();
    }
}

/// How a command in a sandbox ended.
struct SandboxEnd {
    code: Option<i32>,
    signal: Option<i32>,
    /// How many processes it left.
    leftovers: usize,
    /// The limit on memory, in MiB, for which it was ended.
    exceeded: Option<u64>,
}

/// Why waiting for a command ended.
#[derive(Debug, Clone, Copy)]
enum WaitEnd {
    Exited,
    TimedOut,
    Cancelled,
}

/// Whether the process has ended, without reaping it.
fn has_exited(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that the process was reaped elsewhere, so it has ended.
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

/// A descriptor that wakes a poll when the process ends, if the system has one.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn exit_event(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn exit_event(_: Pid) -> Option<OwnedFd> {
    None
}
