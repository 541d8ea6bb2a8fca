//! One request to a provider, and everything that came of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::message::{Message, StopReason};
use rawko_core::request::{ModelRequest, Purpose, ToolChoice};
use rawko_core::retry::RetryPolicy;
use rawko_core::tool::{ToolAccess, ToolSpec};
use rawko_core::usage::Usage;
use rawko_provider::{
    Provider, ProviderEvent, ProviderKind, ProviderSession, ProviderSettings, Secret, Timeouts, connect,
};
use serde_json::{Map, json};
use testkit::{Answer, ModelServer, Wire};

pub(crate) const ALL: [Wire; 3] = Wire::ALL;

/// A key that must never be shown.
pub(crate) const CANARY: &str = "sk-canary-7f3a91";

pub(crate) fn settings(server: &ModelServer, wire: Wire) -> ProviderSettings {
    let kind = match wire {
        Wire::Claude => ProviderKind::Claude,
        Wire::OpenAi => ProviderKind::OpenAi,
        Wire::Responses => ProviderKind::Responses,
    };
    ProviderSettings {
        api_key: Some(Secret::new(CANARY)),
        retry: RetryPolicy { max_attempts: 3, base_ms: 1, cap_ms: 2_000, deadline_ms: 20_000 },
        timeouts: Timeouts { connect_ms: 5_000, idle_ms: 20_000, total_ms: 60_000 },
        ..ProviderSettings::new("test", kind, server.url(wire))
    }
}

pub(crate) fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("The tool {name}."),
        input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        access: ToolAccess::ReadOnly,
    }
}

pub(crate) fn request(messages: Vec<Arc<Message>>) -> ModelRequest {
    ModelRequest {
        purpose: Purpose::Agent { name: "developer".into() },
        model: "test-large".into(),
        system: Arc::from("You are the developer."),
        stable: None,
        tools: Arc::from([tool("Read"), tool("Write")]),
        messages: messages.into(),
        tool_choice: ToolChoice::Auto,
        max_tokens: 1_000,
        temperature: Some(0.5),
        extra: Map::new(),
        search: None,
        is_repeat: false,
    }
}

pub(crate) fn question() -> ModelRequest {
    request(vec![Arc::new(Message::user("Fix the bug."))])
}

/// The result of a request.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// Text, as it was streamed.
    pub(crate) text: String,
    /// Reasoning, as it was streamed.
    pub(crate) thinking: String,
    /// All events but the last.
    pub(crate) events: Vec<ProviderEvent>,
    /// What failed before each further attempt.
    pub(crate) retries: Vec<(ErrorInfo, u64)>,
    /// Usage of a request without an answer.
    pub(crate) wasted: Option<Usage>,
    pub(crate) end: Option<Result<(Message, Usage, StopReason), ErrorInfo>>,
}

impl Trial {
    #[track_caller]
    pub(crate) fn message(&self) -> &(Message, Usage, StopReason) {
        match &self.end {
            Some(Ok(done)) => done,
            other => panic!("no message but {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn error(&self) -> &ErrorInfo {
        match &self.end {
            Some(Err(error)) => error,
            other => panic!("no error but {other:?}"),
        }
    }

    pub(crate) fn retry_codes(&self) -> Vec<ErrorCode> {
        self.retries.iter().map(|(error, _)| error.code).collect()
    }
}

/// Sends a request and checks the contract of the stream: exactly one last event, and nothing after it.
pub(crate) async fn ask(session: &mut dyn ProviderSession, request: ModelRequest) -> Trial {
    let mut trial = Trial::default();
    let mut stream = session.send(request);
    while let Some(event) = stream.next().await {
        assert!(trial.end.is_none(), "{event:?} came after {:?}", trial.end);
        match &event {
            ProviderEvent::TextDelta(text) => trial.text.push_str(text),
            ProviderEvent::ThinkingDelta(text) => trial.thinking.push_str(text),
            ProviderEvent::Retrying { error, attempt, after_ms } => {
                trial.retries.push((error.clone(), *after_ms));
                assert_eq!(*attempt as usize, trial.retries.len() + 1);
            }
            ProviderEvent::MessageDone { message, usage, stop_reason } => {
                trial.end = Some(Ok((message.clone(), *usage, *stop_reason)));
                continue;
            }
            ProviderEvent::Error { error, usage } => {
                trial.wasted = *usage;
                trial.end = Some(Err(error.clone()));
                continue;
            }
            ProviderEvent::ToolUseStart { .. }
            | ProviderEvent::ToolUseInput { .. }
            | ProviderEvent::ToolUseEnd { .. } => {}
        }
        trial.events.push(event);
    }
    assert!(trial.end.is_some(), "the stream ended without a last event");
    trial
}

/// A provider for the server, with its usual settings.
pub(crate) fn provider(server: &ModelServer, wire: Wire) -> Arc<dyn Provider> {
    connect(settings(server, wire))
}

/// Sends one request to a server that gives these answers.
pub(crate) async fn try_answers(wire: Wire, answers: Vec<Answer>) -> (Trial, ModelServer) {
    try_with(wire, answers, question(), |settings| settings).await
}

/// Like [`try_answers`], with another request and other settings.
pub(crate) async fn try_with(
    wire: Wire,
    answers: Vec<Answer>,
    question: ModelRequest,
    change: impl FnOnce(ProviderSettings) -> ProviderSettings,
) -> (Trial, ModelServer) {
    let server = ModelServer::sequence(answers);
    let provider = connect(change(settings(&server, wire)));
    let trial = ask(&mut *provider.open(), question).await;
    (trial, server)
}

/// Longer than anything that a test waits for.
pub(crate) const LONG: Duration = Duration::from_secs(20);
