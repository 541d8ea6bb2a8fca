//! Writes a file as a whole: a new one beside it, then one rename. Nobody ever sees half of it, and nobody's
//! change is overwritten unseen.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use rustix::process::Pid;

use super::error::AccessError;
use super::{open_regular, read_bounded};
use crate::tracker::Digest;

/// Beginning of a temporary file's name, before the number of the process that writes it.
const TEMPORARY: &str = ".rawko-tmp-";

static TEMPORARY_FILES: AtomicU64 = AtomicU64::new(0);

/// The place of a file that may be written.
#[derive(Debug)]
pub struct WriteTarget {
    pub(super) dir: OwnedFd,
    pub(super) missing: Vec<OsString>,
    pub(super) leaf: OsString,
    /// Its name for people and for the tracker.
    pub name: String,
    pub(super) path: String,
    pub(super) readable: bool,
}

impl WriteTarget {
    /// Whether the agent may read it, too.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.readable
    }

    /// What is there now; `None` where there is nothing.
    ///
    /// # Errors
    /// If it is too large or cannot be read.
    pub fn content(&self) -> Result<Option<Vec<u8>>, AccessError> {
        match self.open()? {
            None => Ok(None),
            Some(mut file) => read_bounded(&mut file, &self.path).map(Some),
        }
    }

    /// Puts `bytes` in its place. `expected` is what must be there until then: this digest, or nothing.
    ///
    /// # Errors
    /// If something else is there, or the file cannot be written. Then it is as it was.
    pub fn replace(self, bytes: &[u8], expected: Option<Digest>) -> Result<(), AccessError> {
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

    /// Removes the temporary files that killed processes left in the file's directory. `expected` is what was there
    /// when they began. Where it still is, they hold what had not come to its place yet; where they hold it
    /// themselves, it had been replaced. Anything else may be somebody's work, and stays.
    pub(crate) fn clear_up(&self, expected: Option<Digest>) {
        if !self.missing.is_empty() {
            return;
        }
        // A place is opened without the right to list it.
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

    /// Moves the new file to a name that is free, and only then.
    fn put_new(&self, temporary: &Temporary<'_>) -> Result<(), AccessError> {
        let (dir, leaf) = (temporary.dir, self.leaf.as_os_str());
        let moved = match rustix::fs::renameat_with(dir, &temporary.name, dir, leaf, RenameFlags::NOREPLACE) {
            // Not every file system can; a link to a name that is taken fails on all of them.
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

    /// Swaps the new file with the old one, then looks at what came out: if that is not what was expected,
    /// someone wrote in between, and it is swapped back.
    fn exchange(&self, temporary: &Temporary<'_>, expected: Digest) -> Result<(), AccessError> {
        let (dir, leaf) = (temporary.dir, self.leaf.as_os_str());
        let swap = || rustix::fs::renameat_with(dir, &temporary.name, dir, leaf, RenameFlags::EXCHANGE);
        match swap() {
            Ok(()) => {}
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => return self.rename_over(temporary, expected),
            Err(Errno::NOENT) => return Err(AccessError::Changed { path: self.path.clone() }),
            Err(errno) => return Err(self.io("renaming", errno)),
        }
        // The directory is synced between two looks: whoever had the old file open has had time to finish.
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

    /// For file systems that cannot exchange: a last look, then a plain rename.
    fn rename_over(&self, temporary: &Temporary<'_>, expected: Digest) -> Result<(), AccessError> {
        let (dir, leaf) = (temporary.dir, self.leaf.as_os_str());
        if digest_of(dir, leaf) != Some(expected) {
            return Err(AccessError::Changed { path: self.path.clone() });
        }
        rustix::fs::renameat(dir, &temporary.name, dir, leaf).map_err(|errno| self.io("renaming", errno))?;
        sync_dir(dir);
        Ok(())
    }

    fn open(&self) -> Result<Option<File>, AccessError> {
        if !self.missing.is_empty() {
            return Ok(None);
        }
        match open_regular(self.dir.as_fd(), &self.leaf) {
            Ok(Some((file, _))) => Ok(Some(file)),
            Err(Errno::NOENT) => Ok(None),
            Ok(None) | Err(Errno::LOOP) => Err(AccessError::Changed { path: self.path.clone() }),
            Err(errno) => Err(self.io("opening", errno)),
        }
    }

    /// A rename would replace a read-only file; its mode says that this is not wanted.
    fn refuse_read_only(&self, old: Option<&File>) -> Result<(), AccessError> {
        match old.map(File::metadata) {
            Some(Ok(old)) if old.mode() & 0o222 == 0 => {
                Err(self.io("writing", std::io::Error::other("the file is read-only")))
            }
            Some(Err(error)) => Err(self.io("looking", error)),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// Makes the directories that are missing; each is entered without following a link.
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

/// A file under a name of its own, removed when it is no longer wanted under that name.
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

    /// Writes the content, and gives it owner and mode of the file it replaces.
    fn fill(&self, bytes: &[u8], old: Option<&File>) -> std::io::Result<()> {
        let mut file = &self.file;
        if let Some(old) = old.map(File::metadata).transpose()? {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                // Only root may give files away. For anyone else the content counts, not the owner.
                let _ =
                    rustix::fs::fchown(file, Some(Uid::from_raw(old.uid())), Some(Gid::from_raw(old.gid())));
            }
            // Without the set-id bits, as the kernel does on a write.
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

/// Whether this is the name of a temporary file whose process is gone.
fn is_abandoned(name: &str) -> bool {
    let process = name.strip_prefix(TEMPORARY).and_then(|rest| rest.split_once('-'));
    let pid = process.and_then(|(pid, _)| pid.parse().ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::SRCH))
}

fn digest_of(dir: BorrowedFd<'_>, name: impl AsRef<OsStr>) -> Option<Digest> {
    let (mut file, _) = open_regular(dir, name.as_ref()).ok()??;
    let bytes = read_bounded(&mut file, "").ok()?;
    Some(Digest::of(&bytes))
}

/// Makes a rename durable. A file system that cannot is no reason to fail what has been done.
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

    /// A process that has ended and been waited for.
    fn gone() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    /// What `clear_up` leaves of a file, where the agent knew `known`, and of a temporary file beside it.
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
        // Not in its place yet: whole, half or empty, for a new file and for one that was there.
        check(gone, None, None, "new", true);
        check(gone, None, None, "", true);
        check(gone, Some("old"), Some("old"), "ne", true);
        // Already in its place.
        check(gone, Some("old"), Some("new"), "old", true);
        // Somebody wrote in between, and the process was killed before it had swapped that back.
        check(gone, Some("old"), Some("new"), "somebody's", false);
        // At work.
        check(std::process::id(), None, None, "new", false);
    }
}
