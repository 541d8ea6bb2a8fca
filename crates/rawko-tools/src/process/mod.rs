//! Child processes on behalf of an agent: started with a clean environment, read with bounded memory, and ended
//! with everything they started.

mod environment;
mod family;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod lifeline;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod mark;
mod output;
mod run;

pub(crate) use environment::environment;
pub use environment::looks_like_secret;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use lifeline::Lifeline;
pub(crate) use output::HeadAndTail;
pub(crate) use run::{Cause, CommandLine, Finished, Leash, run};

/// There is none here: see `lifeline.rs`.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug, Clone, Default)]
pub(crate) struct Lifeline;
