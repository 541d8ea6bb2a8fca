//! ACP agents in rawko's team (`docs/acp-agents.md`): the client half of the protocol, version 1.
//!
//! Owns the conversation with one agent's program. It offers the program no files and no terminals: it has its own, inside
//! the sandbox that `rawko` puts around it.

mod lines;
mod message;
mod unread;
mod work;

use rawko::BoxFuture;
use rawko::outside::{OutsideAgents, OutsideTask, OutsideWork};
use tokio::net::UnixStream;

/// Speaks the Agent Client Protocol with the programs of outside agents.
#[derive(Debug, Clone, Copy, Default)]
pub struct AcpAgents;

impl OutsideAgents for AcpAgents {
    fn work(&self, line: UnixStream, task: OutsideTask) -> BoxFuture<'_, OutsideWork> {
        Box::pin(work::work(line, task))
    }
}
