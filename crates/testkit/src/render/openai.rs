//! Renders answers as Chat Completions sends them.

use rawko_core::message::StopReason;
use serde_json::{Value, json};

use super::{RenderedAnswer, pieces};

pub(super) fn events(rendered: &RenderedAnswer<'_>) -> Vec<String> {
    let mut events = vec![chunk(rendered, &json!({"role": "assistant", "content": ""}), None)];
    for piece in pieces(&rendered.say.thinking) {
        events.push(chunk(rendered, &json!({"reasoning_content": piece}), None));
    }
    for piece in pieces(&rendered.text) {
        events.push(chunk(rendered, &json!({"content": piece}), None));
    }
    for (index, (id, name, input)) in rendered.calls.iter().enumerate() {
        let first = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
        events.push(chunk(rendered, &json!({"tool_calls": [first]}), None));
        for piece in pieces(input) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            events.push(chunk(rendered, &json!({"tool_calls": [more]}), None));
        }
    }
    events.push(chunk(rendered, &json!({}), Some(stop(rendered.stop))));
    if !rendered.say.delivery.uncounted {
        let mut last = envelope(rendered, "chat.completion.chunk");
        last["choices"] = json!([]);
        last["usage"] = usage(rendered);
        events.push(format!("data: {last}\n"));
    }
    events.push("data: [DONE]\n".to_owned());
    events
}

pub(super) fn more_text(rendered: &RenderedAnswer<'_>, text: &str) -> String {
    chunk(rendered, &json!({"content": text}), None)
}

pub(super) fn whole(rendered: &RenderedAnswer<'_>) -> Value {
    let mut message = json!({"role": "assistant", "content": rendered.text});
    if !rendered.say.thinking.is_empty() {
        message["reasoning_content"] = json!(rendered.say.thinking);
    }
    let call = |(id, name, input): &(String, &str, String)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": input}});
    if !rendered.calls.is_empty() {
        message["tool_calls"] = rendered.calls.iter().map(call).collect();
    }
    let mut body = envelope(rendered, "chat.completion");
    body["choices"] = json!([{"index": 0, "message": message, "finish_reason": stop(rendered.stop)}]);
    if !rendered.say.delivery.uncounted {
        body["usage"] = usage(rendered);
    }
    body
}

fn chunk(rendered: &RenderedAnswer<'_>, delta: &Value, finish: Option<&str>) -> String {
    let mut body = envelope(rendered, "chat.completion.chunk");
    body["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    format!("data: {body}\n")
}

fn envelope(rendered: &RenderedAnswer<'_>, object: &str) -> Value {
    json!({"id": format!("chatcmpl-{}", rendered.number), "object": object, "created": 0, "model": rendered.model})
}

fn usage(rendered: &RenderedAnswer<'_>) -> Value {
    let usage = &rendered.say.usage;
    json!({
        "prompt_tokens": usage.prompt_tokens(),
        "completion_tokens": rendered.output_tokens,
        "total_tokens": usage.prompt_tokens().saturating_add(rendered.output_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens},
    })
}

fn stop(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
        StopReason::ContextWindow => "model_length",
        StopReason::Paused => "stop",
    }
}
