//! Uses of memories, one line of JSON each, in `.rawko/memories/.feedback.jsonl`.
//!
//! Owns that file. It is appended to, one line in one write, so that several runs may do it at once, and shortened when
//! it has grown long; a line that cannot be read is skipped. Only a plain file is read or written, because a pipe could
//! block. What the uses say is the core's ([`Feedback`]). It is this machine's and not committed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use rawko_core::memory::{Feedback, Use};
use rawko_tools::FileLock;
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};

use super::folder;
use super::report::Report;

/// The file's name.
pub(super) const NAME: &str = ".feedback.jsonl";
/// Most bytes that are read; the last ones count.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The file is made shorter where it is longer than this.
const MAX_LENGTH: u64 = 8 * 1024 * 1024;
/// What it is made into, before that takes its place.
const SHORTER: &str = ".new-feedback";
/// How long a lock is waited for: a run goes on without, and leaves the file as long as it is.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often uses are written without a lock until they are where the next one reads.
const ATTEMPTS: usize = 5;

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
    let mut file = open(folder, NAME, OFlags::RDONLY)?;
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

/// A plain file of the folder.
fn open(folder: BorrowedFd<'_>, name: &str, how: OFlags) -> io::Result<File> {
    let flags = how | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(openat(folder, name, flags, Mode::from_raw_mode(0o644))?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no plain file")) }
}

/// Appends uses.
pub(super) fn append(folder: BorrowedFd<'_>, uses: &[Use]) -> io::Result<()> {
    let mut text = Vec::new();
    for one in uses {
        serde_json::to_writer(&mut text, one)?;
        text.push(b'\n');
    }
    // Lines appended while the file is made shorter would be lost.
    let lock = FileLock::take(folder::open_below(folder, "")?, PATIENCE);
    for _ in 0..ATTEMPTS {
        let mut file = open(folder, NAME, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
        file.write_all(&text)?;
        if lock.is_ok() {
            if file.metadata()?.len() > MAX_LENGTH {
                // A file that is too long is read from its end: it only costs space.
                let _ = shorten(folder);
            }
            return Ok(());
        }
        // Without the lock it may have been made shorter meanwhile, from a copy that lacks these.
        let is_named = open(folder, NAME, OFlags::RDONLY).and_then(|named| named.metadata());
        if is_named.is_ok_and(|named| file.metadata().is_ok_and(|file| file.ino() == named.ino())) {
            return Ok(());
        }
    }
    Err(io::Error::other("it is being replaced all the time"))
}

/// Keeps what is read of it.
fn shorten(folder: BorrowedFd<'_>) -> io::Result<()> {
    let mut text = lines(folder)?.join(&b'\n');
    text.push(b'\n');
    // One that a crash left.
    let _ = unlinkat(folder, SHORTER, AtFlags::empty());
    let mut file = open(folder, SHORTER, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
    file.write_all(&text)?;
    file.sync_all()?;
    Ok(renameat(folder, SHORTER, folder, NAME)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd as _;
    use std::path::Path;

    use rawko_core::memory::UseOutcome;

    use super::*;
    use crate::memory::tests::NOW;

    fn one_use(iteration: u32) -> Use {
        Use {
            session: "s".to_owned(),
            iteration,
            agent: "developer".to_owned(),
            memory: "a.md".to_owned(),
            cited: true,
            touched: false,
            outcome: UseOutcome::Success,
            at: NOW,
        }
    }

    fn append_to(folder: &Path, iteration: u32) -> io::Result<()> {
        append(File::open(folder).unwrap().as_fd(), &[one_use(iteration)])
    }

    /// The test would hang.
    #[test]
    fn what_is_no_plain_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join(NAME);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        append_to(dir.path(), 1).unwrap_err();
        // A pipe that has a reader could be written to.
        let reader = open_pipe(&pipe);
        assert!(append_to(dir.path(), 1).unwrap_err().to_string().contains("no plain file"));
        let folder = File::open(dir.path()).unwrap();
        assert!(read(folder.as_fd()).1[0].message.contains("no plain file"));
        drop(reader);
    }

    fn open_pipe(path: &Path) -> File {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        File::from(rustix::fs::open(path, flags, Mode::empty()).unwrap())
    }

    #[test]
    fn what_has_grown_long_is_made_shorter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let line = |iteration| format!("{}\n", serde_json::to_string(&one_use(iteration)).unwrap());
        let many = usize::try_from(MAX_LENGTH).unwrap() / line(1).len();
        fs::write(&path, line(1).repeat(many)).unwrap();
        fs::write(dir.path().join(SHORTER), "left over").unwrap();
        // Another process writes: it is left as long as it is.
        let other = FileLock::take(File::open(dir.path()).unwrap(), Duration::ZERO).unwrap();
        append_to(dir.path(), 2).unwrap();
        assert!(fs::metadata(&path).unwrap().len() > MAX_LENGTH);
        drop(other);
        append_to(dir.path(), 3).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.len() as u64 <= MAX_BYTES && text.len() as u64 > MAX_BYTES - 500, "{}", text.len());
        assert!(text.ends_with(&format!("{}{}", line(2), line(3))));
        assert!(text.lines().all(|line| serde_json::from_str::<Use>(line).is_ok()));
        assert!(!dir.path().join(SHORTER).exists());
    }
}
