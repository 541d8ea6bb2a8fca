//! Model providers: HTTP, TLS, server-sent events, keys and wire formats (`docs/providers.md`).
//!
//! The only crate that holds a key, but for `rawko-copilot`, which hands one to GitHub's program. It knows nothing of tools, of the project's files, or of the machine.
//!
//! ```text
//! HttpProvider<W> ─▶ service (shared by all sessions) ─▶ session (one conversation) ─▶ call (one request)
//!                      │                                 │                             │
//!                      └─ http, wire formats W           └─ encoded, pictures          └─ sse, draft, failure, concession
//! W = ClaudeWire | OpenAiWire | ResponsesWire
//! Scripted (no network)
//! ```

mod call;
mod claude;
mod concession;
pub mod conformance;
mod draft;
mod encoded;
mod failure;
pub mod http;
mod ids;
pub mod json;
mod openai;
mod pictures;
mod placeholder;
pub mod preset;
mod provider;
mod responses;
mod schema;
pub mod scripted;
mod secret;
mod service;
mod session;
mod settings;
mod sse;
mod unzip;
mod wire;

pub use draft::{Events, MessageDraft};
pub use failure::{NO_CREDIT, error_code};
pub use placeholder::is_worth_hiding;
pub use provider::{EventStream, ModelInfo, ModelList, Provider, ProviderEvent, ProviderSession};
pub use scripted::{Script, Scripted};
pub use secret::{REDACTED, Secret, without};
pub use settings::{ProviderKind, ProviderSettings, Timeouts};

use std::sync::Arc;

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
