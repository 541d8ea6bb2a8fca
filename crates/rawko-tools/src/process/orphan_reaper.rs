//! Kills the commands of this process when the process itself is killed.
//!
//! The reaper is a small shell in a process group of its own that reads from a pipe. However this process dies, the
//! kernel closes the other end. The shell then kills every process that carries the tag of a registered command, and
//! exits. (`PR_SET_PDEATHSIG` would fire when the spawning thread ends, and does not reach grandchildren.)
//!
//! A command that is starting at that moment may not carry its tag yet. So it tags itself first and then checks a pipe
//! that only this process holds open. If the pipe is open, the reaper will find the command; if it is closed, the
//! command does not begin.
//!
//! Tags exist on Linux only. Elsewhere commands outlive a process that is killed with SIGKILL.

use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::tag::ProcessTag;

/// What the shell runs.
const SCRIPT: &str = include_str!("orphan_reaper.sh");

/// The reaper of one run. Its shell starts with the first command and ends when the last clone of this is dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct OrphanReaper(Arc<Mutex<ReaperState>>);

#[derive(Debug, Default)]
struct ReaperState {
    shell: Option<ReaperShell>,
    registered: Vec<ProcessTag>,
}

#[derive(Debug)]
struct ReaperShell {
    child: Child,
    stdin: Option<PipeWriter>,
    /// Open as long as this process lives; nothing is ever written to it.
    alive: (PipeReader, PipeWriter),
}

/// Keeps a command registered with the reaper until it is dropped.
#[derive(Debug)]
pub(super) struct ReaperGuard {
    reaper: OrphanReaper,
    tag: ProcessTag,
}

impl OrphanReaper {
    /// Registers a command before it starts, and starts the shell `bash` if it does not run. Also returns the pipe
    /// that the command has to check before it begins.
    pub(super) fn register(&self, bash: &str, tag: ProcessTag) -> io::Result<(ReaperGuard, PipeReader)> {
        let mut state = self.state();
        state.registered.push(tag);
        let guard = ReaperGuard { reaper: self.clone(), tag };
        let sent = match &mut state.shell {
            Some(shell) => shell.send('+', tag).is_ok(),
            None => false,
        };
        if !sent {
            // The shell has not started yet, or was killed.
            let mut shell = ReaperShell::start(bash)?;
            for tag in &state.registered {
                shell.send('+', *tag)?;
            }
            state.shell = Some(shell);
        }
        let alive = state.shell.as_ref().map(|shell| shell.alive.0.try_clone());
        let alive = alive.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))?;
        drop(state);
        Ok((guard, alive))
    }

    fn state(&self) -> MutexGuard<'_, ReaperState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReaperGuard {
    fn drop(&mut self) {
        let mut state = self.reaper.state();
        state.registered.retain(|tag| *tag != self.tag);
        if let Some(shell) = &mut state.shell {
            // If the shell is gone, the next command starts another.
            let _ = shell.send('-', self.tag);
        }
    }
}

impl ReaperShell {
    fn start(bash: &str) -> io::Result<Self> {
        let (reader, stdin) = io::pipe()?;
        let child = Command::new(bash)
            .args(["--noprofile", "--norc", "-c", SCRIPT, "rawko-orphan-reaper"])
            .current_dir("/")
            .env_clear()
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal from the terminal that ends this process must not end the reaper.
            .process_group(0)
            .spawn()?;
        Ok(Self { child, stdin: Some(stdin), alive: io::pipe()? })
    }

    fn send(&mut self, sign: char, tag: ProcessTag) -> io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        // One write, which the pipe takes whole.
        stdin.write_all(format!("{sign} {tag}\n").as_bytes())
    }
}

impl Drop for ReaperShell {
    fn drop(&mut self) {
        self.stdin = None;
        // It ends at once: no command is registered any more.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rustix::process::{Pid, Signal, kill_process, test_kill_process};

    use super::*;

    const BASH: &str = "/bin/bash";

    fn shell_pid(reaper: &OrphanReaper) -> Option<Pid> {
        reaper.state().shell.as_ref().map(|shell| Pid::from_child(&shell.child))
    }

    #[test]
    fn the_shell_starts_with_the_first_command_and_ends_with_the_last_clone() {
        let reaper = OrphanReaper::default();
        assert_eq!(shell_pid(&reaper), None);
        let tag = ProcessTag::new().unwrap();
        let (guard, _alive) = reaper.register(BASH, tag).unwrap();
        let shell = shell_pid(&reaper).unwrap();
        drop(guard);
        let (guard, _alive) = reaper.register(BASH, tag).unwrap();
        assert_eq!(shell_pid(&reaper), Some(shell));
        drop(reaper);
        test_kill_process(shell).unwrap();
        drop(guard);
        assert!(test_kill_process(shell).is_err());
    }

    #[test]
    fn a_shell_that_was_killed_is_replaced() {
        let reaper = OrphanReaper::default();
        let tag = ProcessTag::new().unwrap();
        let (_guard, _alive) = reaper.register(BASH, tag).unwrap();
        let shell = shell_pid(&reaper).unwrap();
        kill_process(shell, Signal::KILL).unwrap();
        // Once it is reaped, its end of the pipe is closed.
        if let Some(shell) = &mut reaper.state().shell {
            shell.child.wait().unwrap();
        }
        let (_other, _alive) = reaper.register(BASH, tag).unwrap();
        assert_ne!(shell_pid(&reaper), Some(shell));
    }
}
