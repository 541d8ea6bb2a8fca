//! What can be wrong with a journal.

use std::path::{Path, PathBuf};

use rawko_core::machine::State;

/// An error of the journal. Nothing was overwritten when one occurs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file system refused.
    #[error("{doing} {path}: {source}")]
    Io {
        /// What was being done, e.g. `cannot write`.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another process writes this session, or another thread of this one.
    #[error(
        "{path}: another rawko process is writing this session{}",
        pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
    )]
    Locked {
        /// The journal.
        path: PathBuf,
        /// The process; absent where the system does not tell it.
        pid: Option<u32>,
    },
    /// It was written by a rawko with another format.
    #[error("{path}: written in format {found}, and this rawko reads format {known} alone", known = super::FORMAT)]
    OtherFormat {
        /// The journal.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// There is no journal where one was looked for.
    #[error("{path}: there is no journal here")]
    Missing {
        /// Where.
        path: PathBuf,
    },
    /// It is longer than a journal can be.
    #[error(
        "{path}: {bytes} bytes are more than a journal can have ({} MiB): it is damaged, or it is none",
        super::record::LONGEST_JOURNAL / (1024 * 1024)
    )]
    TooLong {
        /// The journal.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// A record's long text is not to be had.
    #[error("{path}: record {seq} needs the blob {blob}, which {what}")]
    Blob {
        /// The journal.
        path: PathBuf,
        /// Sequence number of the record.
        seq: u64,
        /// Name of the blob: the hash of its content.
        blob: String,
        /// What is wrong with it.
        what: String,
    },
    /// The session needs no repair.
    #[error("{path}: all {records} records are sound, so there is nothing to repair")]
    Sound {
        /// The journal.
        path: PathBuf,
        /// How many there are, the header included.
        records: u64,
        /// The state of the session.
        state: State,
    },
    /// The damage begins before the task: there is nothing to repair a session from.
    #[error("{path}: {damage}; the task was recorded there, so nothing of this session can be copied")]
    NothingSound {
        /// The journal.
        path: PathBuf,
        /// What is damaged.
        damage: String,
    },
    /// A record is damaged.
    #[error("{path}: record {seq} (line {line}) is damaged: {what}")]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Sequence number of the record.
        seq: u64,
        /// Its line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// Another process makes a session in the folder, and does not end.
    #[error("another process has held the lock on {folder} for {seconds} s")]
    Held {
        /// The folder of sessions.
        folder: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// There is no such session.
    #[error("{}", no_session(id, folder))]
    NotFound {
        /// What was asked for.
        id: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// The beginning of an id that several sessions share.
    #[error("`{id}` is the beginning or end of several sessions: {}", candidates.join(", "))]
    Ambiguous {
        /// What was asked for.
        id: String,
        /// The sessions.
        candidates: Vec<String>,
    },
}

/// What to do where the sessions' folder cannot be read or written, for people.
pub const CHECK_ACCESS: &str =
    "check the disk and the permissions of .rawko/sessions; `rawko doctor` checks both";

/// `last` is what many commands mean where no session is named.
fn no_session(id: &str, folder: &Path) -> String {
    let folder = folder.display();
    if id == "last" {
        format!("there are no sessions in {folder}")
    } else {
        format!("there is no session `{id}` in {folder}")
    }
}

impl JournalError {
    /// What to try, for people; every command in it is whole.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let lost = "nothing in it can be recovered; to remove it: rawko sessions rm";
        let (path, hint, option) = match self {
            Self::Io { .. } => return Some(CHECK_ACCESS.to_owned()),
            Self::NotFound { id, .. } if id == "last" => {
                return Some("to start one: rawko \"a task\"".to_owned());
            }
            Self::NotFound { .. } => return Some("to see which there are: rawko sessions list".to_owned()),
            Self::Held { folder, .. } => {
                let folder = folder.display();
                return Some(format!("try again; if it hangs, find the process and end it: lsof {folder}"));
            }
            Self::Ambiguous { .. } => return Some("give more of the id".to_owned()),
            Self::OtherFormat { found, .. } if *found > super::FORMAT => {
                return Some("install a newer rawko".to_owned());
            }
            Self::OtherFormat { path, .. } => {
                (path, "read it with the rawko that wrote it, or remove it: rawko sessions rm", " --yes")
            }
            Self::Locked { path, .. } => (path, "wait until it has ended, or stop it: rawko cancel", ""),
            // The task is in the first record after the header.
            Self::Damaged { path, seq: 0 | 1, .. } | Self::Blob { path, seq: 0 | 1, .. } => {
                (path, lost, " --yes")
            }
            Self::Missing { path } | Self::NothingSound { path, .. } => (path, lost, " --yes"),
            Self::TooLong { path, .. } => (path, "to remove it: rawko sessions rm", " --yes"),
            Self::Damaged { path, .. } | Self::Blob { path, .. } => {
                (path, "to copy the sound records before that into a new session: rawko sessions repair", "")
            }
            Self::Sound { path, state: State::Idle, .. } => {
                (path, "nothing was done in the session; to remove it: rawko sessions rm", " --yes")
            }
            Self::Sound { path, state, .. } if state.is_final() => {
                (path, "to give the session another task: rawko continue", " \"…\"")
            }
            Self::Sound { path, .. } => (path, "to go on with the session: rawko resume", ""),
        };
        let session = path.parent()?.file_name()?.to_string_lossy();
        // Another user may have named the folder.
        let is_plain = session.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let session = if is_plain { session } else { "ID".into() };
        Some(format!("{hint} {session}{option}"))
    }

    pub(crate) fn io(doing: &'static str, path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), source }
    }
}
