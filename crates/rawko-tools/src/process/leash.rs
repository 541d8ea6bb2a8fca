//! Holds a command, so that whoever gives it up need not wait for its end.

use std::io::{self, PipeReader, PipeWriter};
use std::sync::{Arc, Mutex, PoisonError};

use super::command::{CommandLine, spawn};
use super::roster::{self, Number};
use super::run::Running;

/// Holds a command. [`Leash::pull`] has the thread that runs it end it, and returns at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leash(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
enum Held {
    /// Nothing has been started.
    #[default]
    Nothing,
    /// A command runs, or ran.
    Command {
        number: Number,
        /// Closing it wakes the thread that runs the command.
        _wake: PipeWriter,
    },
    /// Nothing may start any more, and what was started is being ended.
    Pulled,
}

impl Leash {
    /// Gives the command up: it is asked to end, and killed after a grace, by the thread that runs it. One that has
    /// not started never does.
    pub(crate) fn pull(&self) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Held::Command { number, .. } = *held {
            // First, so that whoever settles from now on waits for it.
            roster::give_up(number);
        }
        *held = Held::Pulled;
    }

    /// Starts a command unless the leash was pulled.
    pub(crate) fn start(&self, line: &CommandLine) -> io::Result<Running> {
        let (woken, wake): (PipeReader, PipeWriter) = io::pipe()?;
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *held {
            Held::Nothing => {}
            Held::Command { .. } => return Err(io::Error::other("a leash holds one command")),
            Held::Pulled => return Err(io::Error::other("the call was given up")),
        }
        let spawned = spawn(line)?;
        let number = roster::enroll(spawned.family);
        *held = Held::Command { number, _wake: wake };
        Ok(Running::new(spawned, number, woken, line.timeout))
    }
}

/// Pulls a leash when the call that holds it is given up.
#[derive(Debug)]
pub(crate) struct PullOnDrop(Leash);

impl PullOnDrop {
    pub(crate) fn new(leash: &Leash) -> Self {
        Self(leash.clone())
    }
}

impl Drop for PullOnDrop {
    fn drop(&mut self) {
        self.0.pull();
    }
}
