//! Which process writes a session: a lock on the empty file `lock` beside the journal.
//!
//! It is a POSIX record lock (`fcntl`). The other kinds, `flock` and open file description locks, belong to the open
//! file, and a child shares its parent's open files from its fork to its exec, close-on-exec or not. If rawko is killed in
//! between and the child hangs there, the session would stay locked although no process works on it. A record lock belongs
//! to the process: no child ever has it, and it ends with its process. That holds on Linux and on macOS.
//!
//! Record locks have two weaknesses, and both are dealt with here. They do not keep two threads of one process apart:
//! [`HELD`] does. And a process loses its lock when it closes any descriptor of the locked file. So the lock is on a
//! file of its own that nothing else has a reason to open, and [`SessionLock::renew`] takes it again before each record.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rawko_tools::{FileId, file_id};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, Pid, fcntl_getlk};

use super::error::JournalError;
use super::file::open_own;

/// Name of the file in a session's directory.
const FILE_NAME: &str = "lock";
/// How long to wait for a lock: a process that was just killed may not have ended yet.
const PATIENCE: Duration = Duration::from_millis(400);
/// Pause between two tries, where the end of the other process cannot be waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The locks of this process. A thread that opens or closes a lock file holds this meanwhile: closing one at the wrong
/// moment would release the lock that another thread has just taken on it.
static HELD: Mutex<BTreeSet<FileId>> = Mutex::new(BTreeSet::new());

/// The right to write a session, until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct SessionLock {
    /// Absent only while it is dropped.
    file: Option<File>,
    id: FileId,
    journal: PathBuf,
}

/// The process that works on a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LockHolder {
    /// Its id; absent where the system does not know it, as for one on another machine or in another container.
    pid: Option<Pid>,
}

impl SessionLock {
    /// Locks the session of this journal. Waits a moment for a process that is about to end.
    ///
    /// # Errors
    /// [`JournalError::Locked`] where another process, or another thread of this one, works on the session;
    /// [`JournalError::Missing`] where its directory is gone; [`JournalError::Io`] where the system has no locks here.
    pub(crate) fn acquire(journal: &Path) -> Result<Self, JournalError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let holder = match Self::attempt(journal)? {
                Ok(lock) => return Ok(lock),
                Err(holder) => holder,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(holder.locks(journal));
            }
            holder.wait(left);
        }
    }

    fn attempt(journal: &Path) -> Result<Result<Self, LockHolder>, JournalError> {
        refuse_link(journal)?;
        let path = journal.with_file_name(FILE_NAME);
        let mut held = held();
        if is_held(&held, &path) {
            return Ok(Err(LockHolder::this()));
        }
        let options = &mut OpenOptions::new();
        let file = open_own(&path, options.read(true).write(true).create(true).truncate(false).mode(0o600))
            .map_err(|error| match error {
            JournalError::Missing { .. } => JournalError::Missing { path: journal.to_owned() },
            other => other,
        })?;
        let cannot = |error| JournalError::io("cannot lock", &path, error);
        let id = file_id(&file.metadata().map_err(cannot)?);
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                held.insert(id);
                Ok(Ok(Self { file: Some(file), id, journal: journal.to_owned() }))
            }
            Err(Errno::AGAIN | Errno::ACCESS) => {
                Ok(Err(LockHolder::of(&file).unwrap_or(LockHolder { pid: None })))
            }
            Err(error) => Err(cannot(error.into())),
        }
    }

    /// Makes sure that the lock is still held: something else in this process may have opened and closed its file.
    ///
    /// # Errors
    /// [`JournalError::Locked`] where another process has taken it since.
    pub(super) fn renew(&self) -> Result<(), JournalError> {
        let Some(file) = &self.file else { return Ok(()) };
        match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN | Errno::ACCESS) => {
                Err(LockHolder::of(file).unwrap_or(LockHolder { pid: None }).locks(&self.journal))
            }
            Err(error) => Err(JournalError::io("cannot lock", &self.journal, error.into())),
        }
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        let mut held = held();
        self.file = None;
        held.remove(&self.id);
    }
}

/// The process that works on the session of this journal. Takes no lock itself; `None` where that cannot be found out.
pub(super) fn holder(journal: &Path) -> Option<LockHolder> {
    let path = journal.with_file_name(FILE_NAME);
    let held = held();
    if is_held(&held, &path) {
        return Some(LockHolder::this());
    }
    LockHolder::of(&open_own(&path, OpenOptions::new().read(true)).ok()?)
}

/// Whether a process works on the session of this journal.
pub(crate) fn is_held_by_any(journal: &Path) -> bool {
    holder(journal).is_some()
}

impl LockHolder {
    fn this() -> Self {
        Self { pid: Some(rustix::process::getpid()) }
    }

    fn of(file: &File) -> Option<Self> {
        let found = fcntl_getlk(file, &Flock::from(FlockType::WriteLock)).ok()??;
        // A process on another machine has a negative id, one in another container has none.
        Some(Self { pid: found.pid.filter(|pid| pid.as_raw_nonzero().get() > 0) })
    }

    fn locks(self, journal: &Path) -> JournalError {
        let pid = self.pid.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
        JournalError::Locked { path: journal.to_owned(), pid }
    }

    /// Waits until it has ended, or for `patience`, or for a moment where its end cannot be waited for.
    fn wait(self, patience: Duration) {
        if self == Self::this() || !self.wait_for_end(patience) {
            std::thread::sleep(patience.min(LOOK_AGAIN));
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn wait_for_end(self, patience: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::process::{PidfdFlags, pidfd_open};
        let process = self.pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let (Some(process), Ok(patience)) = (process, Timespec::try_from(patience)) else { return false };
        poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience)).is_ok()
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn wait_for_end(self, _: Duration) -> bool {
        false
    }
}

/// A repository can contain a link in place of a session's directory: no file is made where it leads.
fn refuse_link(journal: &Path) -> Result<(), JournalError> {
    let directory = journal.parent().unwrap_or(Path::new("."));
    if std::fs::symlink_metadata(directory).is_ok_and(|found| found.is_symlink()) {
        let why = std::io::Error::other("it is a symbolic link");
        return Err(JournalError::io("refusing to use", directory, why));
    }
    Ok(())
}

fn held() -> MutexGuard<'static, BTreeSet<FileId>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process holds the lock on the file at `path`, which is not opened for that.
fn is_held(held: &BTreeSet<FileId>, path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| held.contains(&file_id(&file)))
}

// The kernel says what other processes see, where it can.
#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn one_thread_has_the_lock_and_a_look_does_not_take_it_away() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("journal.jsonl");
        assert_eq!(holder(&journal), None);
        assert!(!dir.path().join(FILE_NAME).exists(), "a look makes no file");
        let lock = SessionLock::acquire(&journal).unwrap();
        assert_eq!(holder(&journal), Some(LockHolder::this()));
        let second = std::thread::scope(|scope| scope.spawn(|| SessionLock::acquire(&journal)).join());
        let error = second.unwrap().unwrap_err();
        assert!(matches!(error, JournalError::Locked { pid: Some(pid), .. } if pid == std::process::id()));
        assert_eq!(seen_from_outside(&journal), Some(std::process::id()));
        drop(lock);
        assert_eq!((holder(&journal), seen_from_outside(&journal)), (None, None));
        SessionLock::acquire(&journal).unwrap();
    }

    #[test]
    fn a_lock_that_was_lost_by_closing_its_file_is_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("journal.jsonl");
        let lock = SessionLock::acquire(&journal).unwrap();
        // As a tool would that reads every file of the project.
        std::fs::read(dir.path().join(FILE_NAME)).unwrap();
        assert_eq!(seen_from_outside(&journal), None);
        lock.renew().unwrap();
        assert_eq!(seen_from_outside(&journal), Some(std::process::id()));
    }

    #[test]
    fn a_session_without_a_directory_is_missing_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone/journal.jsonl");
        assert!(matches!(SessionLock::acquire(&gone), Err(JournalError::Missing { path }) if path == gone));
        std::os::unix::fs::symlink("/dev/zero", dir.path().join(FILE_NAME)).unwrap();
        let error = SessionLock::acquire(&dir.path().join("journal.jsonl")).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("session")).unwrap();
        let error = SessionLock::acquire(&dir.path().join("session/journal.jsonl")).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0, "a file was made where it leads");
    }

    /// The process that another one finds to hold the lock, by the kernel's table.
    fn seen_from_outside(journal: &Path) -> Option<u32> {
        let inode = std::fs::metadata(journal.with_file_name(FILE_NAME)).unwrap().ino();
        let table = std::fs::read_to_string("/proc/locks").unwrap();
        let line =
            table.lines().find(|line| line.contains(&format!(":{inode} ")) && line.contains("POSIX"))?;
        line.split_whitespace().nth(4)?.parse().ok()
    }
}
