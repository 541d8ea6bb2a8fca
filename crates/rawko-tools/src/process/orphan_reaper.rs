//! Kills the commands of this process when the process itself is killed.
//!
//! The reaper is a small shell in a process group of its own that reads from a pipe. However this process dies, the
//! kernel closes the other end. The shell then kills every process that carries this process's mark, and exits.
//! (`PR_SET_PDEATHSIG` would fire when the spawning thread ends, and does not reach grandchildren.)
//!
//! A command that is starting at that moment may not carry its tag yet. So it tags itself first and then checks a pipe
//! that only this process holds open. If the pipe is open, the reaper will find the command; if it is closed, the
//! command does not begin.
//!
//! Only commands without a sandbox need it. Tags exist on Linux only: elsewhere commands outlive a process that is killed
//! with SIGKILL.

use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the shell runs.
const SCRIPT: &str = include_str!("orphan_reaper.sh");

/// The reaper of one run. Its shell starts with the first command and ends when the last clone of this is dropped. Each
/// command has a clone until all of it has ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct OrphanReaper(Arc<Mutex<Option<ReaperShell>>>);

#[derive(Debug)]
struct ReaperShell {
    child: Child,
    stdin: Option<PipeWriter>,
    /// Open as long as this process lives; nothing is ever written to it.
    alive: (PipeReader, PipeWriter),
}

impl OrphanReaper {
    /// Starts the shell `bash` if it does not run. It waits to kill what carries this `mark`. Returns the pipe that a
    /// command with it has to check before it begins.
    pub(super) fn watch(&self, bash: &str, mark: u64) -> io::Result<PipeReader> {
        let mut state = self.state();
        let is_there = state.as_mut().is_some_and(ReaperShell::runs);
        if !is_there {
            *state = Some(ReaperShell::start(bash, mark)?);
        }
        match &*state {
            Some(shell) => shell.alive.0.try_clone(),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<ReaperShell>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReaperShell {
    fn start(bash: &str, mark: u64) -> io::Result<Self> {
        let (reader, stdin) = io::pipe()?;
        let child = Command::new(bash)
            .args(["--noprofile", "--norc", "-c", SCRIPT, "rawko-orphan-reaper", &mark.to_string()])
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

    /// Whether it has not been killed.
    fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for ReaperShell {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.stdin.take() {
            // No command is left. A shell that was killed does not read it.
            let _ = stdin.write_all(b"\n");
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rustix::process::{Pid, Signal, kill_process, test_kill_process};

    use super::*;

    const BASH: &str = "/bin/bash";
    /// A mark that no process carries.
    const NOT_OURS: u64 = 1;

    fn shell_pid(reaper: &OrphanReaper) -> Option<Pid> {
        reaper.state().as_ref().map(|shell| Pid::from_child(&shell.child))
    }

    #[test]
    fn the_shell_starts_with_the_first_command_and_ends_with_the_last_clone() {
        let reaper = OrphanReaper::default();
        assert_eq!(shell_pid(&reaper), None);
        let command = reaper.clone();
        command.watch(BASH, NOT_OURS).unwrap();
        let shell = shell_pid(&reaper).unwrap();
        command.watch(BASH, NOT_OURS).unwrap();
        assert_eq!(shell_pid(&reaper), Some(shell));
        drop(reaper);
        test_kill_process(shell).unwrap();
        drop(command);
        assert!(test_kill_process(shell).is_err());
    }

    #[test]
    fn a_shell_that_was_killed_is_replaced() {
        let reaper = OrphanReaper::default();
        reaper.watch(BASH, NOT_OURS).unwrap();
        let shell = shell_pid(&reaper).unwrap();
        kill_process(shell, Signal::KILL).unwrap();
        // Once it is reaped, its end of the pipe is closed.
        if let Some(shell) = &mut *reaper.state() {
            shell.child.wait().unwrap();
        }
        reaper.watch(BASH, NOT_OURS).unwrap();
        assert_ne!(shell_pid(&reaper), Some(shell));
    }
}
