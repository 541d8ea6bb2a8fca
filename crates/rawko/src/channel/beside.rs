//! Finds the sessions that run in the same folder now. Two of them would change the same files, and neither could know
//! whose change a verification judged. So a run begins only if no other runs there, unless its user says so; then both
//! record it.
//!
//! What runs is known by the locks of the sessions (ADR 18), which end with their processes, and by the file beside
//! each journal that names process, folder and task. There is no other lock that could be left over.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rawko_core::Timestamp;

use crate::channel::holder::RunningProcess;
use crate::journal::{BeginningGuard, JournalError, SessionStore, is_held};

/// File beside a journal in which other sessions in the same folder enter themselves.
const FILE_NAME: &str = "beside";
/// The most bytes of it that are read.
const LONGEST: u64 = 64 * 1024;

/// A session that is running in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningSession {
    /// Its id.
    pub session: String,
    /// The beginning of its task.
    pub task: String,
    /// When its process took it up.
    pub since: Timestamp,
    /// Its process.
    pub process: u32,
    journal: PathBuf,
}

impl RunningSession {
    /// Whether it is still running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        is_held(&self.journal)
    }
}

/// The right to begin in the folder, and who runs there already. To be kept until the new session shows that it runs.
#[derive(Debug)]
pub(crate) struct StartPermit {
    _guard: Option<BeginningGuard>,
    beside: Vec<String>,
}

impl StartPermit {
    /// Where these run already.
    pub(crate) fn new(guard: Option<BeginningGuard>, running: Vec<RunningSession>) -> Self {
        Self { _guard: guard, beside: running.into_iter().map(|running| running.session).collect() }
    }

    /// The sessions that run in the same folder.
    pub(crate) fn beside(&self) -> Vec<String> {
        self.beside.clone()
    }
}

/// The sessions that run in `folder`, except `own`.
///
/// # Errors
/// If the sessions cannot be listed.
pub(crate) fn running(
    store: &SessionStore,
    folder: &Path,
    own: Option<&str>,
) -> Result<Vec<RunningSession>, JournalError> {
    let mut found = Vec::new();
    for (session, journal) in store.journals()? {
        if own == Some(session.as_str()) {
            continue;
        }
        let Some(process) = RunningProcess::of(&journal).filter(|process| process.works_in(folder)) else {
            continue;
        };
        if is_held(&journal) {
            let (task, since) = (process.task().to_owned(), process.since());
            found.push(RunningSession { session, task, since, process: process.pid(), journal });
        }
    }
    Ok(found)
}

/// What a run sees of others in its folder.
#[derive(Debug)]
pub(crate) struct Neighbours {
    file: PathBuf,
    seen: Vec<String>,
    length: u64,
}

impl Neighbours {
    /// Enters the session of this journal beside those that run already, and reads who enters itself here.
    pub(crate) fn of(journal: &Path, session: &str, running: &[String]) -> Self {
        let folder = journal.parent().unwrap_or(Path::new("."));
        for other in running {
            let file = folder.with_file_name(other).join(FILE_NAME);
            // If it cannot be written, only this session records the other.
            let _ = append(&file, session);
        }
        let file = folder.join(FILE_NAME);
        // Of an earlier process.
        let _ = std::fs::remove_file(&file);
        Self { file, seen: Vec::new(), length: 0 }
    }

    /// Sessions that have begun in the same folder since the last look.
    pub(crate) fn new_ones(&mut self) -> Vec<String> {
        let length = std::fs::symlink_metadata(&self.file).map_or(0, |file| file.len());
        if length == self.length {
            return Vec::new();
        }
        self.length = length;
        let text = read(&self.file).unwrap_or_default();
        let new: Vec<String> = text
            .lines()
            .filter(|line| crate::session_id::is_id(line) && !self.seen.iter().any(|seen| seen == line))
            .map(str::to_owned)
            .collect();
        self.seen.extend(new.iter().cloned());
        new
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

fn append(file: &Path, session: &str) -> std::io::Result<()> {
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).custom_flags(flags);
    options.open(file)?.write_all(format!("{session}\n").as_bytes())
}

fn read(file: &Path) -> std::io::Result<String> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let mut text = String::new();
    OpenOptions::new().read(true).custom_flags(flags).open(file)?.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_learns_who_began_beside_it_and_forgets_who_was_there_before() {
        let (one, two) = ("20260123-094000-123-abcde", "20260123-094001-123-abcde");
        let folder = tempfile::tempdir().unwrap();
        let journal = |id: &str| folder.path().join(id).join("journal.jsonl");
        for id in [one, two] {
            std::fs::create_dir(folder.path().join(id)).unwrap();
        }
        append(&folder.path().join(one).join(FILE_NAME), two).unwrap();
        let mut first = Neighbours::of(&journal(one), one, &[]);
        assert_eq!(first.new_ones(), [""; 0], "it was of an earlier process");
        let second = Neighbours::of(&journal(two), two, &[one.to_owned()]);
        assert_eq!(first.new_ones(), [two]);
        assert_eq!(first.new_ones(), [""; 0], "it is reported once");
        append(&first.file, "no id\nat all").unwrap();
        assert_eq!(first.new_ones(), [""; 0]);
        drop((first, second));
        assert!(!folder.path().join(one).join(FILE_NAME).exists());
    }
}
