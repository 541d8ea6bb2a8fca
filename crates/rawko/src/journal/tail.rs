//! Reads a journal while another process writes it. Each record is verified like any other; a record that is not yet
//! complete is read again later.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::blobs::Blobs;
use super::error::JournalError;
use super::file::open_own;
use super::lock::holder;
use super::reader::Chain;
use super::record::{JournalHeader, LONGEST_LINE, Record};

/// A journal, from its first record to wherever its writer is.
#[derive(Debug)]
pub struct JournalTail {
    path: PathBuf,
    file: BufReader<File>,
    header: JournalHeader,
    /// Sequence number of the next record, and the check of the last one.
    seq: u64,
    check: String,
    /// Bytes of the records that were read.
    read: u64,
}

impl JournalTail {
    /// Opens a journal, and reads its first record.
    ///
    /// # Errors
    /// As for [`read`](super::read).
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let file = BufReader::new(open_own(path, OpenOptions::new().read(true))?);
        let mut tail = Self {
            path: path.to_owned(),
            file,
            header: JournalHeader::default(),
            seq: 0,
            check: String::new(),
            read: 0,
        };
        let line = tail.line()?.unwrap_or_default();
        let blobs = Blobs::of_journal(path);
        let mut chain = Chain { path, blobs: &blobs, seq: 0, check: String::new() };
        if line.is_empty() {
            return Err(chain.damaged("the file holds no whole record"));
        }
        tail.header = chain.header(&line)?;
        (tail.seq, tail.check) = (chain.seq, chain.check);
        Ok(tail)
    }

    /// The first record.
    #[must_use]
    pub fn header(&self) -> &JournalHeader {
        &self.header
    }

    /// Where the journal is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The sequence number of the next record.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.seq
    }

    /// The next record; `None` if there is none yet.
    ///
    /// # Errors
    /// As for [`read`](super::read).
    pub fn next_record(&mut self) -> Result<Option<Record>, JournalError> {
        let Some(line) = self.line()? else { return Ok(None) };
        let blobs = Blobs::of_journal(&self.path);
        let check = std::mem::take(&mut self.check);
        let mut chain = Chain { path: &self.path, blobs: &blobs, seq: self.seq, check };
        let record = chain.record(&line)?;
        (self.seq, self.check) = (chain.seq, chain.check);
        Ok(Some(record))
    }

    /// Whether a process writes the journal.
    #[must_use]
    pub fn is_written(&self) -> bool {
        holder(&self.path).is_some()
    }

    /// The next whole line.
    fn line(&mut self) -> Result<Option<Vec<u8>>, JournalError> {
        let wrong = |error| JournalError::io("cannot read", &self.path, error);
        let mut line = Vec::new();
        let read = self.file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(wrong)?;
        if line.ends_with(b"\n") {
            self.read += read as u64;
            return Ok(Some(line));
        }
        if read as u64 == LONGEST_LINE {
            let blobs = Blobs::of_journal(&self.path);
            let chain = Chain { path: &self.path, blobs: &blobs, seq: self.seq, check: String::new() };
            return Err(chain.damaged("it is longer than any record"));
        }
        // The rest may come, or the next process removes what is there.
        if read > 0 {
            self.file.seek(SeekFrom::Start(self.read)).map_err(wrong)?;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rawko_core::Timestamp;
    use rawko_core::session::{EffectAnswer, EffectId, Event, Stamped};

    use super::super::record::FORMAT;
    use super::super::writer::JournalWriter;
    use super::*;

    fn event(n: u64) -> Stamped {
        let event = Event::Answered { effect: EffectId(n), answer: EffectAnswer::TimerFired };
        Stamped { at: Timestamp(n), event }
    }

    #[test]
    fn records_are_read_as_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let header = JournalHeader { format: FORMAT, session: "s".into(), ..JournalHeader::default() };
        let mut writer = JournalWriter::create(&dir.path().join("s"), &header).unwrap();
        let mut tail = JournalTail::open(writer.path()).unwrap();
        assert_eq!(tail.header(), &header);
        assert!(tail.is_written());
        assert_eq!(tail.next_record().unwrap(), None);
        for n in 1..4 {
            writer.event(&event(n)).unwrap();
            assert_eq!(tail.next_record().unwrap(), Some(Record::Event(Box::new(event(n)))));
            assert_eq!(tail.next_record().unwrap(), None);
        }
        let path = writer.path().to_owned();
        drop(writer);
        assert!(!tail.is_written());
        // A record that is not whole is read again once it is, even if it was another one before.
        let whole = std::fs::read(&path).unwrap();
        let append = |bytes: &[u8]| {
            OpenOptions::new().append(true).open(&path).unwrap().write_all(bytes).unwrap();
        };
        append(b"{\"seq\":4,\"ki");
        assert_eq!(tail.next_record().unwrap(), None);
        std::fs::write(&path, &whole).unwrap();
        let (mut writer, _) = JournalWriter::reopen(&path).unwrap();
        writer.event(&event(9)).unwrap();
        assert_eq!(tail.next_record().unwrap(), Some(Record::Event(Box::new(event(9)))));
        append(b"{}\n");
        assert!(matches!(tail.next_record(), Err(JournalError::Damaged { seq: 5, .. })));
    }
}
