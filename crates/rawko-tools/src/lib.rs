//! Built-in tools: file access and child processes on behalf of an agent (`spec/tools-and-permissions.md`).
//!
//! The only crate that touches the project for an agent. It knows nothing of providers and holds no key.

mod tool;

pub use tool::{BoxFuture, Tool, ToolContext};
