//! Anthropic's Messages API (<https://platform.claude.com/docs/en/api/messages>).
//!
//! Owns what applies to the API as a whole: its headers, and which models refuse what.

mod decode;
mod encode;

use std::sync::Arc;

use rawko_core::message::Message;
use rawko_core::models::{self, LeastThinking, ModelFacts, VendorWire, When};
use rawko_core::request::{ModelRequest, ToolChoice};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue};
use serde_json::Value;

use crate::http::concession::{Concession, Concessions};
use crate::http::pictures::NamedPicture;
use crate::http::wire::{WireFormat, sensitive};
use crate::secret::Secret;
use crate::settings::ProviderSettings;

/// The wire format of the Messages API.
pub(crate) struct ClaudeWire;

impl WireFormat for ClaudeWire {
    type Decoder = decode::ClaudeDecoder;

    fn new(_: &ProviderSettings) -> Self {
        Self
    }

    fn base_url(base: &str) -> &str {
        // The paths contain `v1` themselves; many people write it into the base URL, as other APIs want it.
        let base = base.trim_end_matches('/');
        base.strip_suffix("/v1").unwrap_or(base)
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

    fn message(&self, message: &Message, without: Concessions) -> Result<Vec<u8>, serde_json::Error> {
        encode::message(message, without)
    }

    fn marked(
        &self,
        messages: &[Arc<Message>],
        without: Concessions,
    ) -> Result<Option<(usize, Vec<u8>)>, serde_json::Error> {
        if without.has(Concession::NoAutomaticCache) { Ok(None) } else { encode::marked(messages, without) }
    }

    fn picture_named(&self, words: &str, messages: &[Arc<Message>]) -> Option<NamedPicture> {
        encode::picture_named(words, messages)
    }

    fn decoder(&self, request: &ModelRequest) -> Self::Decoder {
        decode::ClaudeDecoder::new(&request.messages)
    }
}

/// The concessions that the model of `request` is known to need.
fn known(request: &ModelRequest) -> Concessions {
    let model = models::find(&request.model);
    let thinks = thinks(request, &model);
    // Models of other vendors on this wire are treated like Anthropic's older ones.
    let refused = |when: Option<When>| !when.unwrap_or(When::WithoutThinking).allows(thinks);
    let mut without = Concessions::default();
    if matches!(request.tool_choice, ToolChoice::Tool { .. }) && refused(model.forced_tools) {
        without = without.with(Concession::NoForcedTool);
    }
    if request.temperature.is_some() && refused(model.temperature) {
        without = without.with(Concession::NoTemperature);
    }
    if request.search.is_none() {
        without = without.with(Concession::NoSearch);
    }
    without
}

/// Whether the model thinks before it answers, as far as that is known.
fn thinks(request: &ModelRequest, model: &ModelFacts) -> bool {
    let kind = request.extra.get("thinking").and_then(|thinking| thinking.get("type"));
    match kind.and_then(Value::as_str) {
        Some("disabled" | "between_tools") => false,
        Some(_) => true,
        None if least_thinking(request, model).is_some_and(|least| least.is_off) => false,
        None => model.thinks.unwrap_or(false),
    }
}

/// The settings that make the model think as little as possible, if that is wanted and known.
fn least_thinking(request: &ModelRequest, model: &ModelFacts) -> Option<&'static LeastThinking> {
    model.least_thinking.filter(|_| request.purpose.is_aside() && model.wire == Some(VendorWire::Messages))
}
