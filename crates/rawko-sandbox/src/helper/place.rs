//! Opens the places of a view. Another command may run in the project and put a link where a folder was: what is
//! mounted is then in another place, or shows something else. So no link is followed, and mounts are made by
//! descriptor. Plans name real paths.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};

/// Opens what is at this path. The last part may be a link, which is opened itself.
pub(crate) fn open(place: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(CWD, place, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(|error| match error {
        Errno::LOOP => io::Error::other(
            "a folder on the way was replaced by a link while the sandbox was made: end the background jobs, or run the \
             command again",
        ),
        error => error.into(),
    })
}

/// The same, `None` if nothing is there.
pub(crate) fn open_if_there(place: &Path) -> io::Result<Option<OwnedFd>> {
    match open(place) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// What kind of file it is.
pub(crate) fn kind_of(opened: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(opened)?.st_mode))
}

/// Opens a place for something of this kind, which is made where it is missing, with the folders around it.
pub(crate) fn open_or_make(place: &Path, kind: FileType) -> io::Result<OwnedFd> {
    if let Some(opened) = open_if_there(place)? {
        return Ok(opened);
    }
    let (Some(above), Some(name)) = (place.parent(), place.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    make(&open_or_make(above, FileType::Directory)?, name, kind)?;
    open(place)
}

fn make(above: &OwnedFd, name: &OsStr, kind: FileType) -> io::Result<()> {
    if kind.is_dir() {
        return Ok(mkdirat(above, name, Mode::from_raw_mode(0o755))?);
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(above, name, flags, Mode::from_raw_mode(0o644)).map(drop).map_err(io::Error::from)
}

/// A mount of what was opened, with all mounts in it, that is not yet anywhere.
pub(crate) fn clone_tree(opened: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(opened, "", flags)?)
}

/// Attaches a mount at a place that was opened.
pub(crate) fn attach(mount: &OwnedFd, opened: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, "", opened, "", flags)?)
}
