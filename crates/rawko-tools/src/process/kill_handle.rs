//! A handle on one command that ends it without waiting for its end.

use std::io::{self, PipeReader, PipeWriter};
use std::sync::{Arc, Mutex, PoisonError};

use super::command::{CommandLine, spawn};
use super::registry::{self, RegistryId};
use super::run::RunningCommand;

/// Starts one command and can end it at any time. [`KillHandle::kill`] wakes the thread that runs the command and
/// returns at once.
#[derive(Debug, Clone, Default)]
pub(crate) struct KillHandle(Arc<Mutex<HandleState>>);

#[derive(Debug, Default)]
enum HandleState {
    #[default]
    NotStarted,
    /// The command runs, or ran.
    Started {
        id: RegistryId,
        /// Closing it wakes the thread that runs the command.
        _wake: PipeWriter,
    },
    /// Nothing may start any more, and what was started is being ended.
    Killed,
}

impl KillHandle {
    /// Cancels the command. The thread that runs it asks it to end and kills it after a grace period. A command that
    /// has not started never does.
    pub(crate) fn kill(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let HandleState::Started { id, .. } = *state {
            // Before the wake-up, so that `settle` waits for this command from now on.
            registry::mark_cancelled(id);
        }
        *state = HandleState::Killed;
    }

    /// Starts the command unless the handle was used to kill it.
    pub(crate) fn start(&self, line: &CommandLine) -> io::Result<RunningCommand> {
        let (woken, wake): (PipeReader, PipeWriter) = io::pipe()?;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *state {
            HandleState::NotStarted => {}
            HandleState::Started { .. } => {
                return Err(io::Error::other("a kill handle starts one command only"));
            }
            HandleState::Killed => return Err(io::Error::other("the call was cancelled")),
        }
        let spawned = spawn(line)?;
        let id = registry::register(spawned.tree);
        *state = HandleState::Started { id, _wake: wake };
        Ok(RunningCommand::new(spawned, id, woken, line.timeout))
    }
}

/// Kills the command when the future of its call is dropped.
#[derive(Debug)]
pub(crate) struct KillOnDrop(KillHandle);

impl KillOnDrop {
    pub(crate) fn new(handle: &KillHandle) -> Self {
        Self(handle.clone())
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}
