//! What the wire formats have in common.

use std::sync::Arc;

use rawko_core::message::Message;
use rawko_core::request::ModelRequest;
use rawko_core::usage::Usage;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::draft::Events;
use crate::http::concession::Concessions;
use crate::http::failure::AttemptFailure;
use crate::http::pictures::NamedPicture;
use crate::http::sse::SseEvent;
use crate::provider::{ModelInfo, ProviderEvent};
use crate::secret::Secret;
use crate::settings::ProviderSettings;

/// A wire format: writes requests and reads answers. Knows nothing of connections.
pub(crate) trait WireFormat: Send + Sync + 'static {
    /// Reads one answer.
    type Decoder: ResponseDecoder;

    /// The format for a provider with these settings.
    fn new(settings: &ProviderSettings) -> Self;

    /// The base URL for requests, made from the configured one.
    fn base_url(base: &str) -> &str {
        base
    }

    /// The path of requests under the base URL.
    fn messages_path(&self) -> &'static str;

    /// The path of the list of models under the base URL.
    fn models_path(&self) -> &'static str;

    /// The headers of every request, including the key.
    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, reqwest::header::InvalidHeaderValue>;

    /// The concessions that `request` is known to need.
    fn known(&self, request: &ModelRequest) -> Concessions;

    /// The request up to and into the array of messages, and whether that array already has an element.
    fn head(
        &self,
        request: &ModelRequest,
        without: Concessions,
    ) -> Result<(Vec<u8>, bool), serde_json::Error>;

    /// A message as elements of that array, joined by commas; empty if this wire cannot express it.
    fn message(&self, message: &Message, without: Concessions) -> Result<Vec<u8>, serde_json::Error>;

    /// The position of a message after which this request alone has a cache breakpoint, and the message with it.
    fn marked(
        &self,
        messages: &[Arc<Message>],
        without: Concessions,
    ) -> Result<Option<(usize, Vec<u8>)>, serde_json::Error> {
        let _ = (messages, without);
        Ok(None)
    }

    /// The picture that a refusal names, by its position in `messages`; `None` if it names none.
    fn picture_named(&self, words: &str, messages: &[Arc<Message>]) -> Option<NamedPicture> {
        let _ = (words, messages);
        None
    }

    /// The decoder for the answer to `request`.
    fn decoder(&self, request: &ModelRequest) -> Self::Decoder;

    /// The models in the answer to a listing. All formats list them under `data`.
    fn models(&self, body: &Value) -> Vec<ModelInfo> {
        let text = |item: &Value, key: &str| item.get(key).and_then(Value::as_str).map(str::to_owned);
        let items = body.get("data").and_then(Value::as_array);
        let model = |item: &Value| {
            let id = text(item, "id")?;
            let display_name = text(item, "display_name").filter(|name| *name != id);
            Some(ModelInfo { id, display_name })
        };
        items.into_iter().flatten().filter_map(model).collect()
    }
}

/// Reads one answer, event by event.
pub(crate) trait ResponseDecoder: Send {
    /// Decodes an event of the stream.
    fn event(&mut self, event: &SseEvent, out: &mut Events) -> Result<DecodeProgress, AttemptFailure>;

    /// Decodes an answer that arrived as one JSON object because the server does not stream.
    fn whole(&mut self, body: &Value, out: &mut Events) -> Result<(), AttemptFailure>;

    /// How far the answer is.
    fn progress(&self) -> DecodeProgress;

    /// What the answer has consumed so far; `None` if it has not begun.
    fn consumed(&self) -> Option<Usage>;

    /// Completes the message and returns the last event.
    fn finish(self, out: &mut Events) -> ProviderEvent;
}

/// How far an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecodeProgress {
    /// More must come: an end here means that the answer was cut off.
    Open,
    /// The message is complete; usage or an end marker may follow.
    Closing,
    /// Nothing more will come.
    Done,
}

/// The data of an event as JSON.
pub(crate) fn parse_event(event: &SseEvent) -> Result<Value, AttemptFailure> {
    crate::json::parse_part(&event.data).map_err(|error| {
        AttemptFailure::transient(
            rawko_core::error::ErrorCode::NetworkError,
            format!(
                "the server sent an event that is not JSON ({error}): {}",
                rawko_core::text::truncate(&event.data, 200)
            ),
        )
    })
}

/// Writes the fields of a request object in the given order, each only once.
pub(crate) struct HeadWriter<'a> {
    bytes: Vec<u8>,
    extra: &'a Map<String, Value>,
    written: Vec<&'static str>,
}

impl<'a> HeadWriter<'a> {
    pub(crate) fn new(extra: &'a Map<String, Value>) -> Self {
        Self { bytes: vec![b'{'], extra, written: Vec::new() }
    }

    /// Writes a field that `extra` may not override.
    pub(crate) fn fixed(
        &mut self,
        name: &'static str,
        value: &impl Serialize,
    ) -> Result<(), serde_json::Error> {
        self.written.push(name);
        self.put(name, value)
    }

    /// Writes a field unless `extra` contains it.
    pub(crate) fn field(
        &mut self,
        name: &'static str,
        value: &impl Serialize,
    ) -> Result<(), serde_json::Error> {
        if self.extra.contains_key(name) { Ok(()) } else { self.fixed(name, value) }
    }

    /// Writes the fields of `extra` and opens the array of messages, which is called `array`.
    pub(crate) fn into_array(mut self, array: &str) -> Result<Vec<u8>, serde_json::Error> {
        let extra = self.extra;
        for (name, value) in extra {
            if name != array && !self.written.contains(&name.as_str()) {
                self.put(name, value)?;
            }
        }
        self.key(array)?;
        self.bytes.push(b'[');
        Ok(self.bytes)
    }

    fn put(&mut self, name: &str, value: &impl Serialize) -> Result<(), serde_json::Error> {
        self.key(name)?;
        serde_json::to_writer(&mut self.bytes, value)
    }

    fn key(&mut self, name: &str) -> Result<(), serde_json::Error> {
        if self.bytes.len() > 1 {
            self.bytes.push(b',');
        }
        serde_json::to_writer(&mut self.bytes, name)?;
        self.bytes.push(b':');
        Ok(())
    }
}

/// Usage where the server counts cached tokens as part of the prompt's. In [`Usage`] they are not.
pub(crate) fn usage_of(prompt: u64, cache_read: u64, cache_write: u64, output: u64) -> Usage {
    let cache_read_tokens = cache_read.min(prompt);
    let cache_write_tokens = cache_write.min(prompt - cache_read_tokens);
    Usage {
        input_tokens: prompt - cache_read_tokens - cache_write_tokens,
        output_tokens: output,
        cache_read_tokens,
        cache_write_tokens,
        web_searches: 0,
        estimated: false,
    }
}

/// The headers of `OpenAI`'s APIs: JSON, streamed, with the key as a bearer token.
pub(crate) fn bearer_headers(key: Option<&Secret>) -> Result<HeaderMap, reqwest::header::InvalidHeaderValue> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(key) = key {
        headers.insert(AUTHORIZATION, sensitive(&format!("Bearer {}", key.expose()))?);
    }
    Ok(headers)
}

/// A header value that logs do not show.
pub(crate) fn sensitive(value: &str) -> Result<HeaderValue, reqwest::header::InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(value)?;
    value.set_sensitive(true);
    Ok(value)
}

impl Secret {
    /// The key as the value of a header, which is not printed either; `None` if a header cannot hold it.
    #[must_use]
    pub fn as_header(&self) -> Option<HeaderValue> {
        sensitive(self.expose()).ok()
    }
}
