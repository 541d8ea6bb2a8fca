//! The provider contract (`docs/providers.md`): sessions in, event streams out.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

use futures_core::Stream;
use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::message::{Message, StopReason};
use rawko_core::request::{ModelRequest, Purpose};
use rawko_core::usage::Usage;
use serde_json::Value;

/// The stream of one answer. It ends in exactly one [`ProviderEvent::MessageDone`] or [`ProviderEvent::Error`]. Dropping
/// it ends the request.
pub type EventStream<'a> = Pin<Box<dyn Stream<Item = ProviderEvent> + Send + 'a>>;

/// A future list of a provider's models.
pub type ModelList<'a> = Pin<Box<dyn Future<Output = Result<Vec<ModelInfo>, ErrorInfo>> + Send + 'a>>;

/// A model that a provider offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The name that requests use.
    pub id: String,
    /// The name for people, if the provider has one.
    pub display_name: Option<String>,
}

/// A source of model answers. Cheap to share; holds keys and connections, but no conversation.
pub trait Provider: Send + Sync {
    /// The name under which it is configured.
    fn name(&self) -> &str;

    /// The model to use if the configuration names none.
    fn default_model(&self) -> &str;

    /// A run continues that this provider has answered before: `answered` lists the purposes of its requests in order.
    /// A provider that plays a script moves to the right place in it; others have nothing to do.
    fn resumed(&self, answered: &[Purpose]) {
        let _ = answered;
    }

    /// Whether its answers are written beforehand, those of the arbiter included. Then the arbiter is always asked, unless
    /// `arbiter.mode` is configured.
    fn plays_a_script(&self) -> bool {
        false
    }

    /// Opens a session for one conversation.
    fn open(&self) -> Box<dyn ProviderSession>;

    /// Where in `text` the keys of this provider are. Texts from elsewhere may contain them: for example, a tool can read
    /// the file that a key came from. rawko keeps them from models and journals.
    fn secrets_in(&self, text: &str) -> Vec<Range<usize>> {
        let _ = text;
        Vec::new()
    }

    /// The models that the provider offers. A provider that cannot list them returns `config_error`.
    fn list_models(&self) -> ModelList<'_> {
        let mut error = ErrorInfo::new(
            ErrorCode::ConfigError,
            format!("provider {} cannot list its models", self.name()),
        );
        error.provider = Some(self.name().to_owned());
        Box::pin(std::future::ready(Err(error)))
    }
}

/// One conversation with a provider. Keeps what it has encoded already, so that a turn only costs its new messages.
pub trait ProviderSession: Send {
    /// Sends the request and streams the answer.
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
    /// The request failed before the answer began, and is sent again.
    Retrying {
        /// Why it failed.
        error: ErrorInfo,
        /// The number of the next attempt, from 2.
        attempt: u32,
        /// How long it waits before that, in milliseconds.
        after_ms: u64,
    },
    /// The answer is complete. Always the last event.
    MessageDone {
        /// The complete message.
        message: Message,
        /// What it consumed.
        usage: Usage,
        /// Why it ended.
        stop_reason: StopReason,
    },
    /// There is no answer. Always the last event.
    Error {
        /// Why it failed.
        error: ErrorInfo,
        /// What it consumed nevertheless; absent if the answer had not begun. Zero prompt tokens mean that the server had not
        /// counted them yet.
        usage: Option<Usage>,
    },
}
