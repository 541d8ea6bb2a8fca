//! Mount namespaces in which threads of this process work: at some places they see something else than the rest of the
//! process does.
//!
//! A mount namespace belongs to a thread, and the threads and processes that it starts inherit it. So several runs of one
//! process can each have a tree of their own at the same path.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{DumpableBehavior, dumpable_behavior, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, UnshareFlags, capabilities, move_into_link_name_space, unshare_unsafe,
};

use crate::helper::{place, view};
use crate::namespace_step::NamespaceStep;
use crate::sys;

impl NamespaceStep {
    fn place(&self) -> &PathBuf {
        match self {
            Self::Bind { place, .. } | Self::Layer { place, .. } => place,
        }
    }

    fn hold(&self) -> Result<OwnedFd, String> {
        let opening = |path: &PathBuf, error: io::Error| format!("{}: {error}", path.display());
        match self {
            Self::Bind { content, read_only, .. } => {
                let mount = place::open(content).and_then(|opened| place::clone_tree(&opened));
                let mount = mount.map_err(|error| opening(content, error))?;
                if *read_only {
                    let attributes = libc::MOUNT_ATTR_RDONLY;
                    let closed = sys::set_mount_attributes(mount.as_fd(), "".as_ref(), attributes, 0, true);
                    closed.map_err(|error| opening(content, error))?;
                }
                Ok(mount)
            }
            Self::Layer { lower, changes, .. } => {
                view::layer(lower, changes, view::Lasting::Durable).map_err(|error| opening(lower, error))
            }
        }
    }
}

/// A mount namespace of this process.
#[derive(Debug)]
pub struct MountNamespace {
    mounts: OwnedFd,
}

impl MountNamespace {
    /// Makes a namespace that is like that of the calling thread but for these steps, which are taken in order. What is mounted
    /// on this machine later is not seen in it.
    ///
    /// # Errors
    /// What could not be done, and why.
    pub fn new(steps: &[NamespaceStep]) -> Result<Self, String> {
        let built = std::thread::scope(|scope| {
            let building = scope.spawn(|| build(steps));
            building.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        built.map(|mounts| Self { mounts })
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// If `/proc` does not show it.
    pub fn current() -> io::Result<Self> {
        File::open("/proc/thread-self/ns/mnt").map(|file| Self { mounts: file.into() })
    }

    /// Has the calling thread, and all that it starts from now on, work in this namespace. Its working directory is then the
    /// root.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn enter(&self) -> io::Result<()> {
        own_folders()?;
        move_into_link_name_space(self.mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
        Ok(())
    }

    /// Does some work in this namespace, on a thread of its own.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let working = scope.spawn(|| self.enter().map(|()| work()));
            working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn build(steps: &[NamespaceStep]) -> Result<OwnedFd, String> {
    let refused = |error: io::Error| format!("the kernel makes no mount namespace: {error}");
    own_folders().map_err(refused)?;
    unshare(UnshareFlags::NEWNS).map_err(refused)?;
    // What is mounted elsewhere must not appear here, nor the reverse.
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private).map_err(|error| refused(error.into()))?;
    let held: Vec<OwnedFd> = steps.iter().map(NamespaceStep::hold).collect::<Result<_, _>>()?;
    for (step, mount) in steps.iter().zip(held) {
        let attach = || place::attach(&mount, &place::open(step.place())?);
        attach().map_err(|error| format!("mounting {}: {error}", step.place().display()))?;
    }
    MountNamespace::current().map(|made| made.mounts).map_err(refused)
}

/// Gives the calling thread its own root and working directory, which the kernel wants of a thread that changes its mounts.
fn own_folders() -> io::Result<()> {
    unshare(UnshareFlags::FS)
}

#[allow(unsafe_code, reason = "unshare is unsafe for CLONE_FILES, which is never among the flags")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the flags concern the thread's own folders and mounts; descriptors stay shared.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Whether threads of this process may make mount namespaces, and come back from them.
#[must_use]
pub fn may_mount() -> bool {
    // Back to one that belongs to a user namespace around this one, no thread comes.
    has_rights() && MountNamespace::current().and_then(|here| here.run(|| ())).is_ok()
}

fn has_rights() -> bool {
    capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_CHROOT))
}

/// Gives this process, which must have one thread, the right to make mount namespaces and to come back from them, where it has
/// not and this machine allows it. Without rights, it enters a user namespace of its own, in which its user and group stay who
/// they are; files of others then seem to be nobody's. Says whether it has the right now.
///
/// # Errors
/// If it entered the namespace and cannot be its user there. It is to end then.
pub fn gain_mounts() -> io::Result<bool> {
    if may_mount() {
        return Ok(true);
    }
    let (uid, gid, is_privileged) = (geteuid().as_raw(), getegid().as_raw(), has_rights());
    let namespaces =
        if is_privileged { UnshareFlags::NEWNS } else { UnshareFlags::NEWUSER | UnshareFlags::NEWNS };
    if sys::thread_count() != 1 || unshare(namespaces).is_err() {
        return Ok(false);
    }
    if !is_privileged {
        // The files below belong to root while others may not look into this process.
        let before = dumpable_behavior()?;
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        let mapped = std::fs::write("/proc/self/setgroups", "deny")
            .and_then(|()| std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")))
            .and_then(|()| std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")));
        set_dumpable_behavior(before)?;
        mapped?;
    }
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::DOWNSTREAM)?;
    Ok(true)
}

/// Whether the file system of a folder can hold the changes of a layer.
///
/// # Errors
/// Why not.
pub fn can_hold_layers(folder: &std::path::Path) -> Result<(), String> {
    let (lower, changes) = (folder.join("trial-lower"), folder.join("trial-changes"));
    let made = std::fs::create_dir_all(&lower).and_then(|()| std::fs::create_dir_all(&changes));
    made.map_err(|error| error.to_string())?;
    let step = NamespaceStep::Layer { place: lower.clone(), lower: lower.clone(), changes: changes.clone() };
    let written = MountNamespace::new(&[step]).and_then(|namespace| {
        let written = namespace.run(|| std::fs::write(lower.join("a"), "")).and_then(|written| written);
        written.map_err(|error| error.to_string())
    });
    let removed = std::fs::remove_dir_all(&lower).and_then(|()| std::fs::remove_dir_all(&changes));
    written.and_then(|()| removed.map_err(|error| error.to_string()))
}
