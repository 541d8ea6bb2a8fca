//! Builds the file system that the command sees.
//!
//! What the steps show is opened before anything is covered, and everything is made read-only at once. A command can
//! neither unmount nor remount what is built here: it has no capability, and Landlock denies both.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, symlinkat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount, mount_change,
    move_mount,
};
use rustix::process::{chdir, fchdir};

use super::{StepResult, during, place, placeholder};
use crate::plan::{ConfinementPlan, ViewStep};
use crate::sys::set_mount_attributes;

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NO_SETUID: u64 = libc::MOUNT_ATTR_NOSUID;

/// The devices of a command.
const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];
/// Folders of `/run` that hold programs and settings, and no sockets.
const KEPT_OF_RUN: [&str; 2] = ["/run/current-system", "/run/wrappers"];

/// A mount that is not yet anywhere, and the place where it belongs.
struct DetachedMount {
    mount: OwnedFd,
    place: PathBuf,
}

/// Builds what all commands with this base see, in the mount namespace of this process.
pub(super) fn build_base(plan: &ConfinementPlan) -> StepResult<()> {
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    during("separating the mounts", mount_change("/", private))?;
    let steps = plan.base.iter().map(hold).collect::<StepResult<Vec<_>>>()?;
    let devices = DEVICES.iter().map(|name| Path::new("/dev").join(name)).filter(|path| path.exists());
    let devices = devices.map(|path| cloned(&path)).collect::<StepResult<Vec<_>>>()?;
    let kept = KEPT_OF_RUN.iter().map(Path::new).filter(|path| path.is_dir());
    let kept = kept.map(cloned).collect::<StepResult<Vec<_>>>()?;
    let temporary = [Path::new("/tmp"), Path::new("/var/tmp")].into_iter().filter(|path| path.is_dir());
    let temporary = temporary
        .map(|place| {
            let mount = clone_tree(&plan.temporary)?;
            set_attributes(&mount, NO_SETUID, place)?;
            Ok(DetachedMount { mount, place: place.to_owned() })
        })
        .collect::<StepResult<Vec<_>>>()?;

    let root = set_mount_attributes(CWD, Path::new("/"), READ_ONLY | NO_SETUID, 0, true);
    during("making the file system read-only", root)?;
    let mut covers = Vec::new();
    if Path::new("/run").is_dir() {
        cover(Path::new("/run"), &mut covers)?;
        kept.into_iter().try_for_each(put)?;
    }
    temporary.into_iter().try_for_each(put)?;
    own_devices(devices)?;
    for (step, held) in plan.base.iter().zip(steps) {
        match (step, held) {
            (ViewStep::Cover(place), _) => cover(place, &mut covers)?,
            (ViewStep::Link { place, target }, _) => link(place, target)?,
            (ViewStep::Pin(place), _) => {
                make_folder(place)?;
                narrow(step)?;
            }
            (
                ViewStep::Hide(_)
                | ViewStep::Protect(_)
                | ViewStep::Placeholders { .. }
                | ViewStep::Text { .. },
                _,
            ) => {
                narrow(step)?;
            }
            (ViewStep::Show(place), Some(held)) => {
                read_only(&held.mount, place)?;
                put(held)?;
            }
            (_, Some(held)) => put(held)?,
            (_, None) => {}
        }
    }
    for DetachedMount { mount, place } in covers {
        // By its descriptor: something else may cover its place by now.
        let result = set_mount_attributes(mount.as_fd(), Path::new(""), READ_ONLY, 0, false);
        during(format!("closing {}", place.display()), result)?;
    }
    Ok(())
}

/// Changes a copy of the base into what one command sees.
pub(super) fn build(plan: &ConfinementPlan) -> StepResult<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    during("mounting /proc", mount("proc", "/proc", "proc", flags, None))?;
    if has_own_pid_max() {
        // Holds root too, whom the limit of processes does not. What the kernel reserves cannot be taken away.
        let most = plan.max_processes.max(LEAST_PID_MAX).to_string();
        during("limiting the processes", fs::write("/proc/sys/kernel/pid_max", most))?;
    }
    plan.view.iter().try_for_each(narrow)?;
    during("closing /proc", set_mount_attributes(CWD, Path::new("/proc"), READ_ONLY, 0, false))
}

/// The kernel's least `pid_max`.
const LEAST_PID_MAX: u64 = 301;

/// Whether each process namespace has a `pid_max` of its own, since Linux 6.14. Before, there is one for the whole machine.
fn has_own_pid_max() -> bool {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (6, 14))
}

/// Takes something away from what is seen.
fn narrow(step: &ViewStep) -> StepResult<()> {
    match step {
        ViewStep::Hide(place) => hide(place),
        ViewStep::Placeholders { place, files } => {
            let made = placeholder::stand_in(place, files);
            put_if_made(place, during(format!("hiding {}", place.display()), made)?)
        }
        ViewStep::Text { place, content } => {
            let made = placeholder::text(place, content);
            put_if_made(place, during(format!("replacing {}", place.display()), made)?)
        }
        ViewStep::Pin(place) => put(cloned(place)?),
        ViewStep::Protect(place) => {
            let held = cloned(place)?;
            read_only(&held.mount, place)?;
            put(held)
        }
        ViewStep::Cover(place)
        | ViewStep::Show(place)
        | ViewStep::Grant(place)
        | ViewStep::Layer { folder: place, .. }
        | ViewStep::Private { place, .. }
        | ViewStep::Link { place, .. } => Err(format!("{} belongs to the base", place.display())),
    }
}

/// Opens what a step shows, before anything is covered.
fn hold(step: &ViewStep) -> StepResult<Option<DetachedMount>> {
    match step {
        ViewStep::Show(place) | ViewStep::Grant(place) => {
            let held = cloned(place)?;
            set_attributes(&held.mount, NO_SETUID, place)?;
            Ok(Some(held))
        }
        ViewStep::Layer { folder, changes } => {
            let mount =
                during(format!("layering {}", folder.display()), layer(folder, changes, Lasting::Volatile))?;
            Ok(Some(DetachedMount { mount, place: folder.clone() }))
        }
        ViewStep::Private { place, content } => {
            let mount = clone_tree(content)?;
            set_attributes(&mount, NO_SETUID, place)?;
            Ok(Some(DetachedMount { mount, place: place.clone() }))
        }
        ViewStep::Cover(_)
        | ViewStep::Link { .. }
        | ViewStep::Protect(_)
        | ViewStep::Pin(_)
        | ViewStep::Hide(_)
        | ViewStep::Placeholders { .. }
        | ViewStep::Text { .. } => Ok(None),
    }
}

fn cloned(place: &Path) -> StepResult<DetachedMount> {
    Ok(DetachedMount { mount: clone_tree(place)?, place: place.to_owned() })
}

fn clone_tree(place: &Path) -> StepResult<OwnedFd> {
    let cloned = place::open(place).and_then(|opened| place::clone_tree(&opened));
    during(format!("opening {}", place.display()), cloned)
}

/// Whether the changes of a layer are there after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    Durable,
    /// They end with the run.
    Volatile,
}

/// An overlay file system: `folder`, and the changes over it. The thread's working directory is then the root.
pub(crate) fn layer(folder: &Path, changes: &Path, lasting: Lasting) -> io::Result<OwnedFd> {
    // An overlay is made of paths, and this one names what was opened.
    fchdir(place::open(folder)?)?;
    let made = overlay(Path::new("."), changes, lasting);
    chdir("/")?;
    made
}

fn overlay(folder: &Path, changes: &Path, lasting: Lasting) -> io::Result<OwnedFd> {
    let (upper, work) = (changes.join("upper"), changes.join("work"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    // Left by an earlier mount that was volatile, and refused by the next.
    let _ = fs::remove_dir_all(work.join("work/incompat"));
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "lowerdir", folder)?;
    fsconfig_set_string(context.as_fd(), "upperdir", &upper)?;
    fsconfig_set_string(context.as_fd(), "workdir", &work)?;
    fsconfig_set_flag(context.as_fd(), "userxattr")?;
    if lasting == Lasting::Volatile {
        // Without it, the end of the mount writes out all that anybody has changed on the disk.
        fsconfig_set_flag(context.as_fd(), "volatile")?;
    }
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// An empty file system in memory.
pub(super) fn memory(is_closed: bool) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), "mode", "0755")?;
    fsconfig_set_string(context.as_fd(), "size", "64k")?;
    fsconfig_create(context.as_fd())?;
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    if is_closed {
        attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Lays an empty folder over `place`. It stays open for later steps until `covers` are closed.
fn cover(place: &Path, covers: &mut Vec<DetachedMount>) -> StepResult<()> {
    let covering = || format!("covering {}", place.display());
    let opened = match place::open_or_make(place, FileType::Directory) {
        // A folder that is gone, where nothing can be made, needs no cover.
        Err(error) if error.kind() == std::io::ErrorKind::ReadOnlyFilesystem => return Ok(()),
        opened => during(covering(), opened)?,
    };
    let mount = during(covering(), memory(false))?;
    during(covering(), place::attach(&mount, &opened))?;
    covers.push(DetachedMount { mount, place: place.to_owned() });
    Ok(())
}

fn link(place: &Path, target: &Path) -> StepResult<()> {
    if fs::symlink_metadata(place).is_ok() {
        return Ok(());
    }
    let above = place.parent().unwrap_or(place);
    let made = place::open_or_make(above, FileType::Directory)
        .and_then(|above| Ok(symlinkat(target, above, place.file_name().unwrap_or_default())?));
    during(format!("linking {}", place.display()), made)
}

/// Makes a folder if it is missing. A link in its place could lead what is mounted below to somewhere else.
fn make_folder(place: &Path) -> StepResult<()> {
    let opened = place::open_or_make(place, FileType::Directory);
    match during(format!("making {}", place.display()), opened.and_then(|opened| place::kind_of(&opened)))? {
        FileType::Directory => Ok(()),
        _ => Err(format!("{} was replaced by something that is no folder", place.display())),
    }
}

/// Empties a file or a folder.
fn hide(place: &Path) -> StepResult<()> {
    let hiding = || format!("hiding {}", place.display());
    // A place that is gone, or was never there, needs no hiding.
    let Some(opened) = during(hiding(), place::open_if_there(place))? else { return Ok(()) };
    let mount = match during(hiding(), place::kind_of(&opened))? {
        FileType::Directory => during(hiding(), memory(true))?,
        // A link cannot be covered; what it leads to is hidden for itself.
        FileType::Symlink => return Ok(()),
        _ => clone_tree(Path::new("/dev/null"))?,
    };
    read_only(&mount, place)?;
    during(hiding(), place::attach(&mount, &opened))
}

/// Lays something made for the command over `place`, for reading only.
fn put_if_made(place: &Path, made: Option<OwnedFd>) -> StepResult<()> {
    let Some(mount) = made else { return Ok(()) };
    read_only(&mount, place)?;
    put(DetachedMount { mount, place: place.to_owned() })
}

/// Attaches a mount at its place, which is created if it is in a covered folder.
fn put(held: DetachedMount) -> StepResult<()> {
    attach(&held.mount, &held.place)
}

fn attach(mount: &OwnedFd, place: &Path) -> StepResult<()> {
    let opened = place::kind_of(mount).and_then(|kind| place::open_or_make(place, kind));
    let opened = during(format!("making {}", place.display()), opened)?;
    during(format!("mounting {}", place.display()), place::attach(mount, &opened))
}

fn read_only(mount: &OwnedFd, place: &Path) -> StepResult<()> {
    set_attributes(mount, READ_ONLY | NO_SETUID, place)
}

fn set_attributes(mount: &OwnedFd, attributes: u64, place: &Path) -> StepResult<()> {
    let result = set_mount_attributes(mount.as_fd(), Path::new(""), attributes, 0, true);
    during(format!("closing {}", place.display()), result)
}

/// `/dev` with what every program may use, and nothing else of this machine.
fn own_devices(devices: Vec<DetachedMount>) -> StepResult<()> {
    let dev = Path::new("/dev");
    let empty = during("covering /dev", memory(false))?;
    let folder = empty.as_fd();
    let made = move_mount(folder, "", CWD, dev, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
    during("mounting /dev", made)?;
    devices.into_iter().try_for_each(put)?;
    let links = [
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
        ("ptmx", "pts/ptmx"),
    ];
    for (name, target) in links {
        during(format!("making /dev/{name}"), symlink(target, dev.join(name)))?;
    }
    for (name, kind, data) in
        [("pts", "devpts", c"newinstance,ptmxmode=0666,mode=620"), ("shm", "tmpfs", c"mode=1777")]
    {
        let place = dev.join(name);
        during(format!("making /dev/{name}"), fs::create_dir(&place))?;
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        during(format!("mounting /dev/{name}"), mount(kind, &place, kind, flags, Some(data)))?;
    }
    during("closing /dev", set_mount_attributes(CWD, dev, READ_ONLY, 0, false))
}
