use std::sync::Arc;

use rawko_core::message::Message;
use rawko_core::request::{Purpose, ToolChoice};
use rawko_core::tool::{ToolAccess, ToolSpec};
use serde_json::json;

use super::*;

/// The fields of a request besides its items, at `OpenAI` itself or elsewhere.
fn fields(is_openai: bool, model: &str, purpose: Purpose, extra: Value) -> Value {
    let tool = ToolSpec {
        name: "decide".into(),
        description: "Decides.".into(),
        input_schema: json!({"type": "object"}),
        access: ToolAccess::ReadOnly,
    };
    let request = ModelRequest {
        purpose,
        model: model.into(),
        system: Arc::from("You decide."),
        stable: None,
        tools: Arc::from([tool]),
        messages: vec![Arc::new(Message::user("?"))].into(),
        tool_choice: ToolChoice::Tool { name: "decide".into() },
        max_tokens: 10,
        temperature: Some(0.3),
        extra: extra.as_object().cloned().unwrap_or_default(),
        search: None,
        is_repeat: false,
    };
    let wire = ResponsesWire { is_openai };
    let (mut head, _) = wire.head(&request, wire.known(&request)).expect("JSON");
    head.extend(b"]}");
    serde_json::from_slice(&head).expect("JSON")
}

#[test]
fn openai_itself_is_asked_to_think_little_beside_the_work() {
    let body = fields(true, "gpt-5.6-terra", Purpose::Select, json!({}));
    assert_eq!(body["reasoning"], json!({"effort": "none"}));
    assert_eq!(body["parallel_tool_calls"], json!(false));
    assert_eq!((body.get("temperature"), &body["max_output_tokens"]), (None, &json!(16)));
    let key = body["prompt_cache_key"].as_str().expect("a key").to_owned();
    assert!(key.starts_with("rawko-") && key.len() <= 64, "{key}");
    // An agent's work is thought about as usual, and an effort that is configured stays.
    let body = fields(true, "gpt-5.6-terra", Purpose::Agent { name: "developer".into() }, json!({}));
    assert_eq!((body.get("reasoning"), &body["prompt_cache_key"]), (None, &json!(key)));
    let effort = json!({"reasoning": {"effort": "high"}});
    assert_eq!(
        fields(true, "gpt-5.6-terra", Purpose::Select, effort.clone())["reasoning"],
        effort["reasoning"]
    );
}

#[test]
fn others_get_only_what_all_of_them_know() {
    let body = fields(false, "qwen3", Purpose::Select, json!({}));
    for field in ["reasoning", "parallel_tool_calls", "prompt_cache_key"] {
        assert_eq!(body.get(field), None, "{field}");
    }
    assert_eq!((&body["temperature"], &body["store"]), (&json!(0.3), &json!(false)));
    // A gateway's model of a known name refuses what it refuses elsewhere.
    assert_eq!(fields(false, "gpt-5.6-terra", Purpose::Select, json!({})).get("temperature"), None);
}

#[test]
fn models_that_never_reason_are_not_asked_for_reasoning() {
    for (model, expected) in [("gpt-4.1", Value::Null), ("gpt-5.4", json!(["reasoning.encrypted_content"]))] {
        assert_eq!(fields(true, model, Purpose::Select, json!({}))["include"], expected, "{model}");
    }
}
