//! The few system calls for which `rustix` has no safe function.
#![allow(unsafe_code, reason = "each call is explained where it is made")]

use std::ffi::{CString, OsString, c_char};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::Pid;

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// How many threads this process has. Where `/proc` does not say, it counts as one: what needs that fails then.
pub(crate) fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, |tasks| tasks.count().max(1))
}

/// Replaces the environment by `kept`, and overwrites the old one where `/proc/PID/environ` shows it.
///
/// # Errors
/// If other threads may be reading it. Nothing is changed then.
pub(crate) fn replace_environment(kept: &[(OsString, OsString)]) -> io::Result<()> {
    if thread_count() != 1 {
        return Err(io::Error::other("other threads are running"));
    }
    // SAFETY: this is the only thread, so nothing else reads or changes the variables. `environ` is a list of C strings
    // with a null at its end. They are in memory that this process may write, and no longer used after `clearenv`; those
    // that the dynamic linker and the allocator may have kept pointers to are left alone.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            let variable = std::ffi::CStr::from_ptr(*at).to_bytes();
            let length = variable.len();
            if !["LD_", "GLIBC_", "MALLOC_"].iter().any(|begin| variable.starts_with(begin.as_bytes())) {
                std::ptr::write_bytes(*at, 0, length);
            }
            at = at.add(1);
        }
        libc::clearenv();
        for (name, value) in kept {
            std::env::set_var(name, value);
        }
    }
    Ok(())
}

/// Which side of a fork this is.
pub(crate) enum Side {
    Parent(Pid),
    Child,
}

/// Forks. The caller must be the only thread of its process.
pub(crate) fn fork() -> io::Result<Side> {
    // SAFETY: the helper has one thread, so no lock can be held by a thread that the child lacks.
    let pid = check(unsafe { libc::fork() }.into())?;
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    Ok(Pid::from_raw(pid).map_or(Side::Child, Side::Parent))
}

/// Ends the process without running anything else.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: no memory is involved.
    unsafe { libc::_exit(code) }
}

/// Sends a signal to every process that this one may signal, but itself and the first of its namespace.
pub(crate) fn signal_all(signal: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::kill(-1, signal) }.into()).map(drop)
}

/// Blocks these signals and returns a descriptor that can be read when one of them arrives.
pub(crate) fn signal_fd(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: `set` is initialised by sigemptyset before it is used; the descriptor that is returned is ours alone.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()).into())?;
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        check(fd.into())?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Has no program that this process starts inherit anything but the three standard streams.
pub(crate) fn close_on_exec() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(number) = number.filter(|number| *number > libc::STDERR_FILENO) {
            // SAFETY: the call changes a flag of a descriptor that is open, and no memory.
            check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) }.into())?;
        }
    }
    Ok(())
}

/// Has the command begin with no signal blocked: it would inherit what [`signal_fd`] blocks.
pub(crate) fn with_open_signals(command: &mut Command) {
    let unblock = || {
        // SAFETY: `set` is initialised by sigemptyset before it is used.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            check(libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()).into()).map(drop)
        }
    };
    // SAFETY: between fork and exec it makes system calls only.
    unsafe {
        command.pre_exec(unblock);
    }
}

/// The next signal that has arrived, if there is one.
pub(crate) fn next_signal(fd: &OwnedFd) -> Option<i32> {
    let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(fd, &mut info).ok()?;
    // The number is the first field.
    let number = info.get(..4).filter(|_| read == info.len())?;
    i32::try_from(u32::from_ne_bytes(number.try_into().ok()?)).ok()
}

/// Sets and clears attributes of the mount at `path`, and with `is_recursive` of all below it.
pub(crate) fn set_mount_attributes(
    directory: BorrowedFd<'_>,
    path: &Path,
    set: u64,
    clear: u64,
    is_recursive: bool,
) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    mount_setattr(directory, path, &attributes, is_recursive)
}

/// Has the owners of files in a mount that is nowhere yet be what a user namespace maps them to.
pub(crate) fn map_mount_ids(mount: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let userns_fd = u64::try_from(user_namespace.as_raw_fd()).map_err(io::Error::other)?;
    let attributes =
        libc::mount_attr { attr_set: libc::MOUNT_ATTR_IDMAP, attr_clr: 0, propagation: 0, userns_fd };
    mount_setattr(mount, Path::new(""), &attributes, false)
}

fn mount_setattr(
    directory: BorrowedFd<'_>,
    path: &Path,
    attributes: &libc::mount_attr,
    is_recursive: bool,
) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut flags = libc::AT_SYMLINK_NOFOLLOW;
    if is_recursive {
        flags |= libc::AT_RECURSIVE;
    }
    if path.is_empty() {
        flags |= libc::AT_EMPTY_PATH;
    }
    // SAFETY: the path ends in a NUL, and the size is that of the structure.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            directory.as_raw_fd(),
            path.as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    check(result).map(drop)
}

/// The version of Landlock that the kernel has; 0 where it has none.
#[must_use]
pub fn landlock_version() -> i32 {
    const VERSION: libc::c_long = 1;
    // SAFETY: with this flag the call takes no memory.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0_usize, 0_usize, VERSION) };
    i32::try_from(version).unwrap_or(0).max(0)
}

/// Brings the loopback interface up.
pub(crate) fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: `request` is a plain structure for which zeroes are valid; the name fits and ends in a NUL.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(1);
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &raw const request).into())
            .map(drop)
    }
}
