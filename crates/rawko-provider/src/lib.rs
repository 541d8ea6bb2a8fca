//! Model providers: HTTP, TLS, server-sent events, keys and wire formats (`docs/providers.md`).
//!
//! The only crate that holds a key, but for `rawko-copilot`, which hands one to GitHub's program. It knows nothing of tools, of the project's files, or of the machine.
//!
//! ```text
//! Provider ◀── http (only with the feature `http`: all services that are asked over it)
//!    ▲──────── scripted (no network)
//!    └──────── conformance (what any provider has to do)
//! ```

mod classify;
pub mod conformance;
// Parts of both are for wire formats alone.
#[cfg_attr(not(feature = "http"), expect(dead_code))]
mod draft;
#[cfg(feature = "http")]
pub mod http;
#[cfg_attr(not(feature = "http"), expect(dead_code))]
pub mod json;
mod placeholder;
pub mod preset;
mod provider;
pub mod scripted;
mod secret;
mod settings;

pub use classify::{NO_CREDIT, error_code};
pub use draft::{Events, MessageDraft};
#[cfg(feature = "http")]
pub use http::connect;
pub use placeholder::is_worth_hiding;
pub use provider::{EventStream, ModelInfo, ModelList, Provider, ProviderEvent, ProviderSession};
pub use scripted::{Script, Scripted};
pub use secret::{REDACTED, Secret, without};
pub use settings::{ProviderKind, ProviderSettings, Timeouts};
