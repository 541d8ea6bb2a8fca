//! Removes what a command has made in a repository for git to obey.
//!
//! rawko does that outside the sandbox, with all the user's rights, while other commands run and change what they like. So
//! nothing is removed by its path. Each folder is opened from the one around it, never through a link or across a mount, and
//! has to be the folder that it was before the command. The modes are the command's, too: where they are in the way, the
//! user's own folders are opened up.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, chmod, fstat, openat, openat2, readlinkat,
    renameat, statat, symlinkat, unlinkat,
};
use rustix::io::{Errno, Result};

use super::git::{DECIDING, Repository, with_inner};
use super::rebase;
use crate::access::PROTECTED;

/// How deep a tree is that is removed. A command can make one that no process can open from the top to the bottom.
const DEEPEST: usize = 100_000;

/// What git would obey in the folders of a repository, where a mount cannot keep it as it is.
#[derive(Debug, Default)]
pub(super) struct Absent(Vec<Folder>);

/// A folder in which git looks for it.
#[derive(Debug)]
struct Folder {
    /// The repository, held since before the command.
    top: Arc<OwnedFd>,
    /// Where the folder lies in it.
    inside: PathBuf,
    /// Its device and number.
    identity: (u64, u64),
    names: Vec<(&'static str, Before)>,
    /// The lines of a rebase under way that run something.
    runs: Vec<Vec<u8>>,
}

/// What was there before the command.
#[derive(Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// A link, which nothing can be mounted over.
    Link(CString),
}

/// What is not there now in the folders of a repository, and what is a link, there and at the top of the project. A command
/// may create files beside those that are protected, and nothing can be mounted where nothing is, or over a link.
pub(super) fn absent(repository: Option<&Repository>, root: &Path) -> Absent {
    let mut found = Vec::new();
    let tops: BTreeSet<&Path> = repository
        .iter()
        .map(|own| own.top.as_path())
        .chain([root])
        .filter(|top| top.is_absolute())
        .collect();
    for top in tops {
        found.extend(links_at(top));
    }
    for path in repository.iter().flat_map(|own| &own.folders) {
        let Ok(top) = open_folder(None, path.as_os_str()) else { continue };
        let top = Arc::new(top);
        for inner in with_inner(path) {
            let Ok(inside) = inner.strip_prefix(path) else { continue };
            let Ok(folder) = descend(&top, inside) else { continue };
            let Ok(identity) = identity_of(&folder) else { continue };
            let names =
                DECIDING.into_iter().filter_map(|name| Some((name, before(&folder, name)?))).collect();
            let runs = rebase::runs_in(&folder);
            found.push(Folder { top: Arc::clone(&top), inside: inside.to_owned(), identity, names, runs });
        }
    }
    Absent(found)
}

/// The links with protected names.
fn links_at(top: &Path) -> Option<Folder> {
    let opened = open_folder(None, top.as_os_str()).ok()?;
    let known = PROTECTED.into_iter().filter_map(|name| Some((name, before(&opened, name)?)));
    let names: Vec<_> = known.filter(|(_, before)| matches!(before, Before::Link(_))).collect();
    let identity = identity_of(&opened).ok().filter(|_| !names.is_empty())?;
    Some(Folder { top: Arc::new(opened), inside: PathBuf::new(), identity, names, runs: Vec::new() })
}

/// What is known of a name; `None` for what is there, and for what cannot be seen.
fn before(folder: &OwnedFd, name: &str) -> Option<Before> {
    let Some((above, leaf)) = name.split_once('/') else {
        return match kind_of(folder, name) {
            Err(Errno::NOENT) => Some(Before::Nothing),
            Ok(FileType::Symlink) => readlinkat(folder, name, Vec::new()).ok().map(Before::Link),
            Ok(_) | Err(_) => None,
        };
    };
    match kind_of(folder, above) {
        Err(Errno::NOENT) => Some(Before::Nothing),
        Ok(FileType::Directory) => {
            let above = open_folder(Some(folder), above.as_ref()).ok()?;
            (kind_of(&above, leaf) == Err(Errno::NOENT)).then_some(Before::Nothing)
        }
        // Whoever links it knows why.
        Ok(_) | Err(_) => None,
    }
}

impl Absent {
    /// Removes what is there by now, and puts links back. What cannot be removed stays.
    pub(super) fn remove(&self) {
        for Folder { top, inside, identity, names, runs } in &self.0 {
            // What lies in its place by now is the command's own, or a link to somewhere else.
            let Some(folder) =
                descend(top, inside).ok().filter(|folder| identity_of(folder) == Ok(*identity))
            else {
                continue;
            };
            for (name, before) in names {
                let _ = restore(&folder, name, before);
            }
            let _ = rebase::disarm(&folder, runs);
        }
    }
}

fn restore(folder: &OwnedFd, name: &str, before: &Before) -> Result<()> {
    if let Before::Link(target) = before {
        let now = allowed(folder, || readlinkat(folder, name, Vec::new()));
        if now.as_ref() == Ok(target) {
            return Ok(());
        }
        match remove(folder, OsStr::new(name)) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        return allowed(folder, || symlinkat(target, folder, name));
    }
    let Some((above, leaf)) = name.split_once('/') else { return remove(folder, OsStr::new(name)) };
    match kind_of(folder, above)? {
        FileType::Directory => remove(&open_folder(Some(folder), above.as_ref())?, OsStr::new(leaf)),
        // Git would follow it.
        FileType::Symlink => allowed(folder, || unlinkat(folder, above, AtFlags::empty())),
        _ => Ok(()),
    }
}

/// Removes a file, or a folder with all that is in it.
pub(super) fn remove(folder: &OwnedFd, name: &OsStr) -> Result<()> {
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

/// Empties a folder. Nothing is descended into: what lies in an inner folder is moved up, level by level.
fn empty(folder: &OwnedFd) -> Result<()> {
    let mut moved = 0_u64;
    for _ in 0..DEEPEST {
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

pub(super) fn names_in(folder: &OwnedFd) -> Result<Vec<std::ffi::OsString>> {
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
pub(super) fn descend(top: &OwnedFd, inside: &Path) -> Result<OwnedFd> {
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
pub(super) fn open_folder(above: Option<&OwnedFd>, name: &OsStr) -> Result<OwnedFd> {
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

pub(super) fn kind_of(folder: &OwnedFd, name: impl AsRef<OsStr>) -> Result<FileType> {
    let name = name.as_ref();
    let stat = allowed(folder, || statat(folder, name, AtFlags::SYMLINK_NOFOLLOW))?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

pub(super) fn identity_of(folder: &OwnedFd) -> Result<(u64, u64)> {
    let Stat { st_dev, st_ino, .. } = fstat(folder)?;
    Ok((st_dev, st_ino))
}

/// Does something in a folder, and does it again if the folder's mode was in the way.
pub(super) fn allowed<T>(folder: &OwnedFd, act: impl Fn() -> Result<T>) -> Result<T> {
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

#[cfg(test)]
#[path = "absent_tests.rs"]
mod tests;
