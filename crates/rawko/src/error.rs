//! What can go wrong around a run. What goes wrong inside one is data to the machine and ends in an `Outcome`.

use std::path::PathBuf;

use rawko_core::session::LimitKind;

use crate::channel::beside::RunningSession;
use crate::config::{Claim, ConfigErrors, TrustError};
use crate::journal::{Divergence, JournalError};

/// Why a run could not start or finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The task is empty.
    #[error("the task is empty: describe in a sentence what to do")]
    EmptyTask,
    /// The project's directory does not exist, or is not a directory.
    #[error("{path}: {source}")]
    Project {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The configuration has errors, all of which are listed.
    #[error("{0}")]
    Config(ConfigErrors),
    /// The configuration is valid, but not possible on this machine.
    #[error("{message}")]
    Setup {
        /// What is not possible.
        message: String,
        /// What to try.
        hint: String,
    },
    /// A provider's key is missing.
    #[error("provider `{provider}` needs a key: the environment variable {variable} is not set")]
    NoKey {
        /// The provider.
        provider: String,
        /// The variable that should hold its key.
        variable: String,
    },
    /// The project's configuration asks for more than an untrusted folder gets.
    #[error("the configuration of {} is not trusted, and it asks for more than an untrusted folder gets", folder.display())]
    Untrusted {
        /// The project.
        folder: PathBuf,
        /// What it claims, each with its position.
        claims: Vec<Claim>,
    },
    /// A session whose journal needs trust, because the user did not start it or today's permissions are narrower.
    #[error("session {session} is not trusted: {}", reasons.join("; "))]
    UntrustedJournal {
        /// The session.
        session: String,
        /// Why not.
        reasons: Vec<String>,
        /// What to add to the command, where that is enough: the session's own verification commands, and the limit that
        /// has to be raised.
        again: Vec<String>,
    },
    /// A limit stopped the session, and it was not raised.
    #[error("session {session} was stopped by a limit, which still holds: {summary}")]
    LimitStands {
        /// The session.
        session: String,
        /// The limit.
        limit: LimitKind,
        /// How the session ended.
        summary: String,
    },
    /// The session has passed a limit that was given for it.
    #[error("session {session} has already used {spent}, and the limit given for it is {given}")]
    LimitSpent {
        /// The session.
        session: String,
        /// The limit.
        limit: LimitKind,
        /// The limit that was given, with its unit.
        given: String,
        /// What was used, with its unit.
        spent: String,
    },
    /// The list of trusted folders could not be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// No id was given, and the newest session that has not ended cannot be resumed. No older one is resumed in its
    /// place.
    #[error("no unfinished session was resumed: {session}, the newest, {}", why_not(source))]
    NewestNotResumed {
        /// The newest session that has not ended, or whose state is unknown.
        session: String,
        /// Why it cannot be resumed: it is running, damaged, or of a newer format.
        source: Box<JournalError>,
        /// The newest session before it that has not ended either, if there is one.
        older: Option<String>,
    },
    /// The journal could not be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// This version of rawko derives something else than the journal recorded.
    #[error("session {session} does not lead to what it recorded: record {} differs in {}", divergence.seq, fields(divergence))]
    Diverged {
        /// The session.
        session: String,
        /// The first difference.
        divergence: Divergence,
    },
    /// A process still runs the session.
    #[error(
        "{}: after {:.1} s a process still runs this session{}",
        journal.display(),
        waited.as_secs_f64(),
        pid.map_or_else(String::new, |pid| format!(" (process {pid}, which was asked to end)"))
    )]
    StillHeld {
        /// Its journal.
        journal: PathBuf,
        /// The process that was asked to end; absent where it could not be found or not be asked.
        pid: Option<u32>,
        /// How long rawko waited.
        waited: std::time::Duration,
    },
    /// Commands of the process that ran the session before are still alive, although they were killed: they might still
    /// change the project.
    #[error(
        "session {session} cannot go on: commands of the process that ran it before are still alive and cannot be ended: {}",
        commands.iter().map(|it| format!("process {} ({})", it.process, it.command)).collect::<Vec<_>>().join(", ")
    )]
    CommandsLeft {
        /// The session.
        session: String,
        /// The processes.
        commands: Vec<rawko_tools::Survivor>,
    },
    /// Another session runs in the folder.
    #[error("{} is busy: {}", folder.display(), who(running))]
    Busy {
        /// The folder.
        folder: PathBuf,
        /// What runs there.
        running: Vec<RunningSession>,
    },
    /// [`RunControl::suspend`](crate::RunControl::suspend) stopped the run. Its session can be resumed.
    #[error("session {session} was suspended")]
    Suspended {
        /// The session.
        session: String,
    },
    /// Rawko, or a function that the embedding program gave it, panicked. What is recorded is sound, so that the session can be
    /// resumed.
    #[error("the run broke: {message}")]
    Panicked {
        /// What the panic said, without secrets.
        message: String,
    },
    /// The async runtime shut down during the run.
    #[error("the run was interrupted: its runtime shut down")]
    Interrupted,
}

fn who(running: &[RunningSession]) -> String {
    let one = |it: &RunningSession| format!("session {} runs there (process {})", it.session, it.process);
    running.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn why_not(error: &JournalError) -> String {
    match error {
        JournalError::Locked { pid: Some(pid), .. } => format!("is running (process {pid})"),
        JournalError::Locked { pid: None, .. } => "is running".to_owned(),
        // It may well be readable, in a folder that is not to be written.
        JournalError::Io { .. } => format!("cannot be opened: {error}"),
        other => format!("cannot be read: {other}"),
    }
}

fn fields(divergence: &Divergence) -> String {
    divergence.fields.iter().map(|difference| difference.field.as_str()).collect::<Vec<_>>().join(", ")
}
