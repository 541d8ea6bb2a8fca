//! Repair: the sound beginning of a damaged journal, copied into a new session. The damaged one is only read.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

use rawko_core::machine::State;
use rawko_core::session::Event;
use serde::{Deserialize, Serialize};

use super::error::JournalError;
use super::file::open_own;
use super::fold::fold;
use super::lock::SessionLock;
use super::reader::{LONGEST_JOURNAL, Prefix, prefix};
use super::record::{FORMAT, ForkedFrom, JournalHeader, Record};
use super::store::SessionStore;
use super::writer::JournalWriter;
use crate::driver::now;
use crate::session_id;

/// What a repair kept, and what it could not keep.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repaired {
    /// The new session.
    pub session: String,
    /// Its journal.
    pub journal: PathBuf,
    /// Records that were sound, the header included.
    pub kept: u64,
    /// Why the next one was not.
    pub damage: String,
    /// Lines after the sound ones, the damaged one included.
    pub lost_lines: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// What was in those lines, as far as they can still be read: `ModelReplied`, `ToolFinished`, `step` and so on.
    pub lost: Vec<String>,
    /// Where the copy stands.
    pub state: State,
}

/// Kinds of lost records that are named.
const NAMED: usize = 20;

impl SessionStore {
    /// Copies the sound records of the session `id` into a new session, which can be resumed or forked. Nothing of the
    /// damaged one is changed.
    ///
    /// # Errors
    /// [`JournalError::Sound`] where there is nothing to repair, [`JournalError::Locked`] where it is running; where not
    /// even the header is sound, what is wrong with it.
    pub fn repair(&self, id: &str) -> Result<Repaired, JournalError> {
        let path = self.find(id)?;
        let file = open_own(&path, OpenOptions::new().read(true))?;
        let _lock = SessionLock::acquire(&path)?;
        let Prefix { journal, damage } = prefix(&path, &file)?;
        let kept = journal.end.seq;
        let Some(damage) = damage else {
            return Err(JournalError::Sound { path, records: kept });
        };
        let begins = |record: &Record| matches!(record, Record::Event(event) if matches!(event.event, Event::TaskStarted { .. }));
        if !journal.records.iter().any(begins) {
            return Err(JournalError::NothingSound { path, damage: what(&damage) });
        }
        let lost =
            lost(&file, journal.end.length).map_err(|error| JournalError::io("cannot read", &path, error))?;
        let header = JournalHeader {
            format: FORMAT,
            session: session_id::new(now()),
            created_at: now(),
            forked_from: Some(ForkedFrom {
                session: journal.header.session.clone(),
                record: kept.saturating_sub(1),
            }),
            ..journal.header.clone()
        };
        let copy = self.create_filled(&header, |writer| write_all(writer, &journal.records))?;
        Ok(Repaired {
            session: header.session,
            journal: copy,
            kept,
            damage: what(&damage),
            lost_lines: lost.lines,
            lost_bytes: lost.bytes,
            lost: lost.kinds,
            state: fold(&journal).session.state(),
        })
    }
}

fn write_all(writer: &mut JournalWriter, records: &[Record]) -> Result<(), JournalError> {
    for record in records {
        match record {
            Record::Event(event) => writer.event(event)?,
            Record::Step(step) => writer.step(step)?,
        }
    }
    Ok(())
}

/// The damage without its place, which the report names itself.
fn what(damage: &JournalError) -> String {
    match damage {
        JournalError::Damaged { seq, what, .. } => format!("record {seq}: {what}"),
        JournalError::Blob { seq, blob, what, .. } => format!("record {seq}: the blob {blob} {what}"),
        other => other.to_string(),
    }
}

#[derive(Default)]
struct Lost {
    lines: u64,
    bytes: u64,
    kinds: Vec<String>,
}

/// What stands after the sound records.
fn lost(mut file: &File, from: u64) -> std::io::Result<Lost> {
    let mut lost = Lost { bytes: file.metadata()?.len().saturating_sub(from), ..Lost::default() };
    file.seek(SeekFrom::Start(from))?;
    let mut source = BufReader::new(std::io::Read::take(file, LONGEST_JOURNAL));
    let mut line = Vec::new();
    while source.read_until(b'\n', &mut line)? > 0 {
        lost.lines += 1;
        if lost.kinds.len() < NAMED {
            lost.kinds.push(kind_of(&line));
        }
        line.clear();
    }
    Ok(lost)
}

fn kind_of(line: &[u8]) -> String {
    #[derive(Deserialize)]
    struct LineKind {
        kind: String,
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        #[serde(rename = "type")]
        name: Option<String>,
    }
    match serde_json::from_slice::<LineKind>(line) {
        Ok(line) => line.data.name.unwrap_or(line.kind),
        Err(_) => "unreadable".to_owned(),
    }
}
