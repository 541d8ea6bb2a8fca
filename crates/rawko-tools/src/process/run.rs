//! Runs one command to its end, or to the end of patience.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::family::Family;
use super::{HeadAndTail, Lifeline};

/// How long a process has to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// How long output may still come after the command itself has ended.
const DRAIN: Duration = Duration::from_millis(200);
/// Between two looks where nothing wakes us.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A shell command with everything it needs to run.
pub(crate) struct CommandLine {
    /// The argument of `bash -c`.
    pub(crate) command: String,
    /// Where it runs.
    pub(crate) directory: PathBuf,
    /// Its whole environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// How long it may take.
    pub(crate) timeout: Duration,
    /// What ends it when this process cannot.
    pub(crate) lifeline: Lifeline,
}

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
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) cause: Cause,
    pub(crate) output: HeadAndTail,
    /// Processes that it left behind, and that were ended.
    pub(crate) left_behind: usize,
}

/// Holds a running command. When the last holder but the runner itself lets go with [`Leash::pull`], all its
/// processes are killed at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leash(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    pulled: bool,
    family: Option<Family>,
}

impl Leash {
    /// Kills what runs, and lets nothing start any more.
    pub(crate) fn pull(&self) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.pulled = true;
        if let Some(family) = held.family.take() {
            family.kill();
        }
    }

    /// Starts a command unless the leash was pulled.
    fn start(&self, line: &CommandLine, output: &io::PipeWriter) -> io::Result<Started> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.pulled {
            return Err(io::Error::other("the call was given up"));
        }
        let started = spawn(line, output)?;
        held.family = Some(started.family);
        Ok(started)
    }

    /// Reaps the command. From then on its number may be another's, so nobody may signal it.
    fn reap(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.family = None;
        child.wait()
    }
}

/// Runs a command and ends everything it started. `watch` sees the output as it comes.
pub(crate) fn run(
    line: &CommandLine,
    leash: &Leash,
    limit: usize,
    watch: &dyn Fn(&str),
) -> io::Result<Finished> {
    let (reader, writer) = io::pipe()?;
    let mut started = leash.start(line, &writer)?;
    let (child, family) = (&mut started.child, started.family);
    drop(writer);
    let mut stream = Stream { pipe: Some(reader), output: HeadAndTail::new(limit), watch };
    let deadline = Instant::now() + line.timeout;
    let exit = exit_event(family_pid(child));
    let mut timed_out = false;
    while !has_exited(family_pid(child)) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            timed_out = true;
            break;
        }
        stream.wait(exit.as_ref(), left);
    }
    if !timed_out {
        let deadline = Instant::now() + DRAIN;
        while stream.is_open() && Instant::now() < deadline {
            stream.wait(None, LOOK_AGAIN);
        }
    }
    let left_behind = family.end(GRACE, || stream.take());
    stream.take();
    let status = leash.reap(child)?;
    let cause = if timed_out {
        Cause::TimedOut
    } else {
        Cause::Exited { code: status.code(), signal: status.signal() }
    };
    Ok(Finished { cause, output: stream.output, left_behind })
}

/// A command that runs.
struct Started {
    child: Child,
    family: Family,
    /// Dropped when all of it has ended.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    _held: Option<super::lifeline::Held>,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn spawn(line: &CommandLine, output: &io::PipeWriter) -> io::Result<Started> {
    let shell = shell()?;
    let mut command = Command::new(shell);
    let mark = super::mark::Mark::new();
    // Without a lifeline it runs all the same: it only matters to those who are killed.
    let held = mark.and_then(|mark| line.lifeline.hold(shell, mark).ok());
    if let Some(mark) = mark {
        // The shell puts the mark on itself, looks whether anybody is there to wait for it, and then becomes the shell
        // that runs the command.
        let look = if held.is_some() { "read -t 0 && exit 125; " } else { "" };
        let prologue = format!(
            "{{ {}; }} 2>/dev/null; {look}exec {shell} --noprofile --norc -c \"$1\" </dev/null",
            mark.prologue()
        );
        command.args(SHELL).arg(prologue).arg("bash").arg(&line.command);
    } else {
        command.args(SHELL).arg(&line.command);
    }
    let (held, stdin) = match held {
        Some((held, alive)) => (Some(held), alive.into()),
        None => (None, Stdio::null()),
    };
    let child = prepared(&mut command, line, output)?.stdin(stdin).spawn()?;
    let family = Family::new(family_pid(&child), mark);
    Ok(Started { child, family, _held: held })
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn spawn(line: &CommandLine, output: &io::PipeWriter) -> io::Result<Started> {
    let mut command = Command::new(shell()?);
    command.args(SHELL).arg(&line.command);
    let child = prepared(&mut command, line, output)?.stdin(Stdio::null()).spawn()?;
    let family = Family::new(family_pid(&child));
    Ok(Started { child, family })
}

const SHELL: [&str; 3] = ["--noprofile", "--norc", "-c"];

fn prepared<'a>(
    command: &'a mut Command,
    line: &CommandLine,
    output: &io::PipeWriter,
) -> io::Result<&'a mut Command> {
    Ok(command
        .current_dir(&line.directory)
        .env_clear()
        .envs(line.environment.iter().map(|(name, value)| (name, value)))
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0))
}

/// The shell by its absolute path: a name would be looked up in a `PATH` that the project may have a say in.
fn shell() -> io::Result<&'static str> {
    const PLACES: [&str; 4] =
        ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash"];
    let found = PLACES.into_iter().find(|path| std::path::Path::new(path).exists());
    found.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "there is no bash in /bin, /usr/bin or /usr/local/bin")
    })
}

fn family_pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Whether the process has ended, without reaping it.
fn has_exited(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that somebody else reaped it: then it has ended, too.
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

/// Something that wakes a poll when the process ends, where the system has it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn exit_event(pid: Pid) -> Option<std::os::fd::OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn exit_event(_: Pid) -> Option<std::os::fd::OwnedFd> {
    None
}

/// The command's output: one pipe for stdout and stderr, so that their order is kept.
struct Stream<'a> {
    /// `None` once everyone has closed the other end.
    pipe: Option<PipeReader>,
    output: HeadAndTail,
    watch: &'a dyn Fn(&str),
}

impl Stream<'_> {
    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Waits for output or for `exit`, no longer than `most`, and takes what there is.
    fn wait(&mut self, exit: Option<&std::os::fd::OwnedFd>, most: Duration) {
        let most = if exit.is_some() { most } else { most.min(LOOK_AGAIN) };
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(2);
        fds.extend(self.pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        fds.extend(exit.map(|exit| PollFd::new(exit, PollFlags::IN)));
        let timeout = Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        };
        // An interrupted or failed poll is a look that saw nothing.
        let _ = poll(&mut fds, Some(&timeout));
        self.take();
    }

    /// Takes what there is, without waiting, and not for ever: a flood must not keep us from the clock.
    fn take(&mut self) {
        let mut buffer = [0; 16 * 1024];
        for _ in 0..64 {
            let Some(pipe) = &mut self.pipe else { return };
            let mut fds = [PollFd::new(&*pipe, PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if !matches!(poll(&mut fds, Some(&now)), Ok(ready) if ready > 0) {
                return;
            }
            match pipe.read(&mut buffer) {
                Ok(0) | Err(_) => self.pipe = None,
                Ok(length) => {
                    self.output.push(&buffer[..length]);
                    (self.watch)(&String::from_utf8_lossy(&buffer[..length]));
                }
            }
        }
    }
}
