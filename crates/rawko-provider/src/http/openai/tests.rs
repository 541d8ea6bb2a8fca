use std::sync::Arc;

use rawko_core::request::Purpose;
use serde_json::json;

use super::*;
use crate::draft::Events;
use crate::http::sse::SseEvent;
use crate::http::wire::ResponseDecoder as _;
use crate::provider::ProviderEvent;

fn request(model: &str, purpose: Purpose, extra: Value) -> ModelRequest {
    let tool = json!({"name": "decide", "description": "d", "inputSchema": {}, "access": "read_only"});
    ModelRequest {
        purpose,
        model: model.into(),
        system: Arc::from("Be short."),
        stable: None,
        tools: [serde_json::from_value(tool).expect("a tool")].into(),
        messages: Arc::default(),
        tool_choice: ToolChoice::Auto,
        max_tokens: 100,
        temperature: Some(0.3),
        extra: extra.as_object().cloned().unwrap_or_default(),
        search: None,
        is_repeat: false,
    }
}

/// Checks what is sent about reasoning and temperature.
#[track_caller]
fn check(dialect: Dialect, request: &ModelRequest, effort: Option<&str>, temperature: bool) {
    let (mut bytes, _) = encode::head(dialect, request, known(dialect, request)).expect("JSON");
    bytes.extend_from_slice(b"]}");
    let body: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(body.get("reasoning_effort").and_then(Value::as_str), effort, "{body}");
    assert_eq!(body.get("temperature").is_some(), temperature, "{body}");
}

#[test]
fn a_model_that_refuses_tools_beside_reasoning_is_asked_not_to_reason() {
    let work = || Purpose::Agent { name: "developer".into() };
    let none = || json!({});
    check(Dialect::OpenAi, &request("gpt-5.6-terra", work(), none()), Some("none"), false);
    check(Dialect::OpenAi, &request("gpt-6-sol", Purpose::Select, none()), Some("none"), false);
    // A user's own setting is sent as it is, even if the service will refuse it.
    let high = json!({"reasoning_effort": "high"});
    check(Dialect::OpenAi, &request("gpt-5.6-terra", work(), high), Some("high"), false);
    // Only OpenAI's own service is known to want this.
    check(Dialect::Plain, &request("gpt-5.6-terra", work(), none()), None, true);
}

#[test]
fn a_decision_is_reasoned_about_as_little_as_the_model_can() {
    let decision = |model: &str| request(model, Purpose::Evaluate, json!({}));
    check(Dialect::OpenAi, &decision("gpt-5-mini"), Some("minimal"), false);
    check(Dialect::OpenAi, &decision("o4-mini"), Some("low"), false);
    check(Dialect::OpenAi, &decision("gpt-5.4"), None, true);
    check(Dialect::OpenAi, &decision("gpt-4.1"), None, true);
    let work = request("gpt-5-mini", Purpose::Agent { name: "developer".into() }, json!({}));
    check(Dialect::OpenAi, &work, None, false);
}

#[test]
fn mistrals_models_are_known_by_name_on_any_server() {
    for model in [
        "mistral-large-latest",
        "mistralai/Devstral-Small-2507",
        "mistralai/mistral-small-3.2:free",
        "codestral:22b",
        "labs-devstral-small-2512",
        "/models/Ministral-8B-Instruct",
    ] {
        assert!(is_mistral(model), "{model}");
    }
    for model in ["gpt-5.4", "nous-hermes-2-mistral", "qwen3-coder", "claude-sonnet-5-5", ""] {
        assert!(!is_mistral(model), "{model}");
    }
}

/// Checks how the preset called `name` forces the only tool of a request.
#[track_caller]
fn check_forced(name: &str, expected: Value) {
    let request = ModelRequest {
        tool_choice: ToolChoice::Tool { name: "decide".into() },
        ..request("any", Purpose::Select, json!({}))
    };
    let settings = ProviderSettings::preset(name).expect("a preset");
    let (mut bytes, _) =
        encode::head(Dialect::of(&settings), &request, Concessions::default()).expect("JSON");
    bytes.extend_from_slice(b"]}");
    let sent: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(sent["tool_choice"], expected, "{name}");
}

#[test]
fn the_only_tool_is_forced_in_words_where_names_are_not_understood() {
    let by_name = json!({"type": "function", "function": {"name": "decide"}});
    check_forced("llamacpp", json!("required"));
    check_forced("lmstudio", json!("required"));
    check_forced("openai", by_name.clone());
    check_forced("ollama", by_name);
}

/// The calls, by name and arguments, of an answer whose chunks hold these pieces.
#[track_caller]
fn check_calls(pieces: &[Value], expected: &[(&str, Value)]) {
    let mut decoder = decode::OpenAiDecoder::new(&[]);
    let mut out = Events::new();
    for piece in pieces {
        let data = json!({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}).to_string();
        decoder.event(&SseEvent { name: String::new(), data }, &mut out).expect("a chunk");
    }
    let ProviderEvent::MessageDone { message, .. } = decoder.finish(&mut out) else { panic!("no message") };
    let calls: Vec<_> = message.tool_calls().map(|call| (call.name.as_str(), call.input.clone())).collect();
    assert_eq!(calls, expected, "{pieces:?}");
    let begun = out.iter().filter(|event| matches!(event, ProviderEvent::ToolUseStart { .. })).count();
    assert_eq!(begun, expected.len(), "{out:?}");
}

#[test]
fn a_call_is_whole_whenever_its_name_comes() {
    let piece = |id: Value, name: Value, arguments: &str| json!({"index": 0, "id": id, "function": {"name": name, "arguments": arguments}});
    let (none, id, read) = (Value::Null, json!("c1"), json!("Read"));
    let expected = [("Read", json!({"a": 1}))];
    check_calls(
        &[piece(id.clone(), none.clone(), "{\"a\""), piece(none.clone(), read.clone(), ":1}")],
        &expected,
    );
    check_calls(
        &[piece(id.clone(), json!(""), "{\"a\":1}"), piece(none.clone(), read.clone(), "")],
        &expected,
    );
    check_calls(
        &[piece(id.clone(), none.clone(), ""), piece(id.clone(), read.clone(), "{\"a\":1}")],
        &expected,
    );
    check_calls(&[piece(id.clone(), read.clone(), "{}"), piece(none.clone(), none, "{\"a\":1}")], &expected);
    check_calls(
        &[piece(id.clone(), read.clone(), "{}"), piece(id.clone(), read.clone(), "{\"a\":1}")],
        &expected,
    );
    let whole = piece(id.clone(), read.clone(), "{\"a\":1}");
    check_calls(&[whole.clone(), whole], &expected);
    // Another call under the same index, and the same call of another id.
    let other = piece(json!("c2"), read.clone(), "{\"a\":1}");
    check_calls(
        &[piece(id.clone(), read.clone(), "{}"), other.clone()],
        &[("Read", json!({})), ("Read", json!({"a": 1}))],
    );
    check_calls(
        &[piece(id, read, "{\"a\":1}"), other],
        &[("Read", json!({"a": 1})), ("Read", json!({"a": 1}))],
    );
}
