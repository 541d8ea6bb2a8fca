//! rawko as a server of the Model Context Protocol, over stdio and streamable HTTP.
//!
//! Another program's agent starts a task, watches it, steers it, answers for calls that wait, and looks at what came of it.
//! All of it goes through the SDK: a run that is begun here is an ordinary session, which `rawko watch`, `steer` and
//! `resume` of another terminal see.
//!
//! The server serves one project. It knows no terminal and no arguments: the command line gives it a builder, and words
//! for errors. What a client may ask for is never more than what the project's agents and the user's limits allow
//! (ADR 100).

mod bounded;
mod ending;
mod follow;
mod handler;
mod http;
mod project;
mod runs;
mod schema;
mod server;
mod stdio;
mod tools;

pub use http::{HttpServer, HttpServerOptions, McpToken, McpTokenError};
pub use project::{ErrorWords, ServedProject, ToolProblem};
pub use server::RawkoServer;
pub use stdio::StdioEnd;
