//! Appending: each record is chained to the one before, and durable once `commit` returns.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rawko_core::session::Stamped;
use serde::Serialize;

use super::error::JournalError;
use super::reader::{End, Journal, open_own, parse};
use super::record::{Header, Kind, StepRecord, digest};

/// Name of the file in a session's directory.
pub(super) const FILE_NAME: &str = "journal.jsonl";

/// The writing end of one session's journal. Holds the operating system's lock, released by the death of the holder.
#[derive(Debug)]
pub struct JournalWriter {
    file: File,
    path: PathBuf,
    seq: u64,
    check: String,
    length: u64,
    line: Vec<u8>,
}

#[derive(Serialize)]
struct Line<'a, T> {
    seq: u64,
    kind: Kind,
    data: &'a T,
}

impl JournalWriter {
    /// Creates `directory` and the journal in it, readable by its owner alone, and writes the header.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the place cannot be written or the journal is there already.
    pub fn create(directory: &Path, header: &Header) -> Result<Self, JournalError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| JournalError::io("cannot create the session's directory", directory, error))?;
        let path = directory.join(FILE_NAME);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| JournalError::io("cannot create", &path, error))?;
        file.try_lock().map_err(|_| JournalError::Locked { path: path.clone() })?;
        let mut writer = Self { file, path, seq: 0, check: String::new(), length: 0, line: Vec::new() };
        writer.append(Kind::Header, header)?;
        writer.commit()?;
        sync_directory(directory);
        Ok(writer)
    }

    /// Takes up an existing journal: locks it, reads and verifies it, drops a torn last line, and goes on behind the
    /// last sound record.
    ///
    /// # Errors
    /// [`JournalError::Locked`] where another process writes it; what [`read`](super::read) refuses; and what is no
    /// regular file of the user's own.
    pub fn reopen(path: &Path) -> Result<(Self, Journal), JournalError> {
        let mut file = open_own(path, OpenOptions::new().read(true).append(true))?;
        file.try_lock().map_err(|_| JournalError::Locked { path: path.to_owned() })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| JournalError::io("cannot read", path, error))?;
        let journal = parse(path, &bytes)?;
        let End { seq, check, length } = journal.end.clone();
        if journal.torn_bytes > 0 {
            file.set_len(length)
                .map_err(|error| JournalError::io("cannot drop the torn line of", path, error))?;
        }
        Ok((Self { file, path: path.to_owned(), seq, check, length, line: Vec::new() }, journal))
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

    /// Appends what happened. It survives the death of the process from here on, and a power cut after `commit`.
    ///
    /// # Errors
    /// [`JournalError::Io`]; the journal then ends with the record before.
    pub fn event(&mut self, stamped: &Stamped) -> Result<(), JournalError> {
        self.append(Kind::Event, stamped)
    }

    /// Appends what an event led to.
    ///
    /// # Errors
    /// As [`JournalWriter::event`].
    pub fn step(&mut self, step: &StepRecord) -> Result<(), JournalError> {
        self.append(Kind::Step, step)
    }

    /// Makes everything appended so far durable.
    ///
    /// # Errors
    /// [`JournalError::Io`] where the storage does not take it.
    pub fn commit(&mut self) -> Result<(), JournalError> {
        self.file.sync_data().map_err(|error| JournalError::io("cannot sync", &self.path, error))
    }

    fn append<T: Serialize>(&mut self, kind: Kind, data: &T) -> Result<(), JournalError> {
        let wrong =
            |error: serde_json::Error| JournalError::io("cannot encode for", &self.path, error.into());
        self.line.clear();
        serde_json::to_writer(&mut self.line, &Line { seq: self.seq, kind, data }).map_err(wrong)?;
        self.line.pop();
        let check = digest(&[self.check.as_bytes(), &self.line]);
        self.line.extend_from_slice(b",\"check\":\"");
        self.line.extend_from_slice(check.as_bytes());
        self.line.extend_from_slice(b"\"}\n");
        if let Err(error) = self.file.write_all(&self.line) {
            // A full disk may have taken half of the line: cut it off again, so that the file ends in a whole record.
            let _ = self.file.set_len(self.length);
            return Err(JournalError::io("cannot write", &self.path, error));
        }
        self.length += self.line.len() as u64;
        self.seq += 1;
        self.check = check;
        Ok(())
    }
}

/// The new entry itself must survive a power cut. Some file systems cannot sync a directory: nothing to be done then.
fn sync_directory(directory: &Path) {
    if let Ok(handle) = File::open(directory) {
        let _ = handle.sync_all();
    }
}
