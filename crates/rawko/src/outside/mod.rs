//! Agents whose work another program does (`docs/acp-agents.md`).
//!
//! Owns the program's process, what it may touch, and the answers to what it asks. How it is spoken with is up to an
//! implementation of [`OutsideAgents`], which knows nothing of processes and permissions.

mod perform;
mod refusal;

use std::path::PathBuf;
use std::sync::Arc;

pub use rawko_core::agent::AcpProgram;
pub use rawko_core::agent::outside::{
    OutsideAct, OutsideAsked, OutsideEnd, OutsideStop, OutsideUse, OutsideWork,
};
use rawko_tools::BoxFuture;
use tokio::net::UnixStream;

pub(crate) use perform::{OutsidePerformer, OutsidePlace};

/// Speaks with the programs of outside agents.
pub trait OutsideAgents: Send + Sync {
    /// Has the program at the other end of `line` carry out one task, to its end. Whatever goes wrong is an
    /// [`OutsideEnd::Failed`]. What it asked for and how long it took is added by the caller. The future is dropped when
    /// the work has to stop.
    fn work(&self, line: UnixStream, task: OutsideTask) -> BoxFuture<'_, OutsideWork>;
}

/// One execution of an outside agent.
#[derive(Clone)]
pub struct OutsideTask {
    /// All that the agent is given.
    pub prompt: String,
    /// Where it works.
    pub directory: PathBuf,
    /// Hears what it says, and answers what it asks.
    pub watcher: Arc<dyn OutsideWatcher>,
}

/// Hears what an outside agent says while it works.
pub trait OutsideWatcher: Send + Sync {
    /// A piece of its text.
    fn said(&self, text: &str);

    /// Whether it may do this. `title` is the act in its own words.
    fn may(&self, act: OutsideAct, title: &str) -> bool;
}
