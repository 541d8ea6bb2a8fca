//! Cancels a session from another process (`docs/spec/sessions.md`, "Cancellation").
//!
//! Owns the file that names the process running a session, and the two ways to cancel one: the process gets SIGTERM and
//! closes the journal itself; or no process runs it, and the cancellation is appended here, through the same fold
//! as any other event. A process is never signalled by its id alone, because ids are reused.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rawko_core::session::{Effect, Event, Outcome, Stamped};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::driver::now;
use crate::error::Error;
use crate::journal::{
    Folded, Journal, JournalError, JournalWriter, JournaledEffect, Record, SessionStore, StepRecord, fold,
};

/// Name of the process file in a session's directory.
const FILE_NAME: &str = "holder.json";
/// Largest process file, in bytes. A longer one is ignored.
const LONGEST: u64 = 1024;
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
            signalled = RunningProcess::of(&path).and_then(|holder| holder.terminate().then_some(holder.pid));
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
            hint: format!("remove it with `rawko sessions rm {session}`"),
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

/// The process that runs a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningProcess {
    pid: u32,
    /// Its start time, as the system reports it. It differs between two processes with the same id.
    started: String,
}

impl RunningProcess {
    fn this() -> Option<Self> {
        let pid = std::process::id();
        Some(Self { pid, started: started(pid)? })
    }

    /// Reads which process runs the session of this journal.
    fn of(journal: &Path) -> Option<Self> {
        let path = journal.with_file_name(FILE_NAME);
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).ok()?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let mut text = String::new();
        file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        file.take(LONGEST).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Sends SIGTERM if it is still the same process. Returns whether it did.
    fn terminate(&self) -> bool {
        let raw = i32::try_from(self.pid).ok();
        let Some(pid) = raw.filter(|raw| *raw > 1).and_then(Pid::from_raw) else { return false };
        terminate(pid, || started(self.pid).as_ref() == Some(&self.started))
    }
}

/// A pidfd refers to one process, even if its id is reused between the check and the signal.
#[cfg(target_os = "linux")]
fn terminate(pid: Pid, is_the_same: impl FnOnce() -> bool) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    is_the_same() && pidfd_send_signal(&handle, Signal::TERM).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn terminate(pid: Pid, is_the_same: impl FnOnce() -> bool) -> bool {
    is_the_same() && rustix::process::kill_process(pid, Signal::TERM).is_ok()
}

/// Clock ticks between the start of the system and that of the process.
#[cfg(target_os = "linux")]
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything. The start time is the 20th field after it.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(not(target_os = "linux"))]
fn started(pid: u32) -> Option<String> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-o", "lstart=", "-p", &pid.to_string()])
        .env("LC_ALL", "C")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The process file of a running session, removed on drop. If it cannot be written, the session can still be
/// cancelled from within, so that is no reason to stop the run.
#[derive(Debug)]
pub(crate) struct HolderMark(PathBuf);

impl HolderMark {
    /// Writes the process file next to this journal, readable only by its owner.
    pub(crate) fn leave(journal: &Path) -> Option<Self> {
        let path = journal.with_file_name(FILE_NAME);
        let text = serde_json::to_string(&RunningProcess::this()?).ok()?;
        // A file of a process that is gone, as the journal's lock shows.
        let _ = std::fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
        let mark = Self(path);
        file.write_all(text.as_bytes()).ok()?;
        Some(mark)
    }
}

impl Drop for HolderMark {
    fn drop(&mut self) {
        // The next process may have written its own file by now.
        if RunningProcess::of(&self.0).is_some_and(|holder| holder.pid == std::process::id()) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}
