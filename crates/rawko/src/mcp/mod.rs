//! Servers of tools (MCP) in a run: `docs/mcp.md`.
//!
//! Owns what becomes of a configured server: its definition with variables filled in, the approval of what it lists, its
//! start when it is first needed, and its tools. The protocol is in `rawko-mcp`; starting and confining a program is
//! `rawko-tools`'. Without the feature `mcp`, `without_mcp.rs` is in its place.

mod approval;
mod configured;
mod credentials;
mod filled;
mod live;
mod names;
mod report;
mod server;
mod tool;

pub use report::{McpChange, McpCheck, McpState};
pub use server::McpHandle;
