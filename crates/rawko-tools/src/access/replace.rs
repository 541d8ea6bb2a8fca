//! Replaces a file as a whole: writes a new file beside it and renames that. No process ever reads half a file, and no
//! concurrent change is lost.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use rustix::process::Pid;

use super::error::AccessError;
use super::repository::becomes_repository;
use super::{open_regular, read_bounded};
use crate::tracker::Digest;

/// A temporary file's name begins with this, followed by the id of the process that writes it.
const TEMPORARY: &str = ".rawko-tmp-";

static TEMPORARY_FILES: AtomicU64 = AtomicU64::new(0);
/// Held while new files are made: two at once could make a repository that neither makes alone.
static MAKING: Mutex<()> = Mutex::new(());

/// A resolved path that may be written.
#[derive(Debug)]
pub(crate) struct WriteTarget {
    pub(super) dir: OwnedFd,
    pub(super) missing: Vec<OsString>,
    pub(super) leaf: OsString,
    /// Its name for people and for the tracker.
    pub(crate) name: String,
    pub(super) path: String,
}

impl WriteTarget {
    /// The current content; `None` if the file does not exist.
    ///
    /// # Errors
    /// If it is too large or cannot be read.
    pub(crate) fn content(&self) -> Result<Option<Vec<u8>>, AccessError> {
        match self.open()? {
            None => Ok(None),
            Some(mut file) => read_bounded(&mut file, &self.path).map(Some),
        }
    }

    /// Replaces the file with `bytes`, provided that its content still has the digest `expected`; `None` means that the
    /// file must not exist.
    ///
    /// # Errors
    /// If the content is another one, or the file cannot be written. The file is unchanged then.
    pub(crate) fn replace(self, bytes: &[u8], expected: Option<Digest>) -> Result<(), AccessError> {
        let _making = expected.is_none().then(|| MAKING.lock().unwrap_or_else(PoisonError::into_inner));
        if expected.is_none() {
            self.refuse_repository()?;
        }
        let created = self.create_parents()?;
        let dir = created.as_ref().map_or(self.dir.as_fd(), AsFd::as_fd);
        let old = match expected {
            None => None,
            Some(_) => self.open()?,
        };
        self.refuse_read_only(old.as_ref())?;
        let temporary = Temporary::create(dir).map_err(|e| self.io("creating a temporary file", e))?;
        temporary.fill(bytes, old.as_ref()).map_err(|e| self.io("writing", e))?;
        match expected {
            None => self.put_new(&temporary),
            Some(digest) => self.exchange(&temporary, digest),
        }
    }

    /// Removes the temporary files that killed processes left beside the file. `expected` is its content before their
    /// write. If that is still there, a temporary file holds an unfinished write; if a temporary file holds it, the write
    /// was finished. Any other temporary file may be someone's work and stays.
    pub(crate) fn clear_up(&self, expected: Option<Digest>) {
        if !self.missing.is_empty() {
            return;
        }
        // The directory was opened without the right to list it.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(dir) = rustix::fs::openat(&self.dir, ".", flags, Mode::empty()) else { return };
        let is_untouched = digest_of(dir.as_fd(), &self.leaf) == expected;
        for entry in rustix::fs::Dir::read_from(&dir).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if !is_abandoned(name) {
                continue;
            }
            let held = digest_of(dir.as_fd(), name);
            if is_untouched || (held.is_some() && held == expected) {
                let _ = rustix::fs::unlinkat(&dir, name, AtFlags::empty());
            }
        }
    }

    /// Moves the new file to its name, provided that the name is free.
    fn put_new(&self, temporary: &Temporary<'_>) -> Result<(), AccessError> {
        let (dir, leaf) = (temporary.dir, self.leaf.as_os_str());
        let moved = match rustix::fs::renameat_with(dir, &temporary.name, dir, leaf, RenameFlags::NOREPLACE) {
            // Not every file system supports this; a link to an existing name fails on all of them.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::linkat(dir, &temporary.name, dir, leaf, AtFlags::empty())
            }
            other => other,
        };
        match moved {
            Ok(()) => {
                sync_dir(dir);
                Ok(())
            }
            Err(Errno::EXIST) => Err(AccessError::Changed { path: self.path.clone() }),
            Err(errno) => Err(self.io("renaming", errno)),
        }
    }

    /// Swaps the new file with the old one and then checks the old one. If someone wrote to it in between, swaps back.
    fn exchange(&self, temporary: &Temporary<'_>, expected: Digest) -> Result<(), AccessError> {
        let (dir, leaf) = (temporary.dir, self.leaf.as_os_str());
        let swap = || rustix::fs::renameat_with(dir, &temporary.name, dir, leaf, RenameFlags::EXCHANGE);
        match swap() {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => return self.rename_over(temporary, expected),
            Err(Errno::NOENT) => return Err(AccessError::Changed { path: self.path.clone() }),
            Err(errno) => return Err(self.io("renaming", errno)),
        }
        // Check before and after a sync of the directory: a process that had the old file open had time to finish.
        let unchanged = digest_of(dir, &temporary.name) == Some(expected) && {
            sync_dir(dir);
            digest_of(dir, &temporary.name) == Some(expected)
        };
        if unchanged {
            return Ok(());
        }
        swap().map_err(|errno| self.io("renaming back", errno))?;
        Err(AccessError::Changed { path: self.path.clone() })
    }

    /// For file systems without exchange: a last check, then a plain rename.
    fn rename_over(&self, temporary: &Temporary<'_>, expected: Digest) -> Result<(), AccessError> {
        let (dir, leaf) = (temporary.dir, self.leaf.as_os_str());
        if digest_of(dir, leaf) != Some(expected) {
            return Err(AccessError::Changed { path: self.path.clone() });
        }
        rustix::fs::renameat(dir, &temporary.name, dir, leaf).map_err(|errno| self.io("renaming", errno))?;
        sync_dir(dir);
        Ok(())
    }

    /// The first new name decides: what is made below it is in a folder of its own.
    fn refuse_repository(&self) -> Result<(), AccessError> {
        let first = self.missing.first().unwrap_or(&self.leaf).to_string_lossy();
        let is_there = |name: &str| rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if !becomes_repository(&first, is_there) {
            return Ok(());
        }
        let folder = Path::new(&self.name)
            .ancestors()
            .nth(self.missing.len() + 1)
            .filter(|at| at.file_name().is_some());
        let folder = folder.map_or_else(|| ".".to_owned(), |folder| folder.display().to_string());
        Err(AccessError::Repository { path: self.path.clone(), folder })
    }

    fn open(&self) -> Result<Option<File>, AccessError> {
        if !self.missing.is_empty() {
            return Ok(None);
        }
        match open_regular(self.dir.as_fd(), &self.leaf) {
            Ok(Some(file)) => Ok(Some(file)),
            Err(Errno::NOENT) => Ok(None),
            Ok(None) | Err(Errno::LOOP) => Err(AccessError::Changed { path: self.path.clone() }),
            Err(errno) => Err(self.io("opening", errno)),
        }
    }

    /// A rename would replace a read-only file, which its mode forbids.
    fn refuse_read_only(&self, old: Option<&File>) -> Result<(), AccessError> {
        match old.map(File::metadata) {
            Some(Ok(old)) if old.mode() & 0o222 == 0 => {
                Err(self.io("writing", std::io::Error::other("the file is read-only")))
            }
            Some(Err(error)) => Err(self.io("looking", error)),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Creates the missing directories and enters each without following a link.
    fn create_parents(&self) -> Result<Option<OwnedFd>, AccessError> {
        let mut made: Option<OwnedFd> = None;
        for name in &self.missing {
            let dir = made.as_ref().map_or(self.dir.as_fd(), AsFd::as_fd);
            match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(self.io("creating its directory", errno)),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = rustix::fs::openat(dir, name, flags, Mode::empty())
                .map_err(|errno| self.io("entering its directory", errno))?;
            made = Some(fd);
        }
        Ok(made)
    }

    fn io(&self, action: &'static str, source: impl Into<std::io::Error>) -> AccessError {
        AccessError::io(&self.path, action, source)
    }
}

/// A temporary file, removed on drop unless it was renamed.
struct Temporary<'a> {
    dir: BorrowedFd<'a>,
    name: String,
    file: File,
}

impl<'a> Temporary<'a> {
    fn create(dir: BorrowedFd<'a>) -> Result<Self, Errno> {
        loop {
            let number = TEMPORARY_FILES.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY}{}-{number}", std::process::id());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(dir, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(fd) => return Ok(Self { dir, name, file: File::from(fd) }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Writes the content, and takes over owner and mode of the file that it replaces.
    fn fill(&self, bytes: &[u8], old: Option<&File>) -> std::io::Result<()> {
        let mut file = &self.file;
        if let Some(old) = old.map(File::metadata).transpose()? {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                // Only root may change the owner. For everyone else the content matters, not the owner.
                let _ =
                    rustix::fs::fchown(file, Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid())));
            }
            // Without the set-id bits, which the kernel clears on a write too.
            file.set_permissions(PermissionsExt::from_mode(old.mode() & 0o777))?;
        }
        file.write_all(bytes)?;
        file.sync_all()
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(self.dir, &self.name, AtFlags::empty());
    }
}

/// Whether this is a temporary file of a process that no longer runs.
fn is_abandoned(name: &str) -> bool {
    let process = name.strip_prefix(TEMPORARY).and_then(|rest| rest.split_once('-'));
    let pid = process.and_then(|(pid, _)| pid.parse().ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

fn digest_of(dir: BorrowedFd<'_>, name: impl AsRef<OsStr>) -> Option<Digest> {
    let mut file = open_regular(dir, name.as_ref()).ok()??;
    let bytes = read_bounded(&mut file, "").ok()?;
    Some(Digest::of(&bytes))
}

/// Makes a rename durable. The write succeeded even if the file system cannot do this.
fn sync_dir(dir: BorrowedFd<'_>) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(fd) = rustix::fs::openat(dir, ".", flags, Mode::empty()) {
        let _ = rustix::fs::fsync(&fd);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::access::FileAccess;

    /// The id of a process that has ended and been reaped.
    fn gone() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    /// Whether `clear_up` removes a temporary file, where the agent knew the content `known`.
    #[track_caller]
    fn check(process: u32, known: Option<&str>, file: Option<&str>, temporary: &str, removed: bool) {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(format!("{TEMPORARY}{process}-3"));
        std::fs::write(&left, temporary).unwrap();
        if let Some(text) = file {
            std::fs::write(dir.path().join("a.txt"), text).unwrap();
        }
        let access = FileAccess::new(dir.path(), &rawko_core::agent::Permissions::default()).unwrap();
        access.write_target("a.txt").unwrap().clear_up(known.map(|text| Digest::of(text.as_bytes())));
        assert_eq!(!left.exists(), removed, "{known:?} {file:?} {temporary}");
        let now = std::fs::read_to_string(dir.path().join("a.txt")).ok();
        assert_eq!(now.as_deref(), file);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_unless_it_may_be_somebodys_work() {
        let gone = gone();
        // The write was not finished: whole, half or empty, for a new file and for an existing one.
        check(gone, None, None, "new", true);
        check(gone, None, None, "", true);
        check(gone, Some("old"), Some("old"), "ne", true);
        // The write was finished.
        check(gone, Some("old"), Some("new"), "old", true);
        // Someone wrote in between, and the process was killed before it swapped back.
        check(gone, Some("old"), Some("new"), "somebody's", false);
        // The process still runs.
        check(std::process::id(), None, None, "new", false);
    }
}
