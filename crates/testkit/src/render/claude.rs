//! Renders answers as the Messages API sends them.

use rawko_core::message::StopReason;
use serde_json::{Value, json};

use super::{RenderedAnswer, pieces};

pub(super) fn events(rendered: &RenderedAnswer<'_>) -> Vec<String> {
    let say = rendered.say;
    let mut events = vec![event(&json!({"type": "message_start", "message": {
        "id": format!("msg_{}", rendered.number), "type": "message", "role": "assistant", "model": rendered.model,
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": usage(rendered, 1),
    }}))];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        events.push(event(&json!({"type": "content_block_start", "index": index, "content_block": start})));
        let delta =
            |delta: Value| event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.extend(deltas.into_iter().map(delta));
        events.push(event(&json!({"type": "content_block_stop", "index": index})));
        index += 1;
    };
    if !say.thinking.is_empty() || !rendered.signature.is_empty() {
        let thoughts =
            pieces(&say.thinking).into_iter().map(|t| json!({"type": "thinking_delta", "thinking": t}));
        let proof = (!rendered.signature.is_empty())
            .then(|| json!({"type": "signature_delta", "signature": rendered.signature}));
        block(json!({"type": "thinking", "thinking": "", "signature": ""}), thoughts.chain(proof).collect());
    }
    if !say.redacted.is_empty() {
        block(json!({"type": "redacted_thinking", "data": say.redacted}), Vec::new());
    }
    if !rendered.text.is_empty() {
        let texts = pieces(&rendered.text).into_iter().map(|t| json!({"type": "text_delta", "text": t}));
        block(json!({"type": "text", "text": ""}), texts.collect());
    }
    for (id, name, input) in &rendered.calls {
        let inputs =
            pieces(input).into_iter().map(|t| json!({"type": "input_json_delta", "partial_json": t}));
        block(json!({"type": "tool_use", "id": id, "name": name, "input": {}}), inputs.collect());
    }
    events.push(event(&json!({"type": "message_delta",
        "delta": {"stop_reason": stop(rendered.stop), "stop_sequence": null},
        "usage": usage(rendered, rendered.output_tokens),
    })));
    events.push(event(&json!({"type": "message_stop"})));
    events
}

pub(super) fn more_text(text: &str) -> String {
    event(&json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}))
}

pub(super) fn whole(rendered: &RenderedAnswer<'_>) -> Value {
    let mut content = Vec::new();
    if !rendered.say.thinking.is_empty() {
        content.push(
            json!({"type": "thinking", "thinking": rendered.say.thinking, "signature": rendered.signature}),
        );
    }
    if !rendered.text.is_empty() {
        content.push(json!({"type": "text", "text": rendered.text}));
    }
    for (id, name, input) in &rendered.calls {
        let input: Value = serde_json::from_str(input).unwrap_or_default();
        content.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
    }
    json!({"id": format!("msg_{}", rendered.number), "type": "message", "role": "assistant", "model": rendered.model,
        "content": content, "stop_reason": stop(rendered.stop), "stop_sequence": null,
        "usage": usage(rendered, rendered.output_tokens)})
}

fn usage(rendered: &RenderedAnswer<'_>, output: u64) -> Value {
    if rendered.say.delivery.uncounted {
        return json!({});
    }
    let usage = &rendered.say.usage;
    json!({
        "input_tokens": usage.input_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": output,
    })
}

fn stop(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refusal => "refusal",
        StopReason::ContextWindow => "model_context_window_exceeded",
    }
}

fn event(data: &Value) -> String {
    let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n")
}
