//! What ends commands when this process cannot any more, because it was killed itself.
//!
//! A small shell of its own process group holds the reading end of a pipe. The kernel closes the other end however this
//! process dies; then the shell kills everything that carries the mark of a command that was still running, and goes.
//! (`PR_SET_PDEATHSIG` would fire at the end of the thread that spawned, and does not reach grandchildren.)
//!
//! A command that is being started at that very moment may not carry its mark yet. So it puts the mark on first and
//! then looks at a pipe that this process alone holds open: whoever finds it open is found later, whoever finds it
//! closed does not begin.
//!
//! Marks are Linux's. Elsewhere commands outlive a process that is killed with SIGKILL.

use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::mark::Mark;

/// What the shell does.
const SCRIPT: &str = include_str!("lifeline.sh");

/// One run's line to the shell that watches over its commands. The shell is started with the first command, and ends
/// with the last holder of this.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lifeline(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    watcher: Option<Watcher>,
    held: Vec<Mark>,
}

#[derive(Debug)]
struct Watcher {
    shell: Child,
    line: Option<PipeWriter>,
    /// Open as long as this process lives; nothing is ever written to it.
    alive: (PipeReader, PipeWriter),
}

/// A command that the shell knows of, until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    lifeline: Lifeline,
    mark: Mark,
}

impl Lifeline {
    /// Has the shell `bash` know of the command with this mark, which is not started yet. Also gives what the command
    /// has to look at before it begins.
    pub(super) fn hold(&self, bash: &str, mark: Mark) -> io::Result<(Held, PipeReader)> {
        let mut state = self.state();
        state.held.push(mark);
        let held = Held { lifeline: self.clone(), mark };
        let told = match &mut state.watcher {
            Some(watcher) => watcher.tell('+', mark).is_ok(),
            None => false,
        };
        if !told {
            // It was not there yet, or somebody ended it.
            let mut watcher = Watcher::start(bash)?;
            for mark in &state.held {
                watcher.tell('+', *mark)?;
            }
            state.watcher = Some(watcher);
        }
        let alive = state.watcher.as_ref().map(|watcher| watcher.alive.0.try_clone());
        let alive = alive.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))?;
        drop(state);
        Ok((held, alive))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.lifeline.state();
        state.held.retain(|mark| *mark != self.mark);
        if let Some(watcher) = &mut state.watcher {
            // Where it is gone, the next command starts another one.
            let _ = watcher.tell('-', self.mark);
        }
    }
}

impl Watcher {
    fn start(bash: &str) -> io::Result<Self> {
        let (reader, line) = io::pipe()?;
        let shell = Command::new(bash)
            .args(["--noprofile", "--norc", "-c", SCRIPT, "rawko-lifeline"])
            .current_dir("/")
            .env_clear()
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends this process from a terminal must leave the shell to its work.
            .process_group(0)
            .spawn()?;
        Ok(Self { shell, line: Some(line), alive: io::pipe()? })
    }

    fn tell(&mut self, sign: char, mark: Mark) -> io::Result<()> {
        let line = self.line.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        // In one write, which a pipe takes whole.
        line.write_all(format!("{sign} {mark}\n").as_bytes())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.line = None;
        // It ends at once: nothing is held any more.
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rustix::process::{Pid, Signal, kill_process, test_kill_process};

    use super::*;

    const BASH: &str = "/bin/bash";

    fn watcher(lifeline: &Lifeline) -> Option<Pid> {
        lifeline.state().watcher.as_ref().map(|watcher| Pid::from_child(&watcher.shell))
    }

    #[test]
    fn the_shell_comes_with_the_first_command_and_goes_with_the_last_holder() {
        let lifeline = Lifeline::default();
        assert_eq!(watcher(&lifeline), None);
        let Some(mark) = Mark::new() else { return };
        let (held, _alive) = lifeline.hold(BASH, mark).unwrap();
        let shell = watcher(&lifeline).unwrap();
        drop(held);
        let (held, _alive) = lifeline.hold(BASH, mark).unwrap();
        assert_eq!(watcher(&lifeline), Some(shell));
        drop(lifeline);
        test_kill_process(shell).unwrap();
        drop(held);
        assert!(test_kill_process(shell).is_err());
    }

    #[test]
    fn a_shell_that_somebody_ended_is_replaced() {
        let lifeline = Lifeline::default();
        let Some(mark) = Mark::new() else { return };
        let (_held, _alive) = lifeline.hold(BASH, mark).unwrap();
        let shell = watcher(&lifeline).unwrap();
        kill_process(shell, Signal::KILL).unwrap();
        // It is gone, and its end of the pipe closed, once it is reaped.
        if let Some(watcher) = &mut lifeline.state().watcher {
            watcher.shell.wait().unwrap();
        }
        let (_other, _alive) = lifeline.hold(BASH, mark).unwrap();
        assert_ne!(watcher(&lifeline), Some(shell));
    }
}
