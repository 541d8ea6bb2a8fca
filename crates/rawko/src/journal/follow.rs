//! Reads a journal while another process writes it: each time only the records that are new.
//!
//! Records are verified as in [`read`](super::read). A last line that is not whole yet is left for the next time.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::blobs::Blobs;
use super::error::JournalError;
use super::file::open_own;
use super::reader::{Chain, LONGEST_JOURNAL, Lines, NextLine};
use super::record::{JournalHeader, Record};

/// A journal, and how far it was read.
#[derive(Debug)]
pub struct JournalFollower {
    path: PathBuf,
    file: File,
    blobs: Blobs,
    header: JournalHeader,
    seq: u64,
    check: String,
    offset: u64,
}

impl JournalFollower {
    /// Opens the journal at `path` and reads its header.
    ///
    /// # Errors
    /// As for [`read`](super::read), where the header cannot be read.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let file = open_own(path, OpenOptions::new().read(true))?;
        let blobs = Blobs::of_journal(path);
        let mut chain = Chain { path, blobs: &blobs, seq: 0, check: String::new() };
        let mut lines = Lines { source: BufReader::new(&file), line: Vec::new(), path };
        let header = match lines.next()? {
            NextLine::StoredLine(line) => chain.header(line)?,
            NextLine::Torn(_) | NextLine::End | NextLine::TooLong => {
                return Err(chain.damaged("the file holds no whole record"));
            }
        };
        let (seq, check, offset) = (chain.seq, chain.check, lines.line.len() as u64);
        Ok(Self { path: path.to_owned(), file, blobs, header, seq, check, offset })
    }

    /// The first record.
    #[must_use]
    pub fn header(&self) -> &JournalHeader {
        &self.header
    }

    /// Gives `each` the records that were appended since the last call, with their sequence numbers.
    ///
    /// # Errors
    /// As for [`read`](super::read): at the first record that is not sound. The records before it were given.
    pub fn read_new(&mut self, mut each: impl FnMut(u64, Record)) -> Result<(), JournalError> {
        let Self { path, file, blobs, seq, check, offset, header: _ } = self;
        let wrong = |error| JournalError::io("cannot read", path, error);
        let bytes = file.metadata().map_err(wrong)?.len();
        if bytes > LONGEST_JOURNAL {
            return Err(JournalError::TooLong { path: path.clone(), bytes });
        }
        if bytes <= *offset {
            return Ok(());
        }
        file.seek(SeekFrom::Start(*offset)).map_err(wrong)?;
        let mut chain = Chain { path, blobs, seq: *seq, check: std::mem::take(check) };
        let mut lines =
            Lines { source: BufReader::with_capacity(256 * 1024, &*file), line: Vec::new(), path };
        let result = loop {
            match lines.next() {
                Ok(NextLine::StoredLine(line)) => {
                    let at = chain.seq;
                    let length = line.len() as u64;
                    match chain.record(line) {
                        Ok(record) => each(at, record),
                        Err(error) => break Err(error),
                    }
                    *offset += length;
                }
                Ok(NextLine::Torn(_) | NextLine::End) => break Ok(()),
                Ok(NextLine::TooLong) => break Err(chain.damaged("it is longer than any record")),
                Err(error) => break Err(error),
            }
        };
        *seq = chain.seq;
        *check = chain.check;
        result
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::record::{FORMAT, StepRecord};
    use super::super::writer::JournalWriter;
    use super::*;
    use rawko_core::Timestamp;
    use rawko_core::session::{Effect, EffectAnswer, EffectId, Event, Stamped, TimerPurpose};

    fn header() -> JournalHeader {
        JournalHeader {
            format: FORMAT,
            rawko: "0.1.0".into(),
            session: "s".into(),
            created_at: Timestamp(5),
            task: "t".into(),
            config_digest: "d".into(),
            degraded: Vec::new(),
            confined: None,
            seal: None,
            forked_from: None,
        }
    }

    fn write(writer: &mut JournalWriter, n: u64) {
        let event = Event::Answered { effect: EffectId(n), answer: EffectAnswer::TimerFired };
        writer.event(&Stamped { at: Timestamp(n), event }).unwrap();
        let timer = Effect::StartTimer { id: EffectId(n), after_ms: 9, purpose: TimerPurpose::Backoff };
        writer.step(&StepRecord::of(&[timer], &[])).unwrap();
        writer.commit().unwrap();
    }

    fn new_ones(follower: &mut JournalFollower) -> Vec<u64> {
        let mut numbers = Vec::new();
        follower.read_new(|seq, _| numbers.push(seq)).unwrap();
        numbers
    }

    #[test]
    fn each_record_is_given_once_and_a_line_that_is_not_whole_later() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = JournalWriter::create(&dir.path().join("s"), &header()).unwrap();
        let mut follower = JournalFollower::open(writer.path()).unwrap();
        assert_eq!(follower.header().session, "s");
        assert!(new_ones(&mut follower).is_empty());
        write(&mut writer, 1);
        assert_eq!(new_ones(&mut follower), [1, 2]);
        assert!(new_ones(&mut follower).is_empty());
        write(&mut writer, 2);
        write(&mut writer, 3);
        let path = writer.path().to_owned();
        drop(writer);
        let whole = std::fs::read(&path).unwrap();
        let half = whole.len() - 20;
        std::fs::write(&path, &whole[..half]).unwrap();
        assert_eq!(new_ones(&mut follower), [3, 4, 5]);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&whole[half..]).unwrap();
        assert_eq!(new_ones(&mut follower), [6]);
    }

    #[test]
    fn a_record_that_is_not_sound_is_an_error_and_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = JournalWriter::create(&dir.path().join("s"), &header()).unwrap();
        let mut follower = JournalFollower::open(writer.path()).unwrap();
        write(&mut writer, 1);
        let path = writer.path().to_owned();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"seq\":3}\n").unwrap();
        let mut numbers = Vec::new();
        let error = follower.read_new(|seq, _| numbers.push(seq)).unwrap_err();
        assert_eq!(numbers, [1, 2]);
        assert!(matches!(error, JournalError::Damaged { seq: 3, .. }), "{error}");
        assert!(follower.read_new(|_, _| unreachable!()).is_err());
    }
}
