//! Anthropic's Messages API (<https://platform.claude.com/docs/en/api/messages>).
//!
//! Owns the provider type and what is particular about the API as a whole: its headers, and which models refuse what.

mod decode;
mod encode;

use std::sync::Arc;

use rawko_core::message::Message;
use rawko_core::request::{ModelRequest, ToolChoice};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue};
use serde_json::Value;

use crate::concession::{Concession, Concessions};
use crate::provider::{ModelList, Provider, ProviderSession};
use crate::remote::{Remote, RemoteSession};
use crate::secret::Secret;
use crate::settings::ProviderSettings;
use crate::wire::{Wire, sensitive};

/// Models reached over Anthropic's Messages API.
pub struct Claude(Arc<Remote<ClaudeWire>>);

impl Claude {
    /// The provider with these settings. Nothing is connected, and nothing loaded, before the first request.
    #[must_use]
    pub fn new(mut settings: ProviderSettings) -> Self {
        // The paths bring their own `v1`; many write it into the base URL as other APIs want it.
        let base = settings.base_url.trim_end_matches('/');
        settings.base_url = base.strip_suffix("/v1").unwrap_or(base).to_owned();
        Self(Remote::new(settings))
    }
}

impl Provider for Claude {
    fn name(&self) -> &str {
        &self.0.settings.name
    }

    fn default_model(&self) -> &str {
        &self.0.settings.default_model
    }

    fn open(&self) -> Box<dyn ProviderSession> {
        Box::new(RemoteSession::new(Arc::clone(&self.0)))
    }

    fn without_secrets(&self, text: &str) -> String {
        self.0.without_secrets(text)
    }

    fn list_models(&self) -> ModelList<'_> {
        Box::pin(self.0.list_models())
    }
}

impl std::fmt::Debug for Claude {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Claude").field(&self.0.settings).finish()
    }
}

/// The format itself.
pub(crate) struct ClaudeWire;

impl Wire for ClaudeWire {
    type Decoder = decode::ClaudeDecoder;

    fn new(_: &ProviderSettings) -> Self {
        Self
    }

    fn messages_path(&self) -> &'static str {
        "v1/messages"
    }

    fn models_path(&self) -> &'static str {
        "v1/models?limit=1000"
    }

    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        if let Some(key) = key {
            headers.insert("x-api-key", sensitive(key.expose())?);
        }
        Ok(headers)
    }

    fn known(&self, request: &ModelRequest) -> Concessions {
        known(request)
    }

    fn head(
        &self,
        request: &ModelRequest,
        without: Concessions,
    ) -> Result<(Vec<u8>, bool), serde_json::Error> {
        encode::head(request, without).map(|head| (head, false))
    }

    fn message(&self, message: &Message) -> Result<Vec<u8>, serde_json::Error> {
        encode::message(message)
    }

    fn decoder(&self, _: &ModelRequest) -> Self::Decoder {
        decode::ClaudeDecoder::default()
    }
}

/// Models that never accept a forced tool, by the beginning of their names.
const NEVER_FORCED: &[&str] = &["claude-opus-5-5", "claude-fable", "claude-mythos"];

/// Models that take no sampling temperature, by the beginning of their names.
const NO_TEMPERATURE: &[&str] = &[
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-haiku-5",
    "claude-fable",
    "claude-mythos",
];

fn known(request: &ModelRequest) -> Concessions {
    let is_one_of = |names: &[&str]| names.iter().any(|name| request.model.starts_with(name));
    let thinks = request
        .extra
        .get("thinking")
        .and_then(|thinking| thinking.get("type"))
        .and_then(Value::as_str)
        .is_some_and(|kind| kind != "disabled");
    let mut without = Concessions::default();
    if matches!(request.tool_choice, ToolChoice::Tool { .. }) && (thinks || is_one_of(NEVER_FORCED)) {
        without = without.with(Concession::NoForcedTool);
    }
    if request.temperature.is_some() && (thinks || is_one_of(NO_TEMPERATURE)) {
        without = without.with(Concession::NoTemperature);
    }
    without
}
