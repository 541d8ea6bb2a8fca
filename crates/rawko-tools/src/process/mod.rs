//! Runs child processes for agents: with a clean environment, with bounded memory for their output, and ended together
//! with everything they started.

mod command;
mod environment;
mod kill_handle;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod orphan_reaper;
mod output;
mod pipe_status;
mod registry;
mod run;
mod scope;
mod stream;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod survivors;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod tag;
mod tree;
mod unattended;

pub use command::shell;
pub(crate) use command::{CommandLine, Invocation, OutputStream};
pub(crate) use environment::environment;
pub use environment::{looks_like_secret, take_secret_variables};
pub(crate) use kill_handle::{KillHandle, KillOnDrop};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use orphan_reaper::OrphanReaper;
pub(crate) use output::HeadAndTail;
pub(crate) use pipe_status::is_recorded;
pub use registry::{LeftOpen, kill_all_now, settle, settle_run};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use run::HelperProcess;
pub(crate) use run::{Cause, Finished, RunningCommand};
pub use scope::RunScope;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use survivors::{command_mark, end_survivors};
pub use unattended::on_thread;

/// Does nothing on this system: see `orphan_reaper.rs`.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug, Clone, Default)]
pub(crate) struct OrphanReaper;

/// A process that outlived the one that started its command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survivor {
    /// Its process id.
    pub process: u32,
    /// Its command line; the beginning of a long one.
    pub command: String,
}

/// No process is found on this system: see `survivors.rs`.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod no_survivors {
    use super::Survivor;

    /// Commands carry no mark on this system.
    #[must_use]
    pub fn command_mark() -> Option<u64> {
        None
    }

    /// Finds nothing on this system.
    #[must_use]
    pub fn end_survivors(_: u64) -> Vec<Survivor> {
        Vec::new()
    }
}
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub use no_survivors::{command_mark, end_survivors};
