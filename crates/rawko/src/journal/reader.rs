//! Reading back: every check is verified, a torn last line is dropped and said so.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rawko_core::session::Stamped;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::JournalError;
use super::record::{FORMAT, Header, Kind, Record, StepRecord, digest};

/// A journal as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal {
    /// The first record.
    pub header: Header,
    /// All others, in order; the first has sequence number 1.
    pub records: Vec<Record>,
    /// Bytes of an incomplete last line that were left out, if there were any.
    pub torn_bytes: usize,
    /// Where the next record goes on.
    pub(super) end: End,
}

/// The end of the sound records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    /// Sequence number of the next record.
    pub(super) seq: u64,
    /// Check of the last one.
    pub(super) check: String,
    /// Bytes up to there.
    pub(super) length: u64,
}

#[derive(Deserialize)]
struct Line<'a> {
    seq: u64,
    kind: Kind,
    #[serde(borrow)]
    data: &'a RawValue,
    check: &'a str,
}

const CHECK_SUFFIX: usize = ",\"check\":\"0123456789abcdef\"}".len();

/// Reads and verifies a whole journal.
///
/// # Errors
/// [`JournalError::Damaged`] names the first record that is not sound; [`JournalError::Newer`] refuses a format that
/// this rawko does not know.
pub fn read(path: &Path) -> Result<Journal, JournalError> {
    let mut bytes = Vec::new();
    open_own(path, OpenOptions::new().read(true))?
        .read_to_end(&mut bytes)
        .map_err(|error| JournalError::io("cannot read", path, error))?;
    parse(path, &bytes)
}

/// Opens a journal, if it is a regular file of the user's own and not a link to one: what lies in a project's folder may
/// have been put there by somebody else.
pub(super) fn open_own(path: &Path, options: &mut OpenOptions) -> Result<File, JournalError> {
    let refuse = |why: &'static str| JournalError::io("refusing to open", path, std::io::Error::other(why));
    // Without O_NONBLOCK, opening a FIFO would wait for its other end.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file =
        options.custom_flags(flags).open(path).map_err(|error| match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => refuse("it is a symbolic link"),
            _ => JournalError::io("cannot open", path, error),
        })?;
    let metadata = file.metadata().map_err(|error| JournalError::io("cannot read", path, error))?;
    if !metadata.is_file() {
        return Err(refuse("it is not a regular file"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(refuse("it belongs to somebody else"));
    }
    if metadata.nlink() > 1 {
        return Err(refuse("it has a second name (a hard link)"));
    }
    Ok(file)
}

pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Journal, JournalError> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let torn_bytes = bytes.len() - whole;
    let mut lines = bytes.get(..whole).unwrap_or_default().split_inclusive(|byte| *byte == b'\n');
    let mut chain = Chain { path, seq: 0, check: String::new() };
    let Some(first) = lines.next() else {
        return Err(chain.damaged("the file holds no whole record".to_owned()));
    };
    let header = chain.header(first)?;
    let records = lines.map(|line| chain.record(line)).collect::<Result<Vec<_>, _>>()?;
    let end = End { seq: chain.seq, check: chain.check, length: whole as u64 };
    Ok(Journal { header, records, torn_bytes, end })
}

/// The first record alone, for lists: costs the same for a long journal as for a short one.
pub(super) fn header_of(path: &Path, first_line: &[u8]) -> Result<Header, JournalError> {
    Chain { path, seq: 0, check: String::new() }.header(first_line)
}

struct Chain<'a> {
    path: &'a Path,
    seq: u64,
    check: String,
}

impl Chain<'_> {
    fn header(&mut self, line: &[u8]) -> Result<Header, JournalError> {
        // A newer format may have changed anything but this field, so it is looked for before the checks.
        #[derive(Deserialize)]
        struct Probe {
            data: ProbeData,
        }
        #[derive(Deserialize)]
        struct ProbeData {
            format: u32,
        }
        if let Ok(probe) = serde_json::from_slice::<Probe>(line)
            && probe.data.format > FORMAT
        {
            return Err(JournalError::Newer { path: self.path.to_owned(), found: probe.data.format });
        }
        let (kind, data) = self.open(line)?;
        if kind != Kind::Header {
            return Err(self.damaged("the first record is not a header".to_owned()));
        }
        let header = serde_json::from_str(data.get()).map_err(|error| self.damaged(error.to_string()))?;
        self.seq += 1;
        Ok(header)
    }

    fn record(&mut self, line: &[u8]) -> Result<Record, JournalError> {
        let (kind, data) = self.open(line)?;
        let record = match kind {
            Kind::Header => return Err(self.damaged("a second header".to_owned())),
            Kind::Event => serde_json::from_str::<Stamped>(data.get()).map(|e| Record::Event(Box::new(e))),
            Kind::Step => serde_json::from_str::<StepRecord>(data.get()).map(Record::Step),
        };
        let record = record.map_err(|error| self.damaged(error.to_string()))?;
        self.seq += 1;
        Ok(record)
    }

    /// Verifies a line and gives what is in it.
    fn open<'l>(&mut self, line: &'l [u8]) -> Result<(Kind, &'l RawValue), JournalError> {
        let body = line.strip_suffix(b"\n").unwrap_or(line);
        let parsed: Line<'l> =
            serde_json::from_slice(body).map_err(|error| self.damaged(format!("not a record: {error}")))?;
        let checked =
            body.len().checked_sub(CHECK_SUFFIX).and_then(|end| body.get(..end)).unwrap_or_default();
        let check = digest(&[self.check.as_bytes(), checked]);
        if parsed.check != check {
            return Err(self.damaged("its checksum does not match".to_owned()));
        }
        if parsed.seq != self.seq {
            return Err(self.damaged(format!("it says that it is record {}", parsed.seq)));
        }
        self.check = check;
        Ok((parsed.kind, parsed.data))
    }

    fn damaged(&self, what: String) -> JournalError {
        let line = usize::try_from(self.seq).unwrap_or(usize::MAX).saturating_add(1);
        JournalError::Damaged { path: self.path.to_owned(), seq: self.seq, line, what }
    }
}

#[cfg(test)]
mod tests {
    use super::super::writer::JournalWriter;
    use super::*;
    use rawko_core::Timestamp;
    use rawko_core::session::{Effect, EffectId, Event, TimerPurpose};

    fn sample() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let header = Header {
            format: FORMAT,
            rawko: "0.1.0".into(),
            session: "s".into(),
            created_at: Timestamp(5),
            task: "say \"check\":\"x\"".into(),
            config_digest: "d".into(),
        };
        let mut writer = JournalWriter::create(&dir.path().join("s"), &header).unwrap();
        for n in 1..4 {
            let event = Event::TimerFired { effect: EffectId(n) };
            writer.event(&Stamped { at: Timestamp(n), event }).unwrap();
            let timer = Effect::StartTimer { id: EffectId(n), after_ms: 9, purpose: TimerPurpose::Backoff };
            writer.step(&StepRecord::of(&[timer], &[])).unwrap();
            writer.commit().unwrap();
        }
        let path = writer.path().to_owned();
        (dir, path)
    }

    #[test]
    fn what_was_written_is_read() {
        let (_dir, path) = sample();
        let journal = read(&path).unwrap();
        assert_eq!((journal.records.len(), journal.torn_bytes), (6, 0));
        assert_eq!(journal.header.session, "s");
        assert!(matches!(&journal.records[0], Record::Event(event) if event.at == Timestamp(1)));
    }

    #[test]
    fn truncated_anywhere_it_loses_the_torn_line_and_nothing_else() {
        let (_dir, path) = sample();
        let bytes = std::fs::read(&path).unwrap();
        let whole = parse(&path, &bytes).unwrap().records;
        let header_end = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
        for length in 0..bytes.len() {
            match parse(&path, &bytes[..length]) {
                Ok(journal) => {
                    assert!(length >= header_end);
                    assert_eq!(journal.records, whole[..journal.records.len()], "at {length}");
                    let last_newline = bytes[..length].iter().rposition(|b| *b == b'\n').unwrap() + 1;
                    assert_eq!(journal.torn_bytes, length - last_newline);
                }
                Err(error) => assert!(length < header_end, "at {length}: {error}"),
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let (_dir, path) = sample();
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() - 1 {
            for bit in [1_u8, 32] {
                let mut damaged = bytes.clone();
                damaged[at] ^= bit;
                assert!(parse(&path, &damaged).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn a_newer_format_is_refused_and_said_so() {
        let (_dir, path) = sample();
        let text = std::fs::read_to_string(&path).unwrap().replace("\"format\":1", "\"format\":2");
        let error = parse(&path, text.as_bytes()).unwrap_err();
        assert!(matches!(error, JournalError::Newer { found: 2, .. }), "{error}");
        assert!(error.to_string().contains("newer rawko"));
    }
}
