//! Model providers: HTTP, TLS, server-sent events, keys and wire formats (`spec/providers.md`).
//!
//! The only crate that holds a key. It knows nothing of tools, of the project's files, or of the machine.

mod provider;

pub use provider::{EventStream, Provider, ProviderEvent, ProviderSession};
