//! Repair: the sound beginning of a damaged journal, copied into a new session. The damaged one is only read.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use rawko_core::machine::State;
use rawko_core::session::{Event, LostWork};
use serde::Serialize;

use super::error::JournalError;
use super::file::open_own;
use super::fold::fold;
use super::lock::SessionLock;
use super::lost_records::LostRecords;
use super::reader::{Journal, Prefix, prefix, read};
use super::record::{FORMAT, ForkedFrom, JournalHeader, Record, StepRecord};
use super::store::SessionStore;
use super::writer::JournalWriter;
use crate::clock::now;
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
    /// What agents and users learn of them when the copy is taken up.
    pub lost_work: LostWork,
    /// Where the copy stands.
    pub state: State,
    /// Why the checkpoints of the damaged session are not the copy's, where they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_shared: Option<String>,
}

impl SessionStore {
    /// Copies the sound records of the session `id` into a new session, which can be resumed or forked. Nothing of the
    /// damaged one is changed. What it announced and the damage hides counts as begun: its outcome is unknown, and it is
    /// not done again. [`repair`](crate::repair()) takes the checkpoints
    /// along too, and the user's seal.
    ///
    /// # Errors
    /// [`JournalError::Sound`] where there is nothing to repair, [`JournalError::Locked`] where it is running; where not
    /// even the header is sound, what is wrong with it.
    pub fn repair(&self, id: &str) -> Result<Repaired, JournalError> {
        self.repair_with(id, |_, _| None, |_, _| None)
    }

    /// The same. `seal` seals the header of the copy, given that of the damaged session; `share` takes along what is not in the journal, before the copy is a session, and says why it could not.
    pub(crate) fn repair_with(
        &self,
        id: &str,
        seal: impl FnOnce(&JournalHeader, &JournalHeader) -> Option<String>,
        share: impl FnOnce(&Path, &Journal) -> Option<String>,
    ) -> Result<Repaired, JournalError> {
        let path = self.find(id)?;
        let file = open_own(&path, OpenOptions::new().read(true))?;
        let _lock = SessionLock::acquire(&path)?;
        let Prefix { journal, damage } = prefix(&path, &file)?;
        let kept = journal.end.seq;
        let Some(damage) = damage else {
            let state = fold(&journal).session.state();
            return Err(JournalError::Sound { path, records: kept, state });
        };
        let begins = |record: &Record| matches!(record, Record::Event(event) if matches!(event.event, Event::TaskStarted { .. }));
        if !journal.records.iter().any(begins) {
            return Err(JournalError::NothingSound { path, damage: what(&damage) });
        }
        let lost = LostRecords::read(&file, journal.end.length, &journal.records)
            .map_err(|error| JournalError::io("cannot read", &path, error))?;
        let lost_work =
            LostWork { after_record: kept.saturating_sub(1), calls: lost.calls, more_calls: lost.more_calls };
        let folded = fold(&journal);
        let header = JournalHeader {
            format: FORMAT,
            session: session_id::new(now()),
            created_at: now(),
            forked_from: Some(ForkedFrom {
                session: journal.header.session.clone(),
                record: kept.saturating_sub(1),
                lost: Some(lost_work.clone()),
            }),
            seal: None,
            // No other program asked for the copy.
            traceparent: None,
            ..journal.header.clone()
        };
        let header = JournalHeader { seal: seal(&journal.header, &header), ..header };
        let mut not_shared = None;
        let copy = self.create_filled(&header, |writer| {
            write_all(writer, &journal.records)?;
            // The damaged record may have been this one: then its effects were begun.
            if let Some(undone) = &folded.unrecorded {
                writer.step(&StepRecord::of(&undone.effects, &undone.notes))?;
            }
            writer.commit()?;
            not_shared = share(writer.path(), &read(writer.path())?);
            Ok(())
        })?;
        Ok(Repaired {
            session: header.session,
            journal: copy,
            kept,
            damage: what(&damage),
            lost_lines: lost.lines,
            lost_bytes: lost.bytes,
            lost: lost.kinds,
            lost_work,
            state: folded.session.state(),
            not_shared,
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
