//! Writes and removes files below the project and nowhere else.
//!
//! Every folder of a path is opened by itself and never through a link. A file is written elsewhere and moved into its
//! place, so that a reader sees the old one or the new one, and a process that is killed leaves nothing in the project. An
//! unknown file in the way is left as it is.

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
use super::snapshot::TreeEntryKind;

/// What a file is called while it is written.
const TEMPORARY: &str = ".rawko-restored";

/// The project, open for restoring.
pub(super) struct Restorer {
    root: OwnedFd,
    /// Where files are written first.
    staging: OwnedFd,
}

/// Why one path was left as it is.
pub(super) type InTheWay = String;

impl Restorer {
    /// Files are first written in `staging`, which nothing else uses in the meantime.
    pub(super) fn new(project: &Path, staging: &Path) -> Result<Self, CheckpointError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |folder: &Path| {
            rustix::fs::open(folder, flags, Mode::empty())
                .map_err(|errno| CheckpointError::io("cannot open", folder, errno))
        };
        let restorer = Self { root: open(project)?, staging: open(staging)? };
        // A process that was killed left it.
        let _ = unlinkat(&restorer.staging, TEMPORARY, AtFlags::empty());
        Ok(restorer)
    }

    /// Writes a file or makes an empty folder, replacing any file at the path.
    pub(super) fn put(
        &self,
        path: &[u8],
        kind: TreeEntryKind,
        mode: Option<u32>,
        content: &[u8],
    ) -> Result<(), InTheWay> {
        let (folder, leaf) = self.folder_of(path, MissingFolder::Make)?;
        let folder = folder.as_ref().unwrap_or(&self.root);
        let old = match statat(folder, leaf, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some((FileType::from_raw_mode(stat.st_mode), stat.st_mode)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.to_string()),
        };
        match old {
            Some((FileType::Directory, _)) if kind == TreeEntryKind::Folder => return Ok(()),
            Some((FileType::Directory, _)) => unlinkat(folder, leaf, AtFlags::REMOVEDIR)
                .map_err(|_| "a folder is in its place, with files that were not kept".to_owned())?,
            Some((FileType::RegularFile | FileType::Symlink, _)) | None => {}
            Some(_) => return Err("something that is no file is in its place".to_owned()),
        }
        if kind == TreeEntryKind::Folder {
            if old.is_some() {
                unlinkat(folder, leaf, AtFlags::empty()).map_err(|errno| errno.to_string())?;
            }
            return mkdirat(folder, leaf, Mode::from_raw_mode(0o777)).map_err(|errno| errno.to_string());
        }
        let old_mode = old.filter(|(kind, _)| *kind == FileType::RegularFile).map(|(_, mode)| mode & 0o777);
        // Read permissions stay where the mode was not kept; the executable bit is the one that was.
        let mode = mode.or(old_mode.map(|mode| match kind {
            TreeEntryKind::Executable => mode | ((mode & 0o444) >> 2),
            TreeEntryKind::File | TreeEntryKind::Link | TreeEntryKind::Folder => mode & !0o111,
        }));
        let place = |staging: &OwnedFd| {
            let _ = unlinkat(staging, TEMPORARY, AtFlags::empty());
            let moved = write(staging, TEMPORARY.as_bytes(), kind, mode, content)
                .and_then(|()| Ok(renameat(staging, TEMPORARY, folder, leaf)?));
            if moved.is_err() {
                let _ = unlinkat(staging, TEMPORARY, AtFlags::empty());
            }
            moved
        };
        match place(&self.staging) {
            // Another file system is mounted in the project, or rawko's folder is on another one.
            Err(error) if error.raw_os_error() == Some(Errno::XDEV.raw_os_error()) => place(folder),
            placed => placed,
        }
        .map_err(|error| error.to_string())
    }

    /// Writes a file or makes an empty folder in a project that no one else uses yet, where nothing is at the path: at
    /// once in its place. Files that are all made in one folder first take a file system long to find room for.
    pub(super) fn put_new(&self, path: &[u8], kind: TreeEntryKind, content: &[u8]) -> Result<(), InTheWay> {
        let (folder, leaf) = self.folder_of(path, MissingFolder::Make)?;
        let folder = folder.as_ref().unwrap_or(&self.root);
        let made = match kind {
            TreeEntryKind::Folder => match mkdirat(folder, leaf, Mode::from_raw_mode(0o777)) {
                // For its contents.
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(errno) => Err(errno.into()),
            },
            TreeEntryKind::File | TreeEntryKind::Executable | TreeEntryKind::Link => {
                write(folder, leaf, kind, None, content)
            }
        };
        made.map_err(|error: std::io::Error| error.to_string())
    }

    /// Removes a file or an empty folder, and the folders that are then empty and not to be kept.
    pub(super) fn take(
        &self,
        path: &[u8],
        kind: TreeEntryKind,
        is_kept: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), InTheWay> {
        let (folder, leaf) = match self.folder_of(path, MissingFolder::Leave) {
            Ok(found) => found,
            Err(_) if !self.is_there(path) => return Ok(()),
            Err(why) => return Err(why),
        };
        let flags = if kind == TreeEntryKind::Folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match unlinkat(folder.as_ref().unwrap_or(&self.root), leaf, flags) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Err("there is something in it now".to_owned()),
            Err(Errno::ISDIR | Errno::PERM) => return Err("a folder has taken its place".to_owned()),
            Err(errno) => return Err(errno.to_string()),
        }
        let mut above = path;
        while let Some(end) = above.iter().rposition(|byte| *byte == b'/') {
            above = above.get(..end).unwrap_or_default();
            if is_kept(above) {
                break;
            }
            let Ok((folder, leaf)) = self.folder_of(above, MissingFolder::Leave) else { break };
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
        missing: MissingFolder,
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

/// Writes a file or a link that is not there.
fn write(
    folder: &OwnedFd,
    name: &[u8],
    kind: TreeEntryKind,
    mode: Option<u32>,
    content: &[u8],
) -> std::io::Result<()> {
    if kind == TreeEntryKind::Link {
        return Ok(symlinkat(OsStr::from_bytes(content), folder, name)?);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let most = if kind == TreeEntryKind::Executable { 0o777 } else { 0o666 };
    let mut file = File::from(openat(folder, name, flags, Mode::from_raw_mode(most))?);
    file.write_all(content)?;
    match mode {
        Some(mode) => file.set_permissions(Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

/// What to do about a missing folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissingFolder {
    Make,
    Leave,
}

fn enter(at: &OwnedFd, name: &[u8], missing: MissingFolder) -> Result<OwnedFd, InTheWay> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if missing == MissingFolder::Make {
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
