//! The model's answers as bytes, made before anything is measured.

use serde_json::{Value, json};

/// One turn with a text and a tool call, as a whole HTTP response.
pub(crate) fn call(number: usize, tool: &str, input: &Value) -> Vec<u8> {
    let events = [
        json!({"type": "message_start", "message": {"id": format!("msg_{number}"), "type": "message", "role": "assistant",
            "model": "bench", "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 100, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": format!("Step {number}: ")}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "one more look."}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "tool_use", "id": format!("toolu_{number}"), "name": tool, "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": input.to_string()}}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 40}}),
        json!({"type": "message_stop"}),
    ];
    let body: String = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).into_bytes()
}

/// The agent's last turn.
pub(crate) fn report(number: usize) -> Vec<u8> {
    call(number, "Report", &json!({"outcome": "success", "summary": "looked at everything"}))
}

/// The arbiter's decision that all is done.
pub(crate) fn complete(number: usize) -> Vec<u8> {
    call(number, "decide", &json!({"decision": "COMPLETE", "summary": "done", "reason": "nothing is left"}))
}
