//! Chat Completions (<https://platform.openai.com/docs/api-reference/chat>), `OpenAI`'s and everyone else's.
//!
//! Servers differ. [`Dialect`] holds the differences that the host determines; the others are learnt from refusals
//! ([`crate::http::concession`]).

mod decode;
mod encode;

use rawko_core::message::Message;
use rawko_core::models::{self, ModelFacts, VendorWire, When};
use rawko_core::request::{ModelRequest, ToolChoice};
use reqwest::Url;
use reqwest::header::{HeaderMap, InvalidHeaderValue};
use serde_json::{Map, Value};

use crate::http::concession::{Concession, Concessions};
use crate::http::wire::{WireFormat, bearer_headers};
use crate::secret::Secret;
use crate::settings::ProviderSettings;

/// The vendor of the server, where that makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `OpenAI` itself.
    OpenAi,
    /// Refuses tool calls without their reasoning.
    DeepSeek,
    /// Refuses tool calls without a thought signature.
    Gemini,
    /// Refuses `user` directly after `tool`, and tool call ids that do not have nine characters.
    Mistral,
    /// Knows a tool choice only as one of the words `auto`, `none` and `required`.
    Words,
    /// Any other server: gets only what all of them understand.
    Plain,
}

impl Dialect {
    fn of(settings: &ProviderSettings) -> Self {
        let url = Url::parse(&settings.base_url).ok();
        match url.as_ref().and_then(Url::host_str) {
            Some("api.openai.com") => Self::OpenAi,
            Some("api.deepseek.com") => Self::DeepSeek,
            Some("generativelanguage.googleapis.com") => Self::Gemini,
            Some("api.mistral.ai" | "codestral.mistral.ai") => Self::Mistral,
            _ if settings.forces_by_name => Self::Plain,
            _ => Self::Words,
        }
    }
}

/// The wire format of Chat Completions.
pub(crate) struct OpenAiWire {
    dialect: Dialect,
}

impl WireFormat for OpenAiWire {
    type Decoder = decode::OpenAiDecoder;

    fn new(settings: &ProviderSettings) -> Self {
        Self { dialect: Dialect::of(settings) }
    }

    fn messages_path(&self) -> &'static str {
        "chat/completions"
    }

    fn models_path(&self) -> &'static str {
        "models"
    }

    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, InvalidHeaderValue> {
        bearer_headers(key)
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

    fn message(&self, message: &Message, without: Concessions) -> Result<Vec<u8>, serde_json::Error> {
        encode::message(self.dialect, message, without)
    }

    fn decoder(&self, request: &ModelRequest) -> Self::Decoder {
        decode::OpenAiDecoder::new(&request.messages)
    }
}

/// The prefixes of Mistral's model names. On any server, mistral-common or the models' own chat templates check the order
/// of roles and the form of ids.
const MISTRAL: &[&str] = &[
    "mistral",
    "ministral",
    "mixtral",
    "codestral",
    "devstral",
    "magistral",
    "pixtral",
    "voxtral",
    "leanstral",
    "open-mistral",
    "open-mixtral",
];

/// Whether `model` is one of Mistral's: `mistral-large-latest`, `mistralai/Devstral-Small-2507`, `labs-devstral-small`.
fn is_mistral(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let name = name.strip_prefix("labs-").unwrap_or(&name);
    MISTRAL.iter().any(|beginning| name.starts_with(beginning))
}

/// The concessions that the model of `request` is known to need.
fn known(dialect: Dialect, request: &ModelRequest) -> Concessions {
    let model = models::find(&request.model);
    let mut without = Concessions::default();
    if matches!(request.tool_choice, ToolChoice::Tool { .. }) && model.forced_tools == Some(When::Never) {
        without = without.with(Concession::NoForcedTool);
    }
    if dialect == Dialect::Mistral || is_mistral(&request.model) {
        without = without.with(Concession::AssistantAfterTool).with(Concession::ShortIds);
    }
    if dialect == Dialect::OpenAi {
        without = without.with(Concession::CompletionTokens);
        let thinks = reasons(dialect, request, &model);
        if request.temperature.is_some() && model.temperature.is_some_and(|when| !when.allows(thinks)) {
            without = without.with(Concession::NoTemperature);
        }
    }
    without
}

/// Whether the model reasons before it answers, as far as that is known.
fn reasons(dialect: Dialect, request: &ModelRequest, model: &ModelFacts) -> bool {
    let sent = reasoning(dialect, request, model).and_then(|fields| fields.get("reasoning_effort"));
    match request.extra.get("reasoning_effort").or(sent).and_then(Value::as_str) {
        Some("none") => false,
        Some(_) => true,
        None => model.thinks.unwrap_or(false),
    }
}

/// Fields that make the model reason less, or that it needs in order to accept tools. Only `OpenAI`'s own service knows
/// them.
fn reasoning(
    dialect: Dialect,
    request: &ModelRequest,
    model: &ModelFacts,
) -> Option<&'static Map<String, Value>> {
    if dialect != Dialect::OpenAi || model.wire != Some(VendorWire::Chat) {
        return None;
    }
    let demanded = model.with_tools.filter(|_| !request.tools.is_empty());
    let least = model.least_thinking.filter(|_| request.purpose.is_aside()).map(|least| &least.fields);
    demanded.or(least)
}

#[cfg(test)]
mod tests;
