//! The provider contract (`spec/providers.md`): sessions in, event streams out.

use std::future::Future;
use std::pin::Pin;

use futures_core::Stream;
use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::message::{Message, StopReason};
use rawko_core::request::{ModelRequest, Purpose};
use rawko_core::usage::Usage;
use serde_json::Value;

/// The stream of one answer. It ends in exactly one [`ProviderEvent::MessageDone`] or [`ProviderEvent::Error`],
/// and dropping it ends the request.
pub type EventStream<'a> = Pin<Box<dyn Stream<Item = ProviderEvent> + Send + 'a>>;

/// The list of a provider's models, once it has arrived.
pub type ModelList<'a> = Pin<Box<dyn Future<Output = Result<Vec<ModelInfo>, ErrorInfo>> + Send + 'a>>;

/// A model that a provider offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The name to ask for it by.
    pub id: String,
    /// The name for people, where the provider has one.
    pub display_name: Option<String>,
}

/// A source of model answers. Cheap to share; holds keys and connections, nothing of any conversation.
pub trait Provider: Send + Sync {
    /// The name it is configured under.
    fn name(&self) -> &str;

    /// The model to use where configuration names none.
    fn default_model(&self) -> &str;

    /// A run that this provider had answered before goes on: `answered` says who had asked, in order. Providers that
    /// remember nothing between calls have nothing to do; one that plays a script goes to its place in it.
    fn resumed(&self, answered: &[Purpose]) {
        let _ = answered;
    }

    /// Opens a session for one conversation.
    fn open(&self) -> Box<dyn ProviderSession>;

    /// `text` without the keys that this provider holds, for texts from elsewhere that may have come across them:
    /// a tool can be made to read the environment that a key came from.
    fn without_secrets(&self, text: &str) -> String {
        text.to_owned()
    }

    /// The models that the provider offers. Providers that cannot say answer with `config_error`.
    fn list_models(&self) -> ModelList<'_> {
        let mut error = ErrorInfo::new(
            ErrorCode::ConfigError,
            format!("provider {} cannot list its models", self.name()),
        );
        error.provider = Some(self.name().to_owned());
        Box::pin(std::future::ready(Err(error)))
    }
}

/// One conversation with a provider. Keeps what it has already encoded, so that a turn costs what is new in it.
pub trait ProviderSession: Send {
    /// Puts the question and streams the answer.
    fn send(&mut self, request: ModelRequest) -> EventStream<'_>;
}

/// What happens while a model answers.
#[derive(Debug, Clone, PartialEq)]
pub enum ProviderEvent {
    /// More text.
    TextDelta(String),
    /// More reasoning.
    ThinkingDelta(String),
    /// A tool call begins.
    ToolUseStart {
        /// The provider's id of the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a tool call's arguments, as JSON text.
    ToolUseInput {
        /// The call.
        id: String,
        /// The text.
        delta: String,
    },
    /// A tool call is complete.
    ToolUseEnd {
        /// The call.
        id: String,
        /// Its arguments; `{}` where they were not valid JSON (the message says so).
        input: Value,
    },
    /// The provider will be asked again: for people to see, the answer has not begun.
    Retrying {
        /// What failed.
        error: ErrorInfo,
        /// Which attempt comes next, from 2.
        attempt: u32,
        /// How long it waits first, in milliseconds.
        after_ms: u64,
    },
    /// The answer is whole. Always last.
    MessageDone {
        /// The whole message.
        message: Message,
        /// What it consumed.
        usage: Usage,
        /// Why it ended.
        stop_reason: StopReason,
    },
    /// There is no answer. Always last.
    Error {
        /// Why.
        error: ErrorInfo,
        /// What it consumed all the same; absent where the answer had not begun. A prompt of no tokens is one that
        /// the server had not counted yet.
        usage: Option<Usage>,
    },
}
