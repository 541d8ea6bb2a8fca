//! rawko as an agent of the Agent Client Protocol (`docs/acp.md`): editors and other clients give it tasks.
//!
//! An ACP session **is** a rawko session, with the same id: the first prompt begins it, each further one is its next task.
//! This module translates. It decides nothing about a run, and knows neither the terminal nor how a project is found: the
//! program that serves says so with an [`AgentHost`].
//!
//! ```text
//! lines      standard input and output, bounded
//! server     requests ─▶ sessions, and the end of everything when the client is gone
//! session    what is known of an open session; its turn
//! turn       one prompt: input ─▶ run ─▶ updates ─▶ stop reason
//! input      what a client gives ─▶ task and attachments
//! updates    events of a run, live or recorded ─▶ what a client shows
//! ```

mod fault;
mod history;
mod host;
mod input;
mod lines;
mod listing;
mod mode;
mod outbox;
mod permission;
mod server;
mod servers;
mod session;
mod tool_calls;
mod turn;
mod updates;

pub use fault::AcpFault;
pub use host::AgentHost;
pub use server::serve;
