//! Test support: a scripted model server on loopback.
//!
//! [`ModelServer`] speaks Anthropic's Messages API, Chat Completions and Responses over real HTTP/1.1, all from the same
//! [`Answer`]s. It can misbehave: break off, stall, split bytes anywhere, and send what no server should. It records every
//! request as an [`Exchange`]. First it refuses what the real services refuse ([`service`]), so that no test passes with a
//! request that they would not accept. It runs on threads of its own, so tests need no async runtime, and ends when it is
//! dropped. Not published, and not part of the product.
//!
//! ```
//! use testkit::{Answer, ModelServer};
//! let server = ModelServer::sequence([Answer::overloaded(), Answer::text("hello")]);
//! let base_url = server.claude_url(); // or `openai_url()`, which is that of Responses too
//! # assert!(base_url.starts_with("http://127.0.0.1:"));
//! ```

mod answer;
mod exchange;
mod git;
mod http;
mod picture;
mod processes;
mod render;
mod script;
mod send;
mod server;
pub mod service;
mod temporal;
mod tls;

pub use answer::{
    Answer, AnswerCall, Chunking, Cut, Delivery, ErrorResponse, Framing, LineEnd, Say, Search, SearchPart,
};
pub use exchange::{Asked, Exchange, Who, Wire};
pub use git::{git, git_command, said};
pub use picture::{in_base64, jpeg, png};
pub use processes::processes_in;
pub use script::ScriptedBehaviour;
pub use server::ModelServer;
pub use temporal::TemporalServer;
pub use tls::TlsPort;

/// Says that a test checks nothing here, and why. `.ci/run` sets `RAWKO_NO_SKIP`, which makes it a failure.
///
/// # Panics
/// Where `RAWKO_NO_SKIP` is set.
#[track_caller]
#[allow(clippy::panic)]
pub fn skip(reason: &str) {
    if std::env::var_os("RAWKO_NO_SKIP").is_some() {
        panic!("skipped, which RAWKO_NO_SKIP forbids: {reason}");
    }
    eprintln!("SKIPPED, nothing was checked: {reason}");
}
