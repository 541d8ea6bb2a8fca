//! Temporary folders that do not outlive their process for long.
//!
//! A folder is removed with its value. A process that is killed cannot do that, so each folder is locked for as long as its
//! owner lives, and the next process that makes such a folder removes those that are not locked.
//!
//! They are in a place where others make folders too, and hold copies of a project that is its user's alone. So they
//! are private from the moment they are made, and rawko opens and changes nothing that others made, whatever its name
//! is.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};

use crate::file_lock::FileLock;

/// Begins the names of copies of a project.
pub const VERIFY: &str = "rawko-verify-";
/// Begins the names of git directories of rawko's own.
pub const GIT: &str = "rawko-git-";
/// Begins the names of what the commands of a run have for themselves.
pub(crate) const RUN: &str = "rawko-run-";
/// How often a folder is made that another process takes for an abandoned one.
const ATTEMPTS: usize = 10;
/// Where programs keep temporary files that are large: on a disk, while `/tmp` is often in memory.
const LARGE: &str = "/var/tmp";
/// Where they keep others.
const SMALL: &str = "/tmp";
/// The mode of a folder in which all users may make files, and no user may move the files of others.
const STICKY: u32 = 0o1000;

/// The folder in which temporary folders are made: the one that `TMPDIR` names, else `/var/tmp`, else `/tmp`. What it names
/// counts only where files can be made in it, and not within the `project`: they would be among the project's.
#[must_use]
pub fn parent(project: &Path) -> PathBuf {
    let is_sticky = |folder: &Path| folder.metadata().is_ok_and(|found| found.mode() & STICKY != 0);
    let large = Path::new(LARGE);
    let usual = || if is_sticky(large) && is_usable(large) { large } else { Path::new(SMALL) };
    named(std::env::var_os("TMPDIR"), Some(project)).unwrap_or_else(|| usual().to_owned())
}

/// Makes a small temporary folder that only its user can enter: not within the `project`, if there is one.
///
/// # Errors
/// If none can be made.
pub fn private(prefix: &str, project: Option<&Path>) -> io::Result<tempfile::TempDir> {
    private_in(&parent_of_small(project), prefix)
}

/// The folder in which small temporary files are made: not within the `project`, if there is one.
#[must_use]
pub fn parent_of_small(project: Option<&Path>) -> PathBuf {
    named(std::env::var_os("TMPDIR"), project).unwrap_or_else(|| PathBuf::from(SMALL))
}

/// Makes a temporary file without a name.
///
/// # Errors
/// If none can be made.
pub fn file() -> io::Result<File> {
    tempfile::tempfile_in(parent_of_small(None))
}

/// The folder that `TMPDIR` names, if it is of use.
fn named(value: Option<OsString>, project: Option<&Path>) -> Option<PathBuf> {
    let folder = PathBuf::from(value?);
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let project = project.and_then(real);
    let is_within =
        project.is_some_and(|project| real(&folder).is_some_and(|real| real.starts_with(project)));
    (is_usable(&folder) && !is_within).then_some(folder)
}

/// Whether a path is that of a folder, whatever a program's working folder is.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.is_absolute() && path.is_dir()
}

fn is_usable(folder: &Path) -> bool {
    is_folder(folder) && access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn private_in(parent: &Path, prefix: &str) -> io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(prefix).permissions(Permissions::from_mode(0o700)).tempdir_in(parent)
}

/// A temporary folder, removed when it is dropped.
#[derive(Debug)]
pub struct TemporaryFolder {
    folder: tempfile::TempDir,
    /// Absent where folders cannot be locked.
    lock: Option<FileLock>,
}

impl TemporaryFolder {
    /// Makes a folder whose name begins with `prefix`, for work on a `project` and not within it.
    ///
    /// # Errors
    /// If none can be made.
    pub fn new(prefix: &str, project: &Path) -> io::Result<Self> {
        Self::within(&parent(project), prefix)
    }

    fn within(parent: &Path, prefix: &str) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let folder = private_in(parent, prefix)?;
            // Until it is locked, another process may remove it.
            let Ok(opened) = File::open(folder.path()) else { continue };
            let opened_inode = opened.metadata()?.ino();
            let Ok(lock) = FileLock::take_if_known(opened, Duration::ZERO) else { continue };
            let is_there = folder.path().metadata().is_ok_and(|found| found.ino() == opened_inode);
            if is_there {
                return Ok(Self { folder, lock });
            }
        }
        Err(io::Error::other("temporary folders are removed as soon as they are made"))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What keeps it locked. A process that has a copy of this holds the folder too.
    #[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
    pub(crate) fn lock(&self) -> Option<BorrowedFd<'_>> {
        self.lock.as_ref().map(|lock| lock.file().as_fd())
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What cannot be removed stays.
        let _ = remove_all(self.folder.path());
    }
}

/// Waits until no process holds the folder any more, or for as long as `patience`. Returns whether the folder is free.
#[must_use]
pub fn is_abandoned_within(folder: &Path, patience: Duration) -> bool {
    let begun = Instant::now();
    while folder.is_dir() && abandoned(folder).is_none() {
        if begun.elapsed() >= patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Removes the folders that killed processes left where those for a `project` are made. Folders that cannot be removed
/// stay.
pub fn remove_abandoned(project: &Path) {
    remove_abandoned_in(&parent(project), &[VERIFY, GIT, RUN]);
}

fn remove_abandoned_in(parent: &Path, prefixes: &[&str]) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let begins_with = |prefix: &str| name.to_string_lossy().starts_with(prefix);
        if !prefixes.iter().any(|prefix| begins_with(prefix)) {
            continue;
        }
        // Held until it is gone.
        let Some(held) = abandoned(&entry.path()).filter(|held| is_own(held.file())) else { continue };
        if begins_with(RUN) {
            crate::confine::settle_after(&PathBuf::from(format!(
                "/proc/self/fd/{}",
                held.file().as_raw_fd()
            )));
        }
        let _ = remove_all(&entry.path());
    }
}

/// Whether a folder is the user's, and no other can change what is in it.
fn is_own(folder: &File) -> bool {
    let own = rustix::process::geteuid().as_raw();
    folder.metadata().is_ok_and(|found| found.uid() == own && found.mode() & 0o022 == 0)
}

/// Removes a folder with all that is in it, whatever its modes are: a layered file system leaves folders that may not
/// be opened, and caches have some that may not be written. No link is followed.
///
/// # Errors
/// If something cannot be removed.
pub fn remove_all(folder: &Path) -> io::Result<()> {
    // The library follows no link either.
    std::fs::remove_dir_all(folder).or_else(|_| remove_whatever_its_modes(folder))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn remove_whatever_its_modes(folder: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    let parent = crate::folder::open_folder(None, std::fs::canonicalize(parent)?.as_os_str())?;
    Ok(crate::folder::remove(&parent, name)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn remove_whatever_its_modes(folder: &Path) -> io::Result<()> {
    std::fs::remove_dir_all(folder)
}

/// The folder, locked, if no process held it. Not a link: nothing outside is touched.
fn abandoned(folder: &Path) -> Option<FileLock> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::DIRECTORY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let opened = File::options().read(true).custom_flags(flags).open(folder).ok()?;
    FileLock::take(opened, Duration::ZERO).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unlocked_folders_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let held = TemporaryFolder::within(parent.path(), "a-").unwrap();
        let killed = TemporaryFolder::within(parent.path(), "a-").unwrap();
        std::fs::write(killed.path().join("file"), "").unwrap();
        // As a kill does: the lock goes, the folder stays.
        std::fs::create_dir_all(killed.path().join("work/work")).unwrap();
        std::fs::set_permissions(killed.path().join("work/work"), Permissions::from_mode(0o000)).unwrap();
        let abandoned = killed.path().to_owned();
        killed.lock.as_ref().unwrap().release();
        assert!(is_abandoned_within(&abandoned, Duration::ZERO));
        assert!(!is_abandoned_within(held.path(), Duration::from_millis(10)));
        std::mem::forget(killed);
        let other = parent.path().join("b-1");
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, parent.path().join("a-link")).unwrap();
        remove_abandoned_in(parent.path(), &["a-"]);
        assert!(!abandoned.exists());
        assert!(held.path().exists() && other.exists());
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_named_folder_counts_where_files_can_be_made_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let (project, file) = (folder.path().join("project"), folder.path().join("file"));
        let (inside, link) = (project.join("tmp"), folder.path().join("link"));
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&inside, &link).unwrap();
        let counts = |value: &Path| named(Some(value.into()), Some(&project)).is_some();
        assert!(counts(folder.path()));
        for value in [&file, &folder.path().join("missing"), &inside, &link, Path::new("src"), Path::new("")]
        {
            assert!(!counts(value), "{}", value.display());
        }
        // It is another project's folder.
        assert!(named(Some(inside.into()), Some(&folder.path().join("other"))).is_some());
        assert_eq!(named(None, None), None);
    }

    #[test]
    fn a_folder_is_its_users_alone_whatever_the_mask_is() {
        let parent = tempfile::tempdir().unwrap();
        assert_eq!(mode(TemporaryFolder::within(parent.path(), "a-").unwrap().path()), 0o700);
        assert_eq!(mode(private_in(parent.path(), "b-").unwrap().path()), 0o700);
    }

    #[test]
    fn what_is_removed_leads_to_no_change_elsewhere() {
        let parent = tempfile::tempdir().unwrap();
        let (theirs, folder) = (parent.path().join("theirs"), parent.path().join("a-1"));
        std::fs::create_dir_all(theirs.join("inner")).unwrap();
        std::fs::set_permissions(&theirs, Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir_all(folder.join("read/only")).unwrap();
        std::fs::write(folder.join("read/only/file"), "").unwrap();
        std::os::unix::fs::symlink(&theirs, folder.join("read/link")).unwrap();
        for path in ["read/only", "read", ""] {
            std::fs::set_permissions(folder.join(path), Permissions::from_mode(0o500)).unwrap();
        }
        remove_whatever_its_modes(&folder).unwrap();
        assert!(!folder.exists() && theirs.join("inner").exists());
        // A link in the place of a folder.
        std::os::unix::fs::symlink(&theirs, &folder).unwrap();
        let _ = remove_whatever_its_modes(&folder);
        assert!(theirs.join("inner").exists());
        assert_eq!(mode(&theirs), 0o755);
    }

    /// A folder with the name of one of rawko's, that others can change or that is another user's.
    #[test]
    fn what_is_not_the_users_alone_is_left_as_it_is() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a-1");
        std::fs::create_dir_all(folder.join("inner")).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        remove_abandoned_in(parent.path(), &["a-"]);
        assert!(folder.join("inner").exists());
        if rustix::process::geteuid().is_root() {
            std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
            std::os::unix::fs::chown(&folder, Some(65_534), None).unwrap();
            remove_abandoned_in(parent.path(), &["a-"]);
            assert!(folder.join("inner").exists());
        }
        // The same as the user's own goes.
        std::os::unix::fs::chown(&folder, Some(rustix::process::geteuid().as_raw()), None).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        remove_abandoned_in(parent.path(), &["a-"]);
        assert!(!folder.exists());
    }
}
