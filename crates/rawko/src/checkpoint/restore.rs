//! Writes and removes files below the project and nowhere else.
//!
//! Every folder of a path is opened by itself and never through a link. A file is replaced by a rename, so that a
//! reader sees the old one or the new one. An unknown file in the way is left as it is.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, openat, renameat, statat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::error::CheckpointError;
use super::listing::{TreePath, is_plain};
use super::snapshot::EntryKind;

/// The project, open for restoring.
pub(super) struct Restorer {
    root: OwnedFd,
    temporary: String,
}

/// Why one path was left as it is.
pub(super) type InTheWay = String;

impl Restorer {
    pub(super) fn new(project: &Path) -> Result<Self, CheckpointError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(project, flags, Mode::empty())
            .map_err(|errno| CheckpointError::io("cannot open the project", project, errno))?;
        Ok(Self { root, temporary: format!(".rawko-tmp-{}", std::process::id()) })
    }

    /// Writes a file, replacing any file at the path.
    pub(super) fn put(&self, path: &[u8], kind: EntryKind, content: &[u8]) -> Result<(), InTheWay> {
        let (folder, leaf) = self.folder_of(path, Missing::Make)?;
        let folder = folder.as_ref().unwrap_or(&self.root);
        let old = match statat(folder, leaf, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some((FileType::from_raw_mode(stat.st_mode), stat.st_mode)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.to_string()),
        };
        match old {
            Some((FileType::Directory, _)) => unlinkat(folder, leaf, AtFlags::REMOVEDIR)
                .map_err(|_| "a folder is in its place, with files that were not kept".to_owned())?,
            Some((FileType::RegularFile | FileType::Symlink, _)) | None => {}
            Some(_) => return Err("something that is no file is in its place".to_owned()),
        }
        let _ = unlinkat(folder, &self.temporary, AtFlags::empty());
        let old_mode = old.filter(|(kind, _)| *kind == FileType::RegularFile).map(|(_, mode)| mode);
        let made = match kind {
            EntryKind::Link => {
                symlinkat(OsStr::from_bytes(content), folder, &self.temporary).map_err(std::io::Error::from)
            }
            EntryKind::File | EntryKind::Executable => self.write(folder, kind, content, old_mode),
        };
        let moved = made.and_then(|()| Ok(renameat(folder, &self.temporary, folder, leaf)?));
        moved.map_err(|error| {
            let _ = unlinkat(folder, &self.temporary, AtFlags::empty());
            error.to_string()
        })
    }

    fn write(
        &self,
        folder: &OwnedFd,
        kind: EntryKind,
        content: &[u8],
        old_mode: Option<u32>,
    ) -> std::io::Result<()> {
        let executable = kind == EntryKind::Executable;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if executable { 0o777 } else { 0o666 });
        let mut file = File::from(openat(folder, &self.temporary, flags, mode)?);
        if let Some(mode) = old_mode.map(|mode| mode & 0o777) {
            // Read permissions stay; the executable bit is the one that was kept.
            let mode = if executable { mode | ((mode & 0o444) >> 2) } else { mode & !0o111 };
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        file.write_all(content)
    }

    /// Removes a file, and the folders that are then empty.
    pub(super) fn take(&self, path: &[u8]) -> Result<(), InTheWay> {
        let (folder, leaf) = match self.folder_of(path, Missing::Leave) {
            Ok(found) => found,
            Err(_) if !self.is_there(path) => return Ok(()),
            Err(why) => return Err(why),
        };
        match unlinkat(folder.as_ref().unwrap_or(&self.root), leaf, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::PERM) => return Err("a folder has taken its place".to_owned()),
            Err(errno) => return Err(errno.to_string()),
        }
        let mut above = path;
        while let Some(end) = above.iter().rposition(|byte| *byte == b'/') {
            above = above.get(..end).unwrap_or_default();
            let Ok((folder, leaf)) = self.folder_of(above, Missing::Leave) else { break };
            if unlinkat(folder.as_ref().unwrap_or(&self.root), leaf, AtFlags::REMOVEDIR).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn is_there(&self, path: &[u8]) -> bool {
        statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// The folder of a path, and the name in it; no folder means the project itself.
    fn folder_of<'p>(
        &self,
        path: &'p [u8],
        missing: Missing,
    ) -> Result<(Option<OwnedFd>, &'p [u8]), InTheWay> {
        if !is_plain(path) {
            return Err("it is no path below the project".to_owned());
        }
        let mut folder: Option<OwnedFd> = None;
        let mut rest = path;
        while let Some(end) = rest.iter().position(|byte| *byte == b'/') {
            let name = rest.get(..end).unwrap_or_default();
            folder = Some(enter(folder.as_ref().unwrap_or(&self.root), name, missing)?);
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        Ok((folder, rest))
    }
}

/// What to do about a missing folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Leave,
}

fn enter(at: &OwnedFd, name: &[u8], missing: Missing) -> Result<OwnedFd, InTheWay> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if missing == Missing::Make {
        match mkdirat(at, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.to_string()),
        }
    }
    openat(at, name, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::LOOP | Errno::NOTDIR => {
            format!("`{}` on the way to it is no folder", name.escape_ascii())
        }
        errno => errno.to_string(),
    })
}

/// A path as people see it.
pub(super) fn shown(path: &TreePath) -> String {
    String::from_utf8_lossy(path).into_owned()
}
