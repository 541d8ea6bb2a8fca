//! Renders answers as the Messages API sends them.

use rawko_core::message::StopReason;
use serde_json::{Value, json};

use super::{RenderedAnswer, pieces};
use crate::answer::SearchPart;
use crate::service::responses::encrypt;

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
    for searched in search_blocks(rendered) {
        let mut start = searched.clone();
        let input = searched.get("input").map(Value::to_string).unwrap_or_default();
        if !input.is_empty() {
            start["input"] = json!({});
        }
        let inputs =
            pieces(&input).into_iter().map(|t| json!({"type": "input_json_delta", "partial_json": t}));
        block(start, inputs.collect());
    }
    if !rendered.text.is_empty() {
        let texts = pieces(&rendered.text).into_iter().map(|t| json!({"type": "text_delta", "text": t}));
        let cited =
            citations(rendered).into_iter().map(|one| json!({"type": "citations_delta", "citation": one}));
        block(json!({"type": "text", "text": ""}), texts.chain(cited).collect());
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
    content.extend(search_blocks(rendered));
    if !rendered.text.is_empty() {
        let mut text = json!({"type": "text", "text": rendered.text});
        let cited = citations(rendered);
        if !cited.is_empty() {
            text["citations"] = json!(cited);
        }
        content.push(text);
    }
    for (id, name, input) in &rendered.calls {
        let input: Value = serde_json::from_str(input).unwrap_or_default();
        content.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
    }
    json!({"id": format!("msg_{}", rendered.number), "type": "message", "role": "assistant", "model": rendered.model,
        "content": content, "stop_reason": stop(rendered.stop), "stop_sequence": null,
        "usage": usage(rendered, rendered.output_tokens)})
}

/// The searches as blocks (<https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool>).
fn search_blocks(rendered: &RenderedAnswer<'_>) -> Vec<Value> {
    let mut blocks = Vec::new();
    for search in &rendered.say.searches {
        if search.part != SearchPart::Result {
            blocks.push(json!({"type": "server_tool_use", "id": search.id, "name": "web_search",
                "input": {"query": search.query}}));
        }
        if search.part == SearchPart::Call {
            continue;
        }
        let found = |(title, url): &(String, String)| {
            json!({"type": "web_search_result", "title": title, "url": url, "page_age": null,
                "encrypted_content": encrypt(rendered.number, url)})
        };
        let content = match &search.error {
            Some(code) => json!({"type": "web_search_tool_result_error", "error_code": code}),
            None => search.found.iter().map(found).collect(),
        };
        blocks.push(json!({"type": "web_search_tool_result", "tool_use_id": search.id, "content": content}));
    }
    blocks
}

/// The text cites the first result of each search.
fn citations(rendered: &RenderedAnswer<'_>) -> Vec<Value> {
    let first = rendered.say.searches.iter().filter_map(|search| search.found.first());
    let cite = |(title, url): &(String, String)| {
        json!({"type": "web_search_result_location", "url": url, "title": title, "cited_text": "…",
            "encrypted_index": encrypt(rendered.number, title)})
    };
    first.map(cite).collect()
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
        "server_tool_use": {"web_search_requests": usage.web_searches},
    })
}

fn stop(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refusal => "refusal",
        StopReason::ContextWindow => "model_context_window_exceeded",
        StopReason::Paused => "pause_turn",
    }
}

fn event(data: &Value) -> String {
    let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n")
}
