//! Ending a session from outside (`spec/sessions.md`, "Cancellation").
//!
//! Owns the mark by which the process that works on a session is found, and the two ways to end one: the process is
//! asked to, by SIGTERM, and closes the journal itself; or nobody works on it, and the cancellation is appended here,
//! through the same fold as any other event. A process is never signalled on its number alone: numbers are given
//! again.

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

/// Name of the mark in a session's directory.
const FILE_NAME: &str = "holder.json";
/// Most bytes of a mark; what is longer is none.
const LONGEST: u64 = 1024;
/// How often it is looked whether a journal is free.
const LOOK: Duration = Duration::from_millis(20);

/// How a session was ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// It had ended before.
    AlreadyEnded(Outcome),
    /// Nobody worked on it: its journal was closed as cancelled.
    Closed(Outcome),
    /// A process worked on it, was asked to end, and did. The outcome may be another than `cancelled`, where the run came to
    /// its end first.
    Stopped {
        /// The process.
        pid: u32,
        /// How the session ended.
        outcome: Outcome,
    },
}

/// Ends the session `id`, and waits for at most `patience` until its journal is closed.
///
/// # Errors
/// [`Error::StillHeld`] where a process works on it that cannot be found, may not be signalled, or does not end in time;
/// [`Error::Journal`], [`Error::Diverged`] and [`Error::Setup`] as for [`Rawko::resume`](crate::Rawko::resume).
pub fn cancel(store: &SessionStore, id: &str, patience: Duration) -> Result<Cancelled, Error> {
    let path = store.find(id)?;
    let begun = Instant::now();
    let mut signalled = None;
    loop {
        match JournalWriter::reopen(&path) {
            Ok((writer, journal)) => return close(writer, &journal, signalled),
            Err(JournalError::Locked { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if signalled.is_none() {
            signalled = Holder::of(&path).and_then(|holder| holder.terminate().then_some(holder.pid));
        }
        if begun.elapsed() >= patience {
            return Err(Error::StillHeld { journal: path, pid: signalled, waited: begun.elapsed() });
        }
        std::thread::sleep(LOOK);
    }
}

/// The journal is ours: it has an end, or gets one.
fn close(mut writer: JournalWriter, journal: &Journal, signalled: Option<u32>) -> Result<Cancelled, Error> {
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
    let event = Event::CancelRequested { reason: "asked for by `cancel`".to_owned() };
    let stamped = Stamped { at: now(), event };
    let reaction = state.apply(&stamped);
    let step = StepRecord::of(&reaction.effects, &reaction.notes);
    let Some(outcome) = reaction.effects.iter().find_map(Effect::outcome).cloned() else {
        return Err(Error::Setup {
            message: format!(
                "session {session} ended before its task was recorded: there is nothing to cancel"
            ),
            hint: format!("it can be removed: rawko sessions rm {session}"),
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

/// The process that works on a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    pid: u32,
    /// When it was started, as the system tells it: two processes of one number differ in this.
    started: String,
}

impl Holder {
    fn this() -> Option<Self> {
        let pid = std::process::id();
        Some(Self { pid, started: started(pid)? })
    }

    /// Who works on the session of this journal, as far as the mark says.
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

    /// Asks it to end, if it is still the same process. Says whether it was asked.
    fn terminate(&self) -> bool {
        let raw = i32::try_from(self.pid).ok();
        let Some(pid) = raw.filter(|raw| *raw > 1).and_then(Pid::from_raw) else { return false };
        terminate(pid, || started(self.pid).as_ref() == Some(&self.started))
    }
}

/// The handle means one process, whatever becomes of its number between looking and signalling.
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

/// Ticks between the start of the system and that of the process.
#[cfg(target_os = "linux")]
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; the start is the 20th field behind it.
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

/// The mark of this process on a session that it works on; removed with the value. Without it the session can still be
/// ended, but not by its id: no reason not to work on it.
#[derive(Debug)]
pub(crate) struct HolderMark(PathBuf);

impl HolderMark {
    /// Leaves the mark beside this journal, readable by its owner alone.
    pub(crate) fn leave(journal: &Path) -> Option<Self> {
        let path = journal.with_file_name(FILE_NAME);
        let text = serde_json::to_string(&Holder::this()?).ok()?;
        // A mark of a process that is gone; the journal's lock says that it is.
        let _ = std::fs::remove_file(&path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).ok()?;
        let mark = Self(path);
        file.write_all(text.as_bytes()).ok()?;
        Some(mark)
    }
}

impl Drop for HolderMark {
    fn drop(&mut self) {
        // The next process may have left its own by now.
        if Holder::of(&self.0).is_some_and(|holder| holder.pid == std::process::id()) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}
