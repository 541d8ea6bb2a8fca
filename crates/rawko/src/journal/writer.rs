//! Appending: each record is chained to the one before, and durable once `commit` returns.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rawko_core::session::Stamped;
use serde::Serialize;

use super::blobs::{BlobRef, Blobs, THRESHOLD};
use super::error::JournalError;
use super::file::open_own;
use super::lock::SessionLock;
use super::reader::{Journal, JournalEnd, parse};
use super::record::{JournalHeader, LONGEST_JOURNAL, LONGEST_LINE, RecordKind, StepRecord, digest};
use crate::private::sync_directory;

/// Name of the file in a session's directory.
pub(super) const FILE_NAME: &str = "journal.jsonl";

/// The writing end of one session's journal. Holds the session's lock, which ends with the process at the latest.
#[derive(Debug)]
pub struct JournalWriter {
    file: File,
    path: PathBuf,
    seq: u64,
    check: String,
    length: u64,
    line: Vec<u8>,
    blobs: Blobs,
    lock: SessionLock,
}

/// Bytes of copied records that are written at once, about.
const COPIED_AT_ONCE: usize = 256 * 1024;

#[derive(Serialize)]
struct NewLine<'a, T> {
    seq: u64,
    kind: RecordKind,
    data: &'a T,
    #[serde(skip_serializing_if = "<[BlobRef]>::is_empty")]
    blobs: &'a [BlobRef],
}

impl JournalWriter {
    /// Creates `directory` and the journal in it, readable by its owner alone, and writes the header.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the place cannot be written or the journal is there already.
    pub fn create(directory: &Path, header: &JournalHeader) -> Result<Self, JournalError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| JournalError::io("cannot create the session's directory", directory, error))?;
        let path = directory.join(FILE_NAME);
        let lock = SessionLock::acquire(&path)?;
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| JournalError::io("cannot create", &path, error))?;
        let blobs = Blobs::of_journal(&path);
        let mut writer =
            Self { file, path, seq: 0, check: String::new(), length: 0, line: Vec::new(), blobs, lock };
        writer.append(RecordKind::Header, header)?;
        writer.commit()?;
        sync_directory(directory);
        // The folders above may be as new as the session: a journal that cannot be found is lost, too.
        directory.ancestors().skip(1).take(2).for_each(sync_directory);
        Ok(writer)
    }

    /// Takes up an existing journal: locks it, reads and verifies it, drops a torn last line, and goes on after the
    /// last sound record.
    ///
    /// # Errors
    /// [`JournalError::Locked`] where another process writes it; what [`read`](super::read) refuses; and what is no
    /// regular file of the user's own.
    pub fn reopen(path: &Path) -> Result<(Self, Journal), JournalError> {
        let file = open_own(path, OpenOptions::new().read(true).append(true))?;
        let lock = SessionLock::acquire(path)?;
        let journal = parse(path, &file)?;
        // Refs and blobs go by the session's name: under another directory's name they would be another session's.
        let directory = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        if directory.is_some_and(|name| name != journal.header.session) {
            let why =
                format!("it is the journal of session {}, in another's directory", journal.header.session);
            return Err(JournalError::io("refusing to go on with", path, std::io::Error::other(why)));
        }
        let JournalEnd { seq, check, length } = journal.end.clone();
        if journal.torn_bytes > 0 {
            file.set_len(length)
                .map_err(|error| JournalError::io("cannot drop the torn line of", path, error))?;
        }
        let blobs = Blobs::of_journal(path);
        Ok((Self { file, path: path.to_owned(), seq, check, length, line: Vec::new(), blobs, lock }, journal))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes written so far.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Sequence number of the record that comes next.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.seq
    }

    /// Appends what happened. It survives the death of the process from here on, and a power cut after `commit`.
    ///
    /// # Errors
    /// [`JournalError::Io`]; the journal then ends with the record before.
    pub fn event(&mut self, stamped: &Stamped) -> Result<(), JournalError> {
        self.append(RecordKind::Event, stamped)
    }

    /// Appends what an event led to.
    ///
    /// # Errors
    /// As [`JournalWriter::event`].
    pub fn step(&mut self, step: &StepRecord) -> Result<(), JournalError> {
        self.append(RecordKind::Step, step)
    }

    /// Makes everything appended so far durable.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the storage does not take it.
    pub fn commit(&mut self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(|error| JournalError::io("cannot sync", &self.path, error))
    }

    fn append<T: Serialize>(&mut self, kind: RecordKind, data: &T) -> Result<(), JournalError> {
        self.encode(kind, data, &[])?;
        // A long text makes a long line: short ones need not be looked through.
        if self.line.len() > THRESHOLD {
            let mut data = serde_json::to_value(data).map_err(|error| self.unencodable(error))?;
            let references = self.blobs.move_out(&mut data)?;
            if !references.is_empty() {
                self.encode(kind, &data, &references)?;
            }
        }
        self.line.pop();
        let check = chain(&self.check, &mut self.line, 0);
        // What could not be read back is not written.
        if self.line.len() as u64 > LONGEST_LINE {
            return Err(self.full());
        }
        self.write()?;
        self.seq += 1;
        self.check = check;
        Ok(())
    }

    /// Appends records of another journal by their lines, without their checks; each must have there the number that it
    /// gets here. They survive a power cut after `commit`, and the death of the process from the end of this on.
    ///
    /// # Errors
    /// As [`JournalWriter::event`].
    pub(crate) fn copy<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> Result<(), JournalError> {
        let (mut seq, mut check) = (self.seq, self.check.clone());
        let mut lines = lines.peekable();
        self.line.clear();
        while let Some(line) = lines.next() {
            let begin = self.line.len();
            self.line.extend_from_slice(line);
            check = chain(&check, &mut self.line, begin);
            seq += 1;
            if self.line.len() > COPIED_AT_ONCE || lines.peek().is_none() {
                self.write()?;
                (self.seq, self.check) = (seq, check.clone());
                self.line.clear();
            }
        }
        Ok(())
    }

    /// Writes what `line` holds, whole or not at all.
    fn write(&mut self) -> Result<(), JournalError> {
        let bytes = self.line.len() as u64;
        if self.length + bytes > LONGEST_JOURNAL {
            return Err(self.full());
        }
        self.lock.renew()?;
        if let Err(error) = self.file.write_all(&self.line) {
            // A full disk may have taken half of the line: cut it off again, so that the file ends in a whole record.
            let _ = self.file.set_len(self.length);
            return Err(JournalError::io("cannot write", &self.path, error));
        }
        self.length += bytes;
        Ok(())
    }

    fn full(&self) -> JournalError {
        let full = std::io::Error::other("the journal would become longer than it can be read back");
        JournalError::io("cannot go on writing", &self.path, full)
    }

    fn encode<T: Serialize>(
        &mut self,
        kind: RecordKind,
        data: &T,
        blobs: &[BlobRef],
    ) -> Result<(), JournalError> {
        self.line.clear();
        let line = NewLine { seq: self.seq, kind, data, blobs };
        serde_json::to_writer(&mut self.line, &line).map_err(|error| self.unencodable(error))
    }

    fn unencodable(&self, error: serde_json::Error) -> JournalError {
        JournalError::io("cannot encode for", &self.path, error.into())
    }
}

/// Ends the record that begins at `begin` in `line` with its check, and returns that.
fn chain(before: &str, line: &mut Vec<u8>, begin: usize) -> String {
    let check = digest(&[before.as_bytes(), line.get(begin..).unwrap_or_default()]);
    line.extend_from_slice(b",\"check\":\"");
    line.extend_from_slice(check.as_bytes());
    line.extend_from_slice(b"\"}\n");
    check
}
