//! Chat Completions (<https://platform.openai.com/docs/api-reference/chat>), `OpenAI`'s and everyone else's.
//!
//! Owns the provider type, and in [`Dialect`] what single servers want otherwise, told by their host. What cannot be
//! told beforehand is learnt from their rejections ([`crate::concession`]).

mod decode;
mod encode;

use std::sync::Arc;

use rawko_core::message::Message;
use rawko_core::request::ModelRequest;
use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue};

use crate::concession::{Concession, Concessions};
use crate::provider::{ModelList, Provider, ProviderSession};
use crate::remote::{Remote, RemoteSession};
use crate::secret::Secret;
use crate::settings::ProviderSettings;
use crate::wire::{Wire, sensitive};

/// Models reached over Chat Completions.
pub struct OpenAi(Arc<Remote<OpenAiWire>>);

impl OpenAi {
    /// The provider with these settings. Nothing is connected, and nothing loaded, before the first request.
    #[must_use]
    pub fn new(settings: ProviderSettings) -> Self {
        Self(Remote::new(settings))
    }
}

impl Provider for OpenAi {
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

impl std::fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenAi").field(&self.0.settings).finish()
    }
}

/// Whose server it is, where that makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `OpenAI` itself.
    OpenAi,
    /// Rejects tool calls that come back without their reasoning.
    DeepSeek,
    /// Rejects tool calls that come back without a thought signature.
    Gemini,
    /// Everyone else: only what all of them understand.
    Plain,
}

impl Dialect {
    fn of(base_url: &str) -> Self {
        let url = Url::parse(base_url).ok();
        match url.as_ref().and_then(Url::host_str) {
            Some("api.openai.com") => Self::OpenAi,
            Some("api.deepseek.com") => Self::DeepSeek,
            Some("generativelanguage.googleapis.com") => Self::Gemini,
            _ => Self::Plain,
        }
    }
}

/// The format itself.
pub(crate) struct OpenAiWire {
    dialect: Dialect,
}

impl Wire for OpenAiWire {
    type Decoder = decode::OpenAiDecoder;

    fn new(settings: &ProviderSettings) -> Self {
        Self { dialect: Dialect::of(&settings.base_url) }
    }

    fn messages_path(&self) -> &'static str {
        "chat/completions"
    }

    fn models_path(&self) -> &'static str {
        "models"
    }

    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(key) = key {
            headers.insert(AUTHORIZATION, sensitive(&format!("Bearer {}", key.expose()))?);
        }
        Ok(headers)
    }

    fn known(&self, request: &ModelRequest) -> Concessions {
        known(self.dialect, request)
    }

    fn head(
        &self,
        request: &ModelRequest,
        without: Concessions,
    ) -> Result<(Vec<u8>, bool), serde_json::Error> {
        encode::head(self.dialect, request, without)
    }

    fn message(&self, message: &Message) -> Result<Vec<u8>, serde_json::Error> {
        encode::message(self.dialect, message)
    }

    fn decoder(&self, request: &ModelRequest) -> Self::Decoder {
        decode::OpenAiDecoder::new(request.messages.len())
    }
}

/// `OpenAI`'s models that reason, by the beginning of their names: their temperature is fixed.
const REASONING: &[&str] = &["o1", "o3", "o4", "gpt-5", "gpt-6"];

fn known(dialect: Dialect, request: &ModelRequest) -> Concessions {
    let mut without = Concessions::default();
    if dialect == Dialect::OpenAi {
        without = without.with(Concession::CompletionTokens);
        if request.temperature.is_some() && REASONING.iter().any(|name| request.model.starts_with(name)) {
            without = without.with(Concession::NoTemperature);
        }
    }
    without
}
