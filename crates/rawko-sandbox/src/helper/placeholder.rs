//! Files that replace others: files that git takes for the original without reading them, and texts.
//!
//! They are made in memory. A placeholder has no content, and its owner is mapped to the user `nobody`, so that root
//! cannot open it either: git would take what root reads, zeros, for a change.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::OnceLock;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, ftruncate, mkdirat, openat, symlinkat, utimensat,
};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::mount::{
    MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    move_mount, open_tree, unmount,
};
use rustix::process::{WaitOptions, waitpid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::view::memory;
use crate::plan::{Placeholder, PlaceholderKind};
use crate::sys::{self, Side};

/// Where a file system is attached for the moment in which one of its files is taken: every command has this folder.
const BENCH: &str = "/dev/shm";
/// The name of the file there.
const FILE: &str = "file";
/// The longest symbolic link.
const LONGEST_LINK: u32 = 4095;

/// The file to mount over `place`; `None` if nothing is there, or a link, over which nothing can be mounted.
pub(super) fn stand_in(place: &Path, files: &[Placeholder]) -> io::Result<Option<OwnedFd>> {
    let Ok(kind) = fs::symlink_metadata(place) else { return Ok(None) };
    if kind.is_dir() {
        let folder = memory(false)?;
        for file in files.iter().filter(|file| is_inside(&file.name)) {
            make(folder.as_fd(), &file.name, file)?;
        }
        close_to_all(&folder);
        return Ok(Some(folder));
    }
    let Some(file) = files.first().filter(|_| !kind.is_symlink()) else { return Ok(None) };
    let folder = memory(false)?;
    make(folder.as_fd(), Path::new(FILE), file)?;
    let taken = take_file(&folder)?;
    close_to_all(&taken);
    Ok(Some(taken))
}

/// A file with this content; `None` where there is no file to replace.
pub(super) fn text(place: &Path, content: &[u8]) -> io::Result<Option<OwnedFd>> {
    if !fs::symlink_metadata(place).is_ok_and(|kind| kind.is_file()) {
        return Ok(None);
    }
    let folder = memory_for(content.len())?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(&folder, FILE, flags, Mode::from_raw_mode(0o644))?;
    fs::File::from(file).write_all(content)?;
    take_file(&folder).map(Some)
}

/// A file system in memory that has room for one file of this length.
fn memory_for(length: usize) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "mode", "0755")?;
    fsconfig_set_string(context.as_fd(), "size", format!("{}k", 64 + length / 1024))?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Whether a name leads to somewhere in its folder.
fn is_inside(name: &Path) -> bool {
    name.components().all(|part| matches!(part, Component::Normal(_))) && name.file_name().is_some()
}

fn make(folder: BorrowedFd<'_>, name: &Path, file: &Placeholder) -> io::Result<()> {
    let mut above: Vec<&Path> = name.ancestors().skip(1).filter(|path| path.file_name().is_some()).collect();
    above.reverse();
    for path in above {
        make_folder(folder, path)?;
    }
    match file.kind {
        PlaceholderKind::Folder => return make_folder(folder, name),
        PlaceholderKind::Link => {
            let length = usize::try_from(file.size.clamp(1, LONGEST_LINK)).map_err(io::Error::other)?;
            symlinkat("-".repeat(length), folder, name)?;
        }
        PlaceholderKind::File | PlaceholderKind::Program => {
            let mode = if file.kind == PlaceholderKind::Program { Mode::XUSR } else { Mode::empty() };
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            ftruncate(openat(folder, name, flags, mode)?, u64::from(file.size))?;
        }
    }
    let time = Timespec { tv_sec: i64::from(file.modified), tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn make_folder(folder: BorrowedFd<'_>, name: &Path) -> io::Result<()> {
    match mkdirat(folder, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes the file out of a file system that is nowhere. Kernels before 6.15 can do that only where it is somewhere.
fn take_file(folder: &OwnedFd) -> io::Result<OwnedFd> {
    move_mount(folder.as_fd(), "", CWD, BENCH, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let taken = open_tree(CWD, Path::new(BENCH).join(FILE), flags);
    unmount(BENCH, UnmountFlags::DETACH)?;
    Ok(taken?)
}

/// Makes the user `nobody` the owner of the files, so that root's rights do not apply. Only root needs it, and before
/// Linux 6.3 the kernel cannot do it: there root reads zeros.
fn close_to_all(mount: &OwnedFd) {
    // The same for all files of a command.
    static IDS: OnceLock<Option<OwnedFd>> = OnceLock::new();
    if rustix::process::geteuid().is_root()
        && let Some(ids) = IDS.get_or_init(|| ids_without_root().ok())
    {
        let _ = sys::map_mount_ids(mount.as_fd(), ids.as_fd());
    }
}

/// A user namespace that maps one id, and not root's.
fn ids_without_root() -> io::Result<OwnedFd> {
    let (mut made, mut has_made) = io::pipe()?;
    let (mut done, is_done) = io::pipe()?;
    let child = match sys::fork()? {
        Side::Child => {
            drop((made, is_done));
            let entered = enter_user_namespace().and_then(|()| has_made.write_all(&[1]));
            if entered.is_ok() {
                // Until the namespace has been opened.
                let _ = done.read(&mut [0]);
            }
            sys::exit_now(0)
        }
        Side::Parent(child) => child,
    };
    drop((has_made, done));
    let number = child.as_raw_nonzero();
    let opened = made.read_exact(&mut [0]).and_then(|()| {
        fs::write(format!("/proc/{number}/uid_map"), "1 1 1")?;
        fs::write(format!("/proc/{number}/gid_map"), "1 1 1")?;
        fs::File::open(format!("/proc/{number}/ns/user"))
    });
    drop(is_done);
    let _ = waitpid(Some(child), WaitOptions::empty());
    opened.map(OwnedFd::from)
}

#[allow(unsafe_code, reason = "unshare is unsafe for CLONE_FILES, which is not among the flags")]
fn enter_user_namespace() -> io::Result<()> {
    // SAFETY: the descriptors are not shared: the process has one thread.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?)
}
