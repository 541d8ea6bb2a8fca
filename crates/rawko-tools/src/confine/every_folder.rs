//! Walks every folder below another one, by its descriptor and never through a link.
//!
//! Commands and the user go on changing what is walked. Shallow folders come first, and folders that tools fill come
//! last: if only a part can be looked at, it is the one that people work in.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, chmod, fstat, openat, openat2, statat};
use rustix::io::{Errno, Result};

use super::survey::is_filled_by_tools;
use crate::folder::{allowed, open_folder};

/// The most folders whose modes are put back.
const MAX_OPENED: usize = 256;

/// What one folder holds.
pub(super) struct ListedFolder<'a> {
    pub(super) path: &'a Path,
    pub(super) folder: &'a OwnedFd,
    pub(super) names: &'a [(OsString, FileType)],
}

impl ListedFolder<'_> {
    /// The kind of the entry with this name, in any case: some file systems ignore case.
    pub(super) fn kind_of(&self, name: &str) -> Option<FileType> {
        let is_it = |found: &OsStr| found.eq_ignore_ascii_case(name);
        self.names.iter().find(|(found, _)| is_it(found)).map(|(_, kind)| *kind)
    }
}

/// Visits a folder and all below it, until `most` entries were seen. Whether that was all.
pub(super) fn each_folder(base: &Path, most: usize, visit: &mut dyn FnMut(&ListedFolder<'_>)) -> bool {
    let Ok(top) = open_folder(None, base.as_os_str()) else { return true };
    let mut opened = OpenedFolders::default();
    let (mut queue, mut filled) = (VecDeque::from([PathBuf::new()]), VecDeque::new());
    let mut left = most;
    let mut is_filled = false;
    loop {
        let Some(inside) = queue.pop_front() else {
            if filled.is_empty() {
                return true;
            }
            queue = std::mem::take(&mut filled);
            is_filled = true;
            continue;
        };
        let Ok(folder) = open_below(&top, &inside) else { continue };
        let Ok(names) = opened.list(&folder) else { continue };
        if names.len() > left {
            return false;
        }
        left -= names.len();
        let path = base.join(&inside);
        visit(&ListedFolder { path: &path, folder: &folder, names: &names });
        for (name, _) in names.iter().filter(|(_, kind)| *kind == FileType::Directory) {
            let later = !is_filled && is_filled_by_tools(name);
            if later { &mut filled } else { &mut queue }.push_back(inside.join(name));
        }
    }
}

/// Opens the folder at `inside`, across mounts: a user may have mounted something in the project.
fn open_below(top: &OwnedFd, inside: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match openat2(top, inside, flags, Mode::empty(), within) {
        // Filters of older containers do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            let mut folder = openat(top, ".", flags, Mode::empty())?;
            for name in inside {
                folder = openat(&folder, name, flags, Mode::empty())?;
            }
            Ok(folder)
        }
        opened => opened,
    }
}

/// Folders that had to be opened up, and the modes that they had. Dropping it puts these back.
#[derive(Default)]
struct OpenedFolders(Vec<(OwnedFd, Mode)>);

impl OpenedFolders {
    fn list(&mut self, folder: &OwnedFd) -> Result<Vec<(OsString, FileType)>> {
        match list(folder) {
            Err(Errno::ACCESS) => {}
            listed => return listed,
        }
        let before = fstat(folder)?.st_mode;
        let listed = allowed(folder, || list(folder));
        if fstat(folder)?.st_mode != before && self.0.len() < MAX_OPENED {
            let held = openat(folder, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            self.0.push((held, Mode::from_raw_mode(before & 0o7777)));
        }
        listed
    }
}

impl Drop for OpenedFolders {
    fn drop(&mut self) {
        for (folder, mode) in self.0.iter().rev() {
            let _ = chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), *mode);
        }
    }
}

fn list(folder: &OwnedFd) -> Result<Vec<(OsString, FileType)>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut names = Vec::new();
    for entry in Dir::new(openat(folder, ".", flags, Mode::empty())?)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
                found.map_or(FileType::Unknown, |found| FileType::from_raw_mode(found.st_mode))
            }
            kind => kind,
        };
        names.push((name.to_owned(), kind));
    }
    Ok(names)
}
