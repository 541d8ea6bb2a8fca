//! Reading back: every check is verified, a torn last line is dropped and reported. A journal is read line by line, and
//! within bounds, because the file may be anything.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use rawko_core::session::Stamped;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::blobs::{BlobRef, Blobs};
use super::error::JournalError;
use super::file::open_own;
use super::record::{
    FORMAT, JournalHeader, LONGEST_JOURNAL, LONGEST_LINE, Record, RecordKind, StepRecord, digest,
};

/// A journal as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Journal {
    /// The first record.
    pub header: JournalHeader,
    /// All others, in order; the first has sequence number 1.
    pub records: Vec<Record>,
    /// Bytes of an incomplete last line that were left out, if there were any.
    pub torn_bytes: usize,
    /// Where the next record goes on.
    pub(super) end: JournalEnd,
}

impl Journal {
    /// The events in order, each with the sequence number of its record. A [timeline](crate::timeline) says what they mean:
    ///
    /// ```no_run
    /// # fn main() -> Result<(), rawko::journal::JournalError> {
    /// use rawko::timeline::{Fact, Timeline};
    ///
    /// let journal = rawko::journal::read(".rawko/sessions/20260123-094000-123-abcde/journal.jsonl".as_ref())?;
    /// let mut timeline = Timeline::default();
    /// for (record, event) in journal.events() {
    ///     for entry in timeline.apply(record, event) {
    ///         if let Fact::ModelPaid { call, cost_usd, .. } = entry.fact {
    ///             println!("{} {}: {cost_usd:?} USD", entry.at.to_rfc3339(), call.model);
    ///         }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self) -> impl Iterator<Item = (u64, &Stamped)> {
        (1_u64..).zip(&self.records).filter_map(|(seq, record)| match record {
            Record::Event(stamped) => Some((seq, stamped.as_ref())),
            Record::Step(_) => None,
        })
    }
}

/// The end of the sound records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JournalEnd {
    /// Sequence number of the next record.
    pub(super) seq: u64,
    /// Check of the last one.
    pub(super) check: String,
    /// Bytes up to there.
    pub(super) length: u64,
}

/// A line as it is stored. Fields that a later rawko adds are passed over.
#[derive(Deserialize)]
struct StoredLine<'a> {
    seq: u64,
    kind: RecordKind,
    #[serde(borrow)]
    data: &'a RawValue,
    #[serde(default)]
    blobs: Vec<BlobRef>,
    check: &'a str,
}

const CHECK_SUFFIX: usize = ",\"check\":\"0123456789abcdef\"}".len();

/// Reads and verifies a whole journal.
///
/// # Errors
/// [`JournalError::Damaged`] names the first record that is not sound, [`JournalError::Blob`] the first whose blob is
/// not; [`JournalError::OtherFormat`] refuses a format that is not this rawko's.
pub fn read(path: &Path) -> Result<Journal, JournalError> {
    let file = open_own(path, OpenOptions::new().read(true))?;
    parse(path, &file)
}

/// The same, with the lines of its records beside it.
pub(crate) fn read_with_lines(path: &Path) -> Result<(Journal, StoredLines), JournalError> {
    let file = open_own(path, OpenOptions::new().read(true))?;
    let mut lines = StoredLines::default();
    let prefix = prefix_of(path, &file, |line| lines.push(line))?;
    prefix.damage.map_or(Ok((prefix.journal, lines)), Err)
}

/// The lines of a journal's records as they are stored, by sequence number, for a journal that has the same records.
#[derive(Debug, Default)]
pub(crate) struct StoredLines {
    text: Vec<u8>,
    /// Where in `text` each of them ends.
    ends: Vec<usize>,
}

impl StoredLines {
    /// Takes the line of the next record.
    fn push(&mut self, line: &[u8]) {
        let body = line.len().checked_sub(CHECK_SUFFIX + 1).and_then(|end| line.get(..end));
        // Its long texts are stored beside the journal, so the line alone is not the record. Their list is then what it
        // ends with.
        let body = body.filter(|body| !body.ends_with(b"]"));
        self.text.extend_from_slice(body.unwrap_or_default());
        self.ends.push(self.text.len());
    }

    /// The line of a record without its check; `None` where the line alone is not the record.
    pub(crate) fn get(&self, seq: u64) -> Option<&[u8]> {
        let index = usize::try_from(seq).ok()?.checked_sub(1)?;
        let begin = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(begin..*self.ends.get(index)?).filter(|line| !line.is_empty())
    }
}

/// Reads and verifies the journal in `file`, which is at `path`.
pub(super) fn parse(path: &Path, file: &File) -> Result<Journal, JournalError> {
    let prefix = prefix(path, file)?;
    match prefix.damage {
        None => Ok(prefix.journal),
        Some(damage) => Err(damage),
    }
}

/// Checks that the records of the journal at `path` are whole and follow on each other, without what they say.
pub(super) fn check(path: &Path) -> Result<(), JournalError> {
    let file = open_own(path, OpenOptions::new().read(true))?;
    let blobs = Blobs::of_journal(path);
    let mut chain = Chain { path, blobs: &blobs, seq: 0, check: String::new() };
    let mut lines = Lines { source: BufReader::with_capacity(256 * 1024, &file), line: Vec::new(), path };
    loop {
        match lines.next()? {
            NextLine::StoredLine(line) => chain.pass(line)?,
            NextLine::TooLong => return Err(chain.damaged("it is longer than any record")),
            NextLine::Torn(_) | NextLine::End => return Ok(()),
        }
    }
}

/// The sound records of a journal, and what is wrong with the one after them.
#[derive(Debug)]
pub(super) struct Prefix {
    pub(super) journal: Journal,
    pub(super) damage: Option<JournalError>,
}

/// Reads as far as the records are sound. The header must be.
pub(super) fn prefix(path: &Path, file: &File) -> Result<Prefix, JournalError> {
    prefix_of(path, file, |_| ())
}

/// The same; gives the line of each record to `each`.
fn prefix_of(path: &Path, file: &File, mut each: impl FnMut(&[u8])) -> Result<Prefix, JournalError> {
    let mut records = Vec::new();
    let walked = walk(path, file, |record, line| {
        records.push(record);
        each(line);
    })?;
    let Walked { header, torn_bytes, end, damage } = walked;
    Ok(Prefix { journal: Journal { header, records, torn_bytes, end }, damage })
}

/// What is left of a journal when its records have been given away.
#[derive(Debug)]
pub(super) struct Walked {
    header: JournalHeader,
    torn_bytes: usize,
    end: JournalEnd,
    /// What is wrong with the record after the sound ones.
    pub(super) damage: Option<JournalError>,
}

/// Gives the sound records to `each`, one at a time, with their lines. The header must be sound.
pub(super) fn walk(
    path: &Path,
    file: &File,
    mut each: impl FnMut(Record, &[u8]),
) -> Result<Walked, JournalError> {
    let bytes = file.metadata().map_err(|error| JournalError::io("cannot read", path, error))?.len();
    if bytes > LONGEST_JOURNAL {
        return Err(JournalError::TooLong { path: path.to_owned(), bytes });
    }
    let blobs = Blobs::of_journal(path);
    let mut chain = Chain { path, blobs: &blobs, seq: 0, check: String::new() };
    let mut lines = Lines { source: BufReader::with_capacity(256 * 1024, file), line: Vec::new(), path };
    let header = match lines.next()? {
        NextLine::StoredLine(line) => chain.header(line)?,
        NextLine::Torn(_) | NextLine::End | NextLine::TooLong => {
            return Err(chain.damaged("the file holds no whole record"));
        }
    };
    let mut length = lines.line.len() as u64;
    let mut torn_bytes = 0;
    let mut damage = None;
    loop {
        match lines.next()? {
            NextLine::StoredLine(line) => match chain.record(line) {
                Ok(record) => each(record, line),
                Err(error) => {
                    damage = Some(error);
                    break;
                }
            },
            NextLine::Torn(bytes) => {
                torn_bytes = bytes;
                break;
            }
            NextLine::TooLong => {
                damage = Some(chain.damaged("it is longer than any record"));
                break;
            }
            NextLine::End => break,
        }
        length += lines.line.len() as u64;
    }
    let end = JournalEnd { seq: chain.seq, check: chain.check, length };
    Ok(Walked { header, torn_bytes, end, damage })
}

/// The lines of a file, one at a time.
struct Lines<'a, R> {
    source: R,
    line: Vec<u8>,
    path: &'a Path,
}

/// What comes next in a file.
enum NextLine<'a> {
    /// A whole line, its line break included.
    StoredLine(&'a [u8]),
    /// A last line without a line break, of so many bytes.
    Torn(usize),
    /// A line that is too long to be a record.
    TooLong,
    /// Nothing.
    End,
}

impl<R: BufRead> Lines<'_, R> {
    fn next(&mut self) -> Result<NextLine<'_>, JournalError> {
        let wrong = |error| JournalError::io("cannot read", self.path, error);
        self.line.clear();
        let read =
            self.source.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.line).map_err(wrong)?;
        if read == 0 {
            return Ok(NextLine::End);
        }
        if self.line.ends_with(b"\n") {
            return Ok(NextLine::StoredLine(&self.line));
        }
        // A file system may leave a stretch of zeros after a power cut: torn like any other last line.
        let rest = self.skip().map_err(wrong)?;
        Ok(rest.map_or(NextLine::TooLong, |rest| NextLine::Torn(read + rest)))
    }

    /// How many bytes there are to the end of the file; nothing where a line break comes before it.
    fn skip(&mut self) -> std::io::Result<Option<usize>> {
        let mut skipped = 0;
        loop {
            let bytes = self.source.fill_buf()?;
            if bytes.is_empty() {
                return Ok(Some(skipped));
            }
            if bytes.contains(&b'\n') {
                return Ok(None);
            }
            let length = bytes.len();
            skipped += length;
            self.source.consume(length);
        }
    }
}

/// The first record alone, for lists: costs the same for a long journal as for a short one.
pub(super) fn header_of(path: &Path, first_line: &[u8]) -> Result<JournalHeader, JournalError> {
    let blobs = Blobs::of_journal(path);
    let mut chain = Chain { path, blobs: &blobs, seq: 0, check: String::new() };
    if first_line.ends_with(b"\n") {
        chain.header(first_line)
    } else {
        Err(chain.damaged("the file holds no whole record"))
    }
}

/// The step in `line`, if that is one; it must be the sound record after the line `before`.
pub(super) fn step_after(
    path: &Path,
    before: &[u8],
    line: &[u8],
) -> Result<Option<StepRecord>, JournalError> {
    let wrong = |what| JournalError::io("cannot read the end of", path, std::io::Error::other(what));
    let previous = stored(before).map_err(wrong)?;
    if stored(line).map_err(wrong)?.kind != RecordKind::Step {
        return Ok(None);
    }
    let blobs = Blobs::of_journal(path);
    let check = previous.check.to_owned();
    match (Chain { path, blobs: &blobs, seq: previous.seq + 1, check }).record(line)? {
        Record::Step(step) => Ok(Some(step)),
        Record::Event(_) => Ok(None),
    }
}

fn stored(line: &[u8]) -> Result<StoredLine<'_>, String> {
    serde_json::from_slice(line.strip_suffix(b"\n").unwrap_or(line)).map_err(|error| error.to_string())
}

/// What the next record must follow on.
pub(super) struct Chain<'a> {
    pub(super) path: &'a Path,
    pub(super) blobs: &'a Blobs,
    pub(super) seq: u64,
    pub(super) check: String,
}

impl Chain<'_> {
    pub(super) fn header(&mut self, line: &[u8]) -> Result<JournalHeader, JournalError> {
        // Another format may differ in anything but this field, so it is looked for before the checks.
        #[derive(Deserialize)]
        struct Probe {
            data: ProbeData,
        }
        #[derive(Deserialize)]
        struct ProbeData {
            format: u32,
        }
        if let Ok(probe) = serde_json::from_slice::<Probe>(line)
            && probe.data.format != FORMAT
        {
            return Err(JournalError::OtherFormat { path: self.path.to_owned(), found: probe.data.format });
        }
        let line = self.open(line)?;
        if line.kind != RecordKind::Header {
            return Err(self.damaged("the first record is not a header"));
        }
        let header = self.data(&line)?;
        line.check.clone_into(&mut self.check);
        self.seq += 1;
        Ok(header)
    }

    pub(super) fn record(&mut self, line: &[u8]) -> Result<Record, JournalError> {
        let line = self.open(line)?;
        let record = match line.kind {
            RecordKind::Header => return Err(self.damaged("a second header")),
            RecordKind::Event => Record::Event(Box::new(self.data::<Stamped>(&line)?)),
            RecordKind::Step => Record::Step(self.data::<StepRecord>(&line)?),
        };
        line.check.clone_into(&mut self.check);
        self.seq += 1;
        Ok(record)
    }

    /// Verifies a line and goes on to the next.
    fn pass(&mut self, line: &[u8]) -> Result<(), JournalError> {
        let line = self.open(line)?;
        line.blobs.iter().try_for_each(|blob| self.blobs.check(blob)).map_err(|it| self.without_blob(it))?;
        line.check.clone_into(&mut self.check);
        self.seq += 1;
        Ok(())
    }

    /// Verifies a line.
    fn open<'l>(&self, line: &'l [u8]) -> Result<StoredLine<'l>, JournalError> {
        let body = line.strip_suffix(b"\n").unwrap_or(line);
        let parsed = stored(body).map_err(|error| self.damaged(format!("not a record: {error}")))?;
        let checked =
            body.len().checked_sub(CHECK_SUFFIX).and_then(|end| body.get(..end)).unwrap_or_default();
        if parsed.check != digest(&[self.check.as_bytes(), checked]) {
            return Err(self.damaged("its checksum does not match"));
        }
        if parsed.seq != self.seq {
            return Err(self.damaged(format!("it says that it is record {}", parsed.seq)));
        }
        Ok(parsed)
    }

    /// What is in a verified line.
    fn data<T: DeserializeOwned>(&self, line: &StoredLine<'_>) -> Result<T, JournalError> {
        let wrong = |error: serde_json::Error| self.damaged(error.to_string());
        if line.blobs.is_empty() {
            return serde_json::from_str(line.data.get()).map_err(wrong);
        }
        let mut data: Value = serde_json::from_str(line.data.get()).map_err(wrong)?;
        self.blobs.inline(&mut data, &line.blobs).map_err(|it| self.without_blob(it))?;
        serde_json::from_value(data).map_err(wrong)
    }

    fn without_blob(&self, (blob, what): (String, String)) -> JournalError {
        JournalError::Blob { path: self.path.to_owned(), seq: self.seq, blob, what }
    }

    pub(super) fn damaged(&self, what: impl Into<String>) -> JournalError {
        let line = usize::try_from(self.seq).unwrap_or(usize::MAX).saturating_add(1);
        JournalError::Damaged { path: self.path.to_owned(), seq: self.seq, line, what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::writer::JournalWriter;
    use super::*;
    use rawko_core::Timestamp;
    use rawko_core::session::{Effect, EffectAnswer, EffectId, Event, TimerPurpose};

    fn sample() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let header = JournalHeader {
            format: FORMAT,
            rawko: "0.1.0".into(),
            session: "s".into(),
            created_at: Timestamp(5),
            task: "say \"check\":\"x\"".into(),
            config_digest: "d".into(),
            degraded: Vec::new(),
            confined: None,
            seal: None,
            forked_from: None,
            traceparent: None,
        };
        let mut writer = JournalWriter::create(&dir.path().join("s"), &header).unwrap();
        for n in 1..4 {
            let event = Event::Answered { effect: EffectId(n), answer: EffectAnswer::TimerFired };
            writer.event(&Stamped { at: Timestamp(n), event }).unwrap();
            let timer = Effect::StartTimer { id: EffectId(n), after_ms: 9, purpose: TimerPurpose::Backoff };
            writer.step(&StepRecord::of(&[timer], &[])).unwrap();
            writer.commit().unwrap();
        }
        let path = writer.path().to_owned();
        (dir, path)
    }

    fn read_bytes(path: &Path, bytes: &[u8]) -> Result<Journal, JournalError> {
        std::fs::write(path, bytes).unwrap();
        read(path)
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
        let whole = read(&path).unwrap().records;
        let header_end = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
        for length in 0..bytes.len() {
            match read_bytes(&path, &bytes[..length]) {
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
                assert!(read_bytes(&path, &damaged).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn another_format_is_refused_and_said_so() {
        let (_dir, path) = sample();
        let text = std::fs::read_to_string(&path).unwrap();
        for format in [FORMAT - 1, FORMAT + 1, 4_000] {
            let other = text.replace(&format!("\"format\":{FORMAT}"), &format!("\"format\":{format}"));
            let error = read_bytes(&path, other.as_bytes()).unwrap_err();
            assert!(matches!(error, JournalError::OtherFormat { found, .. } if found == format), "{error}");
            let said = error.to_string();
            let expected = format!("written in format {format}, and this rawko reads format {FORMAT} alone");
            assert!(said.ends_with(&expected), "{said}");
        }
    }
}
