//! Confines a command by means of the operating system (`docs/spec/bash-and-sandbox.md`).
//!
//! A command runs below a *helper*: this very program, started again with [`HELPER`] as its first argument. The helper
//! makes namespaces, builds the file system that the command may see, drops every right, and starts the command. So a
//! program that uses this crate calls [`run_helper_if_asked`] first in its `main`.
//!
//! Owns the helper and what the machine offers. Refuses to know agents and permissions: a [`Plan`] says what one command
//! may see, change and reach.

use std::ffi::OsString;

mod path_bytes;
mod plan;
pub mod seatbelt;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod control;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod helper;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod sys;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub use control::{Control, END_NOW, Report, Shared, command};
pub use plan::{Network, Placeholder, PlaceholderKind, Plan, Step, Wall};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use sys::landlock_version;

/// The first argument of the helper.
pub const HELPER: &str = "__sandbox";

static CAN_HELP: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// This very program as a helper, if it calls [`run_helper_if_asked`].
#[must_use]
pub fn own_helper() -> Option<&'static std::path::Path> {
    // The link leads to this program also when its file was replaced meanwhile.
    CAN_HELP.load(std::sync::atomic::Ordering::Relaxed).then(|| std::path::Path::new("/proc/self/exe"))
}

/// Becomes the helper if this process was started as one, and never returns then. To be called first in `main`, while
/// the process has one thread.
pub fn run_helper_if_asked() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next().is_some_and(|first| first == HELPER) {
            helper::run(arguments.collect());
        }
        CAN_HELP.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Takes the variables that `is_secret` names out of this process's environment, and gives them back. Afterwards
/// `/proc/PID/environ` shows nothing of the environment that the process was started with, not even to root. To be called
/// first in `main`, while the process has one thread; else, and on systems other than Linux, it changes nothing.
#[must_use]
pub fn take_variables(is_secret: impl Fn(&str) -> bool) -> Vec<(OsString, OsString)> {
    let is_secret = |(name, _): &(OsString, OsString)| name.to_str().is_some_and(&is_secret);
    let (taken, kept): (Vec<_>, Vec<_>) = std::env::vars_os().partition(is_secret);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    // Where it fails, the variables are still there.
    let _ = sys::replace_environment(&kept);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    drop(kept);
    taken
}
