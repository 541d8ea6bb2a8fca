//! Confines a command by means of the operating system (`docs/spec/bash-and-sandbox.md`).
//!
//! A command runs below a *helper*: this very program, started again with [`HELPER`] as its first argument. The helper
//! makes namespaces, builds the file system that the command may see, drops every right, and starts the command. So a
//! program that uses this crate calls [`run_helper_if_asked`] first in its `main`.
//!
//! Owns the helper and what the machine offers. Refuses to know agents and permissions: a [`Plan`] says what one command
//! may see, change and reach.

mod path_bytes;
mod plan;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod control;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod helper;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod sys;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub use control::{Control, Report, Shared, command};
pub use plan::{Network, Plan, Step};

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
