//! Sources of model answers: what a provider of your own implements, those that are built in, and scripts for tests.

pub use rawko_core::retry::{GiveUp, RetryDecision, RetryPolicy};
pub use rawko_provider::scripted::{ScriptPlayer, ScriptedCall, ScriptedError, ScriptedReply};
pub use rawko_provider::{
    EventStream, Events, MessageDraft, ModelInfo, ModelList, NO_CREDIT, Provider, ProviderEvent,
    ProviderKind, ProviderSession, ProviderSettings, REDACTED, Script, Scripted, Secret, Timeouts,
    error_code, is_worth_hiding, without,
};
pub use rawko_provider::{conformance, json, preset, scripted};
#[cfg(feature = "http")]
pub use rawko_provider::{connect, http};
