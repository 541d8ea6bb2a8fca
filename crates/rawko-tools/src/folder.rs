//! Folders by their descriptors.
//!
//! rawko removes what commands made, and what killed processes left, with all the user's rights, while commands and other
//! users change what they like. A path could lead elsewhere by then. So each folder is opened from the one around it, never
//! through a link or across a mount. Where the modes that a command set are in the way, the user's own folders are opened up.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, chmod, fstat, openat, openat2, renameat,
    statat, unlinkat,
};
use rustix::io::{Errno, Result};

use crate::file_stamp::FileId;

/// How often a folder is looked at until it is empty: once for each level of what was in it. A command can make more levels
/// than a process can open, and another one can go on making folders meanwhile.
const MOST_PASSES: usize = 100_000;

/// Removes a file, or a folder with all that is in it.
pub(crate) fn remove(folder: &OwnedFd, name: &OsStr) -> Result<()> {
    match kind_of(folder, name) {
        Ok(FileType::Directory) => {
            let inner = open_folder(Some(folder), name)?;
            open_up(&inner);
            empty(&inner)?;
            allowed(folder, || unlinkat(folder, name, AtFlags::REMOVEDIR))
        }
        Ok(_) => allowed(folder, || unlinkat(folder, name, AtFlags::empty())),
        Err(error) => Err(error),
    }
}

/// Empties a folder. Nothing is descended into: the contents of an inner folder are moved up, level by level.
fn empty(folder: &OwnedFd) -> Result<()> {
    let mut moved = 0_u64;
    for _ in 0..MOST_PASSES {
        let names = names_in(folder)?;
        if names.is_empty() {
            return Ok(());
        }
        let mut folders = Vec::new();
        // Files first: a hook is one, and a folder may resist.
        for name in names {
            if unlinkat(folder, &name, AtFlags::empty()).is_err() {
                folders.push(name);
            }
        }
        let mut last = Ok(());
        let mut has_removed = folders.is_empty();
        for name in folders {
            match flatten(folder, &name, &mut moved) {
                Ok(()) => has_removed = true,
                Err(error) => last = Err(error),
            }
        }
        if !has_removed {
            return last;
        }
    }
    Err(Errno::NOTEMPTY)
}

/// Removes one inner folder, and moves the folders in it beside it.
fn flatten(folder: &OwnedFd, name: &OsStr, moved: &mut u64) -> Result<()> {
    let inner = open_folder(Some(folder), name)?;
    open_up(&inner);
    for name in names_in(&inner)? {
        if unlinkat(&inner, &name, AtFlags::empty()).is_ok() {
            continue;
        }
        // Its entry `..` changes with its place.
        open_up(&open_folder(Some(&inner), &name)?);
        *moved += 1;
        let place = format!(".rawko-removed-{}-{moved}", std::process::id());
        renameat(&inner, &name, folder, place)?;
    }
    unlinkat(folder, name, AtFlags::REMOVEDIR)
}

pub(crate) fn names_in(folder: &OwnedFd) -> Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(folder, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(opened)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Opens the folder at `inside`, below another.
pub(crate) fn descend(top: &OwnedFd, inside: &Path) -> Result<OwnedFd> {
    let mut folder = openat(top, ".", PLACE, Mode::empty())?;
    for part in inside.components() {
        let Component::Normal(name) = part else { return Err(Errno::INVAL) };
        folder = open_folder(Some(&folder), name)?;
    }
    Ok(folder)
}

/// A folder whatever its mode is.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a folder in another one, unless it is a link or something is mounted there; without another, by its path.
pub(crate) fn open_folder(above: Option<&OwnedFd>, name: &OsStr) -> Result<OwnedFd> {
    let Some(above) = above else { return openat(CWD, name, PLACE, Mode::empty()) };
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    allowed(above, || match openat2(above, name, PLACE, Mode::empty(), within) {
        // Filters of older containers do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            let opened = openat(above, name, PLACE, Mode::empty())?;
            if fstat(&opened)?.st_dev == fstat(above)?.st_dev { Ok(opened) } else { Err(Errno::XDEV) }
        }
        opened => opened,
    })
}

pub(crate) fn kind_of(folder: &OwnedFd, name: impl AsRef<OsStr>) -> Result<FileType> {
    let name = name.as_ref();
    let stat = allowed(folder, || statat(folder, name, AtFlags::SYMLINK_NOFOLLOW))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

pub(crate) fn identity_of(folder: &OwnedFd) -> Result<FileId> {
    let Stat { st_dev, st_ino, .. } = fstat(folder)?;
    Ok((st_dev, st_ino))
}

/// Does something in a folder, and does it again if the folder's mode was in the way.
pub(crate) fn allowed<T>(folder: &OwnedFd, act: impl Fn() -> Result<T>) -> Result<T> {
    match act() {
        Err(Errno::ACCESS) if open_up(folder) => act(),
        result => result,
    }
}

/// Gives the user back a folder of their own. By its descriptor: a path could lead elsewhere by now.
fn open_up(folder: &OwnedFd) -> bool {
    let Ok(stat) = fstat(folder) else { return false };
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | 0o700);
    // A descriptor that only names a place can be changed in no other way before Linux 6.6.
    is_own && chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode).is_ok()
}
