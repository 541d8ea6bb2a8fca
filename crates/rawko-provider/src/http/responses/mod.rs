//! The Responses wire: `OpenAI`'s Responses API
//! (<https://platform.openai.com/docs/api-reference/responses>) and Open Responses of 2026-04-24
//! (<https://www.openresponses.org/specification>).
//!
//! Owns what applies to the API as a whole. A conversation is a list of items: messages, function calls, their outputs, and
//! reasoning. Nothing is stored on the server: every request contains the whole conversation, and reasoning goes back as the
//! encrypted item that it came as.

mod decode;
mod encode;

use rawko_core::message::Message;
use rawko_core::models::{self, ModelFacts, VendorWire};
use rawko_core::request::ModelRequest;
use reqwest::Url;
use reqwest::header::{HeaderMap, InvalidHeaderValue};
use serde_json::Value;

use crate::http::concession::{Concession, Concessions};
use crate::http::wire::{WireFormat, bearer_headers};
use crate::secret::Secret;
use crate::settings::ProviderSettings;

/// The wire format of the Responses API.
pub(crate) struct ResponsesWire {
    /// Whether the server is `OpenAI`'s own. Others get only the fields that Open Responses requires of all.
    is_openai: bool,
}

impl WireFormat for ResponsesWire {
    type Decoder = decode::ResponsesDecoder;

    fn new(settings: &ProviderSettings) -> Self {
        let url = Url::parse(&settings.base_url).ok();
        Self { is_openai: url.as_ref().and_then(Url::host_str) == Some("api.openai.com") }
    }

    fn messages_path(&self) -> &'static str {
        "responses"
    }

    fn models_path(&self) -> &'static str {
        "models"
    }

    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, InvalidHeaderValue> {
        bearer_headers(key)
    }

    fn known(&self, request: &ModelRequest) -> Concessions {
        // A gateway serves the models of this name too, and they refuse the same.
        let mut without = Concessions::default();
        let model = models::find(&request.model);
        let thinks = self.thinks(request, &model);
        if request.temperature.is_some() && model.temperature.is_some_and(|when| !when.allows(thinks)) {
            without = without.with(Concession::NoTemperature);
        }
        // A model that takes a temperature always is one that never reasons.
        if model.thinks == Some(false) && model.temperature.is_none() {
            without = without.with(Concession::NoEncryptedReasoning);
        }
        if request.search.is_none() {
            without = without.with(Concession::NoSearch);
        }
        without
    }

    fn head(
        &self,
        request: &ModelRequest,
        without: Concessions,
    ) -> Result<(Vec<u8>, bool), serde_json::Error> {
        encode::head(self, request, without).map(|head| (head, false))
    }

    fn message(&self, message: &Message, without: Concessions) -> Result<Vec<u8>, serde_json::Error> {
        encode::message(self, message, !without.has(Concession::NoSearch))
    }

    fn decoder(&self, request: &ModelRequest) -> Self::Decoder {
        decode::ResponsesDecoder::new(&request.messages)
    }
}

impl ResponsesWire {
    /// Whether the model reasons before it answers, as far as that is known.
    fn thinks(&self, request: &ModelRequest, model: &ModelFacts) -> bool {
        let configured = request.extra.get("reasoning").and_then(|reasoning| reasoning.get("effort"));
        match configured.or_else(|| self.least_effort(request, model)).and_then(Value::as_str) {
            Some("none") => false,
            Some(_) => true,
            None => model.thinks.unwrap_or(false),
        }
    }

    /// The effort that makes the model reason as little as it can, if that is wanted and known. The table of models has it
    /// under the name that Chat Completions uses.
    fn least_effort(&self, request: &ModelRequest, model: &ModelFacts) -> Option<&'static Value> {
        let least = model.least_thinking.filter(|_| self.is_openai && request.purpose.is_aside())?;
        least.fields.get("reasoning_effort").filter(|_| model.wire == Some(VendorWire::Chat))
    }
}

#[cfg(test)]
mod tests;
