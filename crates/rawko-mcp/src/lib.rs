//! A client of Model Context Protocol servers (`docs/mcp.md`).
//!
//! Owns the protocol: both eras of it (the stateful revisions that begin with `initialize`, and 2026-07-28, which has no
//! handshake), over a stream of lines or streamable HTTP, with OAuth. Refuses to know agents, permissions, providers and
//! processes: the caller starts a server and decides who may call what.

mod answer;
mod bounded;
mod call;
mod connection;
mod error;
mod handler;
mod http;
mod mend;
mod oauth;
mod pages;
mod person;

pub use answer::{Answer, Picture};
pub use connection::{
    Connection, ListedTool, Options, PromptInfo, ProtocolRevision, ResourceInfo, Tools, UnusableTool,
};
pub use error::McpError;
pub use http::{Client, HttpServer};
pub use oauth::{Credentials, Login, StoreCredentials, login};
pub use person::{AskPerson, Question, Reply};
