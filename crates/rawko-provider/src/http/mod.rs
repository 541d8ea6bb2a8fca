//! Models that are asked over HTTP, and the client that whatever else of rawko speaks HTTP builds on.
//!
//! ```text
//! HttpProvider<W> ─▶ service (shared by all sessions) ─▶ session (one conversation) ─▶ call (one request)
//!                      │                                 │                             │
//!                      └─ connection, wire formats W     └─ encoded, pictures          └─ sse, failure, concession
//! W = ClaudeWire | OpenAiWire | ResponsesWire
//! ```

mod call;
mod claude;
mod concession;
mod connection;
mod encoded;
mod endpoint;
mod failure;
mod ids;
mod openai;
mod pictures;
mod responses;
mod schema;
mod service;
mod session;
mod sse;
mod unzip;
mod wire;

use std::sync::Arc;

pub use connection::*;

use crate::provider::Provider;
use crate::settings::{ProviderKind, ProviderSettings};
use claude::ClaudeWire;
use openai::OpenAiWire;
use responses::ResponsesWire;
use service::HttpProvider;

/// Creates the provider that `settings` describe.
#[must_use]
pub fn connect(settings: ProviderSettings) -> Arc<dyn Provider> {
    match settings.kind {
        ProviderKind::Claude => Arc::new(HttpProvider::<ClaudeWire>::new(settings)),
        ProviderKind::OpenAi => Arc::new(HttpProvider::<OpenAiWire>::new(settings)),
        ProviderKind::Responses => Arc::new(HttpProvider::<ResponsesWire>::new(settings)),
    }
}
