//! Uses of memories, one line of JSON each, in `.rawko/memories/.feedback.jsonl`.
//!
//! Owns that file. It is only appended to, one line in one write, so that several runs may do it at once; a line that
//! cannot be read is passed over. What the uses say is the core's ([`Feedback`]). It is this machine's and not committed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::BorrowedFd;

use rawko_core::memory::{Feedback, Use};
use rustix::fs::{Mode, OFlags, openat};

use super::report::Report;

/// The file's name.
pub(super) const NAME: &str = ".feedback.jsonl";
/// Most bytes that are read; the last ones count.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// What the uses say of each memory, by path.
pub(super) fn read(folder: BorrowedFd<'_>) -> (BTreeMap<String, Feedback>, Vec<Report>) {
    let mut all: BTreeMap<String, Feedback> = BTreeMap::new();
    let broken = |message: String| {
        Report::warning(NAME, message, "uses are counted without it; remove what is damaged")
    };
    let lines = match lines(folder) {
        Ok(lines) => lines,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (all, Vec::new()),
        Err(error) => return (all, vec![broken(format!("cannot be read: {error}"))]),
    };
    let mut unread = None;
    for (number, line) in lines.iter().enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Use>(line) {
            Ok(one) => all.entry(one.memory.clone()).or_default().add(&one),
            Err(_) => unread = unread.or(Some(number)),
        }
    }
    let reports = unread.map(|_| broken("holds lines that are no uses of memories".to_owned()));
    (all, reports.into_iter().collect())
}

fn lines(folder: BorrowedFd<'_>) -> io::Result<Vec<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = File::from(openat(folder, NAME, flags, Mode::empty())?);
    let skipped = file.metadata()?.len().saturating_sub(MAX_BYTES);
    file.seek(SeekFrom::Start(skipped))?;
    let mut lines: Vec<Vec<u8>> =
        BufReader::new(file.take(MAX_BYTES)).split(b'\n').collect::<io::Result<_>>()?;
    if skipped > 0 && !lines.is_empty() {
        // The first one lacks its beginning.
        lines.remove(0);
    }
    Ok(lines)
}

/// Appends uses.
pub(super) fn append(folder: BorrowedFd<'_>, uses: &[Use]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file = File::from(openat(folder, NAME, flags, Mode::from_raw_mode(0o644))?);
    let mut text = Vec::new();
    for one in uses {
        serde_json::to_writer(&mut text, one)?;
        text.push(b'\n');
    }
    file.write_all(&text)
}
