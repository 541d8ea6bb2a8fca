//! The scripted provider answers as its script says.

#![allow(clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use futures_util::StreamExt as _;
use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::message::{Message, StopReason};
use rawko_core::request::{ModelRequest, Purpose, ToolChoice};
use rawko_core::usage::Usage;
use rawko_provider::{Provider, ProviderEvent, Script, Scripted};
use serde_json::{Map, Value, json};

fn question(purpose: Purpose) -> ModelRequest {
    ModelRequest {
        purpose,
        model: "any".into(),
        system: Arc::from(""),
        stable: None,
        tools: Arc::from([]),
        messages: vec![Arc::new(Message::user("?"))].into(),
        tool_choice: ToolChoice::Auto,
        max_tokens: 100,
        temperature: None,
        extra: Map::new(),
        search: None,
        is_repeat: false,
    }
}

fn agent(name: &str) -> ModelRequest {
    question(Purpose::Agent { name: name.into() })
}

fn forced(purpose: Purpose) -> ModelRequest {
    ModelRequest { tool_choice: ToolChoice::Tool { name: "decide".into() }, ..question(purpose) }
}

fn provider(script: Value) -> Scripted {
    Scripted::new(serde_json::from_value::<Script>(script).expect("a script"))
}

async fn ask(provider: &Scripted, request: ModelRequest) -> Vec<ProviderEvent> {
    provider.open().send(request).collect().await
}

async fn message(provider: &Scripted, request: ModelRequest) -> (Message, Usage, StopReason) {
    match ask(provider, request).await.pop() {
        Some(ProviderEvent::MessageDone { message, usage, stop_reason }) => (message, usage, stop_reason),
        other => panic!("no message but {other:?}"),
    }
}

async fn error(provider: &Scripted, request: ModelRequest) -> ErrorInfo {
    match ask(provider, request).await.pop() {
        Some(ProviderEvent::Error { error, .. }) => error,
        other => panic!("no error but {other:?}"),
    }
}

#[tokio::test]
async fn the_first_unused_reply_that_fits_is_taken() {
    let provider = provider(json!([
        {"for": "developer", "text": "one"},
        {"text": "for anyone"},
        {"for": "evaluate", "text": "verdict"},
        {"for": "developer", "text": "two", "repeat": true},
    ]));
    for (request, expected) in [
        (question(Purpose::Evaluate), "for anyone"),
        (question(Purpose::Evaluate), "verdict"),
        (agent("developer"), "one"),
        (agent("developer"), "two"),
        (agent("developer"), "two"),
    ] {
        assert_eq!(message(&provider, request).await.0.text(), expected);
    }
    let error = error(&provider, question(Purpose::Select)).await;
    assert_eq!((error.code, error.provider.as_deref()), (ErrorCode::ConfigError, Some("scripted")));
    assert!(
        error.message.contains("no reply for select") && error.message.contains("developer"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_decision_calls_the_tool_that_is_forced() {
    let script = json!([{"decision": {"decision": "COMPLETE"}, "repeat": true}]);
    let provider = provider(script);
    let (said, _, stop) = message(&provider, forced(Purpose::Select)).await;
    let call = said.tool_calls().next().expect("a call");
    assert_eq!((call.name.as_str(), &call.input), ("decide", &json!({"decision": "COMPLETE"})));
    assert_eq!(stop, StopReason::ToolUse);
    let (said, _, stop) = message(&provider, question(Purpose::Select)).await;
    assert_eq!((said.text().as_str(), stop), ("{\"decision\":\"COMPLETE\"}", StopReason::EndTurn));
}

#[tokio::test]
async fn answers_are_streamed_and_calls_are_counted() {
    let script = json!([{
        "thinking": "hm", "text": "A text that is longer than one piece of it is.",
        "tools": [{"name": "Read", "input": {"path": "x"}}, {"name": "List"}, {"name": "Read", "input": "{broken"}],
        "usage": {"inputTokens": 5, "outputTokens": 2}, "repeat": true,
    }]);
    let first = ask(&provider(script.clone()), agent("a")).await;
    assert!(first.iter().filter(|e| matches!(e, ProviderEvent::TextDelta(_))).count() > 1);
    assert_eq!(
        first,
        ask(&provider(script.clone()), agent("a")).await,
        "the same script gives the same events"
    );
    let provider = provider(script);
    let ids = |message: &Message| message.tool_calls().map(|c| c.id.clone()).collect::<Vec<_>>();
    let (said, usage, _) = message(&provider, agent("a")).await;
    assert_eq!(ids(&said), ["call_1", "call_2", "call_3"]);
    assert_eq!(said.tool_calls().nth(1).map(|c| c.input.clone()), Some(json!({})));
    assert_eq!(said.tool_calls().nth(2).and_then(|c| c.invalid_input.clone()).as_deref(), Some("{broken"));
    assert_eq!((usage.input_tokens, usage.output_tokens), (5, 2));
    assert_eq!(ids(&message(&provider, agent("a")).await.0), ["call_4", "call_5", "call_6"]);
}

#[tokio::test]
async fn errors_and_reasons_to_stop_are_as_written() {
    let provider = provider(json!([
        {"text": "half", "error": {"code": "rate_limited", "message": "slow", "retryAfterMs": 9}},
        {"text": "cut", "stopReason": "max_tokens"},
        {"error": {"code": "overloaded"}},
    ]));
    let events = ask(&provider, agent("a")).await;
    assert_eq!(events.first(), Some(&ProviderEvent::TextDelta("half".into())));
    let Some(ProviderEvent::Error { error: first, .. }) = events.last() else { panic!("{events:?}") };
    assert_eq!(
        (first.code, first.message.as_str(), first.retry_after_ms),
        (ErrorCode::RateLimited, "slow", Some(9))
    );
    assert_eq!(message(&provider, agent("a")).await.2, StopReason::MaxTokens);
    assert_eq!(error(&provider, agent("a")).await.message, "scripted overloaded");
}

#[tokio::test]
async fn a_stream_dropped_unread_uses_nothing_up() {
    let provider = provider(json!([{"text": "once"}]));
    drop(provider.open().send(agent("a")));
    assert_eq!(message(&provider, agent("a")).await.0.text(), "once");
}

#[tokio::test]
async fn a_delay_is_kept_and_can_be_cancelled() {
    let provider =
        provider(json!([{"text": "late", "delayMs": 30}, {"text": "never", "delayMs": 3_600_000}]));
    let begun = std::time::Instant::now();
    assert_eq!(message(&provider, agent("a")).await.0.text(), "late");
    assert!(begun.elapsed() >= std::time::Duration::from_millis(30));
    let limit = std::time::Duration::from_millis(20);
    assert!(tokio::time::timeout(limit, ask(&provider, agent("a"))).await.is_err());
}

#[tokio::test]
async fn models_cannot_be_listed() {
    let error = provider(json!([])).list_models().await.expect_err("no list");
    assert!(error.message.contains("scripted cannot list its models"), "{}", error.message);
}

#[test]
fn unknown_fields_are_errors_and_the_format_has_a_schema() {
    let error = serde_json::from_value::<Script>(json!([{"txt": "typo"}])).expect_err("a typo");
    assert!(error.to_string().contains("unknown field `txt`"), "{error}");
    let schema = schemars::schema_for!(Script).to_value().to_string();
    for field in ["\"for\"", "\"decision\"", "\"delayMs\"", "\"retryAfterMs\"", "\"repeat\""] {
        assert!(schema.contains(field), "{field} is missing");
    }
}
