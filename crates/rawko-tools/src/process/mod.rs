//! Child processes on behalf of an agent: started with a clean environment, read with bounded memory, and ended
//! with everything they started.

mod command;
mod environment;
mod family;
mod leash;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod lifeline;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod mark;
mod output;
mod roster;
mod run;
mod stream;

pub use command::shell;
pub(crate) use command::{CommandLine, Program, Source};
pub(crate) use environment::environment;
pub use environment::looks_like_secret;
pub(crate) use leash::{Leash, PullOnDrop};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use lifeline::Lifeline;
pub(crate) use output::HeadAndTail;
pub use roster::{kill_all_now, settle};
pub(crate) use run::{Cause, Finished, Running};

/// There is none here: see `lifeline.rs`.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug, Clone, Default)]
pub(crate) struct Lifeline;
