//! Confines a command by means of the operating system (`docs/sandbox.md`).
//!
//! A command runs below a *helper*: a process of its own, whose program was started with [`HELPER`] as its first argument
//! and called [`run_helper_if_asked`] while it had one thread. The helper makes namespaces, builds the file system that the
//! command may see, drops every right, and starts the command. A program that makes that call first in its `main` can be
//! its own helper ([`own_helper`]).
//!
//! Owns the helper and what the machine offers. Refuses to know agents and permissions: a [`ConfinementPlan`] says what
//! one command may see, change and reach.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg_attr(not(any(target_os = "linux", target_os = "android")), path = "no_namespace.rs")]
mod namespace;
mod namespace_step;
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
pub use control::{Control, END_NOW, HelperReport, SharedNamespaces, command};
pub use namespace::{MountNamespace, can_hold_layers, gain_mounts, may_mount};
pub use namespace_step::NamespaceStep;
pub use plan::{ConfinementPlan, Network, Placeholder, PlaceholderKind, ViewStep, Wall};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use sys::landlock_version;

/// The first argument of the helper.
pub const HELPER: &str = "__sandbox";

/// How many threads this process had at its first call of [`run_helper_if_asked`]; 0 before that.
static THREADS_AT_CALL: AtomicUsize = AtomicUsize::new(0);

/// Whether this program can be its own helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnHelper {
    /// It can: this path leads to it.
    Program(&'static Path),
    /// It has not called [`run_helper_if_asked`].
    NeverCalled,
    /// It called [`run_helper_if_asked`] when it had this many threads. A process with several threads cannot enter a user
    /// namespace, and signals that its first thread waits for go to the others.
    CalledLate {
        /// The number of threads.
        threads: usize,
    },
}

/// Whether this program can be its own helper, as far as it has run.
#[must_use]
pub fn own_helper() -> OwnHelper {
    match THREADS_AT_CALL.load(Ordering::Relaxed) {
        0 => OwnHelper::NeverCalled,
        // The link leads to this program also when its file was replaced meanwhile.
        1 => OwnHelper::Program(Path::new("/proc/self/exe")),
        threads => OwnHelper::CalledLate { threads },
    }
}

/// Becomes the helper if this process was started as one, and never returns then. To be called first in `main`, while
/// the process has one thread: `#[tokio::main]` starts threads before, unless its `flavor` is `current_thread`. A process
/// that has more refuses to be the helper.
pub fn run_helper_if_asked() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        let threads = sys::thread_count();
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next().is_some_and(|first| first == HELPER) {
            helper::run(arguments.collect(), threads);
        }
        // A later call changes nothing: the helper would stop at the first one.
        let _ = THREADS_AT_CALL.compare_exchange(0, threads, Ordering::Relaxed, Ordering::Relaxed);
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
