//! Child processes on behalf of an agent: started with a clean environment, read with bounded memory, and ended
//! with everything they started.

mod environment;
mod family;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod mark;
mod output;
mod run;

pub(crate) use environment::environment;
pub use environment::looks_like_secret;
pub(crate) use output::HeadAndTail;
pub(crate) use run::{Cause, CommandLine, Finished, Leash, run};
