//! Cancels a session from another process (`docs/sessions.md#cancel-a-run`).
//!
//! There are two ways: the process that runs the session gets SIGTERM and closes the journal itself; or no process runs it,
//! and the cancellation is appended here, through the same fold as any other event.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rawko_core::session::{Effect, Event, Outcome, Stamped};

use crate::channel::holder::RunningProcess;
use crate::clock::now;
use crate::error::Error;
use crate::journal::{
    Folded, Journal, JournalError, JournalWriter, JournaledEffect, Record, SessionStore, StepRecord, fold,
};

/// How often to check whether the journal is free.
const LOOK: Duration = Duration::from_millis(20);

/// How a session was ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// The session had already ended.
    AlreadyEnded(Outcome),
    /// No process was running it. Its journal was closed as cancelled.
    Closed(Outcome),
    /// A process was running it, was asked to stop, and did. The outcome may differ from `cancelled` if the run ended
    /// first.
    Stopped {
        /// Id of the process.
        pid: u32,
        /// How the session ended.
        outcome: Outcome,
    },
}

/// Cancels the session `id`, and waits at most `patience` until its journal is closed.
///
/// # Errors
/// [`Error::StillHeld`] if a process runs it that cannot be found, may not be signalled, or does not end in time;
/// [`Error::Journal`], [`Error::Diverged`] and [`Error::Setup`] as for [`Rawko::resume`](crate::Rawko::resume).
pub fn cancel(store: &SessionStore, id: &str, patience: Duration) -> Result<Cancelled, Error> {
    let path = store.find(id)?;
    let begun = Instant::now();
    let mut signalled = None;
    loop {
        match JournalWriter::reopen(&path) {
            Ok((writer, journal)) => {
                return close(writer, &journal, signalled, "cancelled by `rawko cancel`");
            }
            Err(JournalError::Locked { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if signalled.is_none() {
            signalled =
                RunningProcess::of(&path).and_then(|holder| holder.terminate().then_some(holder.pid()));
        }
        if begun.elapsed() >= patience {
            return Err(Error::StillHeld { journal: path, pid: signalled, waited: begun.elapsed() });
        }
        std::thread::sleep(LOOK);
    }
}

/// Closes the journal, which this process has locked, unless it has an end.
fn close(
    mut writer: JournalWriter,
    journal: &Journal,
    signalled: Option<u32>,
    reason: &str,
) -> Result<Cancelled, Error> {
    let ended = |outcome| match signalled {
        Some(pid) => Cancelled::Stopped { pid, outcome },
        None => Cancelled::AlreadyEnded(outcome),
    };
    if let Some(outcome) = recorded_end(journal) {
        return Ok(ended(outcome));
    }
    let session = journal.header.session.clone();
    let Folded { session: mut state, unrecorded, divergence, .. } = fold(journal);
    if let Some(divergence) = divergence {
        return Err(Error::Diverged { session, divergence });
    }
    if let Some(undone) = unrecorded {
        writer.step(&StepRecord::of(&undone.effects, &undone.notes))?;
        if let Some(outcome) = undone.effects.iter().find_map(Effect::outcome).cloned() {
            writer.commit()?;
            return Ok(ended(outcome));
        }
    }
    let event = Event::CancelRequested { reason: reason.to_owned() };
    let stamped = Stamped { at: now(), event };
    let reaction = state.apply(&stamped);
    let step = StepRecord::of(&reaction.effects, &reaction.notes);
    let Some(outcome) = reaction.effects.iter().find_map(Effect::outcome).cloned() else {
        return Err(Error::Setup {
            message: format!(
                "session {session} stopped before its task was recorded; there is nothing to cancel"
            ),
            hint: format!("to remove it: rawko sessions rm {session} --yes"),
        });
    };
    writer.event(&stamped)?;
    writer.step(&step)?;
    writer.commit()?;
    Ok(match signalled {
        Some(pid) => Cancelled::Stopped { pid, outcome },
        None => Cancelled::Closed(outcome),
    })
}

fn recorded_end(journal: &Journal) -> Option<Outcome> {
    let Some(Record::Step(step)) = journal.records.last() else { return None };
    step.effects.iter().find_map(|effect| match effect {
        JournaledEffect::Whole(effect) => effect.outcome().cloned(),
        JournaledEffect::RunTool { .. } => None,
    })
}

/// Closes a session as cancelled when its run is dropped.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    journal: Option<PathBuf>,
}

impl Unfinished {
    pub(crate) fn begin(&mut self, journal: &Path) {
        self.journal = Some(journal.to_owned());
    }

    /// The run ended, or stopped with an error that its caller got: there is nothing to close.
    pub(crate) fn end(&mut self) {
        self.journal = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(path) = self.journal.take() else { return };
        // A journal that cannot be opened or written stays as it is, and can be resumed.
        let Ok((writer, journal)) = JournalWriter::reopen(&path) else { return };
        if journal.records.is_empty() {
            drop(writer);
            if let Some(folder) = path.parent().and_then(Path::parent) {
                let _ = SessionStore::at(folder.to_owned()).remove(&journal.header.session, |_| {});
            }
        } else {
            let _ = close(writer, &journal, None, "the run was dropped");
        }
    }
}
