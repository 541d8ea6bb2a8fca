//! The folder of sessions: new ones, finding one by the beginning of its id, listing them without reading them whole.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use rawko_core::Timestamp;
use rawko_core::session::{Effect, Outcome};
use serde::{Deserialize, Serialize};

use super::error::JournalError;
use super::reader::{header_of, open_own};
use super::record::{Header, JournaledEffect, StepRecord};
use super::writer::{FILE_NAME, JournalWriter};

/// Longest first line that is read for a list.
const HEADER_BYTES: u64 = 64 * 1024;
/// The end of a journal that is looked at for how it ended.
const TAIL_BYTES: u64 = 64 * 1024;

/// The sessions of one project: `.rawko/sessions/`.
#[derive(Debug, Clone)]
pub struct SessionStore {
    folder: PathBuf,
}

/// A session as a list shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// When it was begun.
    pub created_at: Timestamp,
    /// The beginning of its task.
    pub task: String,
    /// Whether and how it ended.
    pub status: SessionStatus,
    /// Its end, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// Whether and how a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// A process is writing it.
    Running,
    /// No process is writing it, and it has no end: interrupted.
    Unfinished,
    /// It has an end; see the outcome.
    Ended,
    /// Its journal cannot be read.
    Unreadable,
}

impl SessionStore {
    /// The sessions of the project in `project`.
    #[must_use]
    pub fn of_project(project: &Path) -> Self {
        Self { folder: project.join(".rawko").join("sessions") }
    }

    /// The sessions in a folder of one's own choice.
    #[must_use]
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Where they are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Begins a session. The folder is kept out of git by a `.gitignore` of its own.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the folder cannot be written.
    pub fn create(&self, header: &Header) -> Result<JournalWriter, JournalError> {
        let writer = JournalWriter::create(&self.folder.join(&header.session), header)?;
        let ignore = self.folder.join(".gitignore");
        if !ignore.exists() {
            std::fs::write(&ignore, "*\n")
                .map_err(|error| JournalError::io("cannot write", &ignore, error))?;
        }
        Ok(writer)
    }

    /// Path of the journal of the session whose id is, or begins or ends with, `id`; `last` is the latest.
    ///
    /// # Errors
    /// [`JournalError::NotFound`] and [`JournalError::Ambiguous`].
    pub fn find(&self, id: &str) -> Result<PathBuf, JournalError> {
        let ids = self.ids()?;
        let matches = |candidate: &&String| candidate.starts_with(id) || candidate.ends_with(id);
        let found: Vec<&String> = match id {
            "last" => ids.last().into_iter().collect(),
            _ if ids.iter().any(|candidate| candidate == id) => {
                vec![ids.iter().find(|c| *c == id)].into_iter().flatten().collect()
            }
            "" => Vec::new(),
            _ => ids.iter().filter(matches).collect(),
        };
        match found.as_slice() {
            [one] => Ok(self.folder.join(one).join(FILE_NAME)),
            [] => Err(JournalError::NotFound { id: id.to_owned(), folder: self.folder.clone() }),
            several => Err(JournalError::Ambiguous {
                id: id.to_owned(),
                candidates: several.iter().map(|id| (*id).clone()).collect(),
            }),
        }
    }

    /// All sessions, oldest first. Reads the two ends of each journal, not what is between them.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the folder cannot be read; a journal that cannot be read is listed as such.
    pub fn list(&self) -> Result<Vec<SessionInfo>, JournalError> {
        Ok(self.ids()?.into_iter().map(|id| self.info(id)).collect())
    }

    fn ids(&self) -> Result<Vec<String>, JournalError> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(JournalError::io("cannot read", &self.folder, error)),
        };
        let mut ids: Vec<String> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        ids.sort();
        Ok(ids)
    }

    fn info(&self, id: String) -> SessionInfo {
        let path = self.folder.join(&id).join(FILE_NAME);
        match read_ends(&path) {
            Ok((header, outcome)) => {
                let status = match &outcome {
                    Some(_) => SessionStatus::Ended,
                    None if is_locked(&path) => SessionStatus::Running,
                    None => SessionStatus::Unfinished,
                };
                SessionInfo { id, created_at: header.created_at, task: header.task, status, outcome }
            }
            Err(error) => SessionInfo {
                id,
                created_at: Timestamp::default(),
                task: error.to_string(),
                status: SessionStatus::Unreadable,
                outcome: None,
            },
        }
    }
}

fn read_ends(path: &Path) -> Result<(Header, Option<Outcome>), JournalError> {
    let wrong = |error| JournalError::io("cannot read", path, error);
    let mut file = open_own(path, OpenOptions::new().read(true))?;
    let mut first = Vec::new();
    BufReader::new((&file).take(HEADER_BYTES)).read_until(b'\n', &mut first).map_err(wrong)?;
    let header = header_of(path, &first)?;
    let length = file.seek(SeekFrom::End(0)).map_err(wrong)?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).map_err(wrong)?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).map_err(wrong)?;
    Ok((header, outcome_in(&tail)))
}

/// The outcome in the last whole line, if that is the record of a finished run.
fn outcome_in(tail: &[u8]) -> Option<Outcome> {
    #[derive(Deserialize)]
    struct Line {
        data: StepRecord,
    }
    let line = tail.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n').next()?;
    let step = serde_json::from_slice::<Line>(line).ok()?.data;
    step.effects.into_iter().find_map(|effect| match effect {
        JournaledEffect::Whole(Effect::Finish { outcome }) => Some(*outcome),
        JournaledEffect::Whole(_) | JournaledEffect::RunTool { .. } => None,
    })
}

fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| match file.try_lock_shared() {
        Ok(()) => false,
        Err(std::fs::TryLockError::WouldBlock) => true,
        Err(std::fs::TryLockError::Error(_)) => false,
    })
}
