//! Renders answers as the Responses API sends them, with the end mark that Open Responses asks for.

use rawko_core::message::StopReason;
use serde_json::{Map, Value, json};

use super::{RenderedAnswer, pieces};

pub(super) fn events(rendered: &RenderedAnswer<'_>) -> Vec<String> {
    let mut stream = Stream { events: Vec::new() };
    let begun = response(rendered, "in_progress", json!([]), Value::Null);
    stream.add("response.created", json!({"response": begun}));
    stream.add("response.in_progress", json!({"response": begun}));
    let items = items(rendered);
    for (at, item) in items.iter().enumerate() {
        stream.item(at, item);
    }
    let last = last(rendered, &items);
    let kind = match rendered.stop {
        StopReason::ContextWindow => "response.failed",
        StopReason::MaxTokens => "response.incomplete",
        StopReason::EndTurn | StopReason::ToolUse | StopReason::Refusal | StopReason::Paused => {
            "response.completed"
        }
    };
    stream.add(kind, json!({"response": last}));
    stream.events.push("data: [DONE]\n".to_owned());
    stream.events
}

pub(super) fn more_text(text: &str) -> String {
    let mut stream = Stream { events: Vec::new() };
    let delta = json!({"item_id": "msg_0", "output_index": 0, "content_index": 0, "delta": text});
    stream.add("response.output_text.delta", delta);
    stream.events.concat()
}

pub(super) fn whole(rendered: &RenderedAnswer<'_>) -> Value {
    last(rendered, &items(rendered))
}

/// The response as it is at its end.
fn last(rendered: &RenderedAnswer<'_>, items: &[Value]) -> Value {
    let (status, error) = match rendered.stop {
        StopReason::MaxTokens => ("incomplete", Value::Null),
        StopReason::ContextWindow => {
            let message = "Your input exceeds the context window of this model. Please adjust your input and try again.";
            ("failed", json!({"code": "context_length_exceeded", "message": message}))
        }
        StopReason::EndTurn | StopReason::ToolUse | StopReason::Refusal | StopReason::Paused => {
            ("completed", Value::Null)
        }
    };
    let mut response = response(rendered, status, json!(items), error);
    if status == "incomplete" {
        response["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    if !rendered.say.delivery.uncounted {
        response["usage"] = usage(rendered);
    }
    response
}

fn response(rendered: &RenderedAnswer<'_>, status: &str, output: Value, error: Value) -> Value {
    json!({
        "id": format!("resp_{}", rendered.number), "object": "response", "created_at": 0, "status": status,
        "error": error, "incomplete_details": null, "model": rendered.model, "output": output, "usage": null,
        "store": false,
    })
}

/// The items of the answer: reasoning, a message, calls.
fn items(rendered: &RenderedAnswer<'_>) -> Vec<Value> {
    let (say, number) = (rendered.say, rendered.number);
    let mut items = Vec::new();
    if !say.thinking.is_empty() || !rendered.signature.is_empty() {
        let summary: Vec<Value> = (!say.thinking.is_empty())
            .then(|| json!({"type": "summary_text", "text": say.thinking}))
            .into_iter()
            .collect();
        items.push(json!({"id": format!("rs_{number}"), "type": "reasoning", "summary": summary,
            "encrypted_content": rendered.signature}));
    }
    for search in &say.searches {
        let sources: Vec<Value> =
            search.found.iter().map(|(_, url)| json!({"type": "url", "url": url})).collect();
        let status = if search.error.is_some() { "failed" } else { "completed" };
        let action = json!({"type": "search", "query": search.query, "sources": sources});
        items.push(json!({"id": search.id, "type": "web_search_call", "status": status, "action": action}));
    }
    if !rendered.text.is_empty() {
        let found = say.searches.iter().filter_map(|search| search.found.first());
        let end = rendered.text.chars().count();
        let cited: Vec<Value> = found
            .map(|(title, url)| {
                json!({"type": "url_citation", "title": title, "url": url, "start_index": 0, "end_index": end})
            })
            .collect();
        let part = if rendered.stop == StopReason::Refusal {
            json!({"type": "refusal", "refusal": rendered.text})
        } else {
            json!({"type": "output_text", "text": rendered.text, "annotations": cited})
        };
        items.push(json!({"id": format!("msg_{number}"), "type": "message", "status": "completed",
            "role": "assistant", "content": [part]}));
    }
    for (at, (id, name, input)) in rendered.calls.iter().enumerate() {
        items.push(json!({"id": format!("fc_{number}_{at}"), "type": "function_call", "status": "completed",
            "call_id": id, "name": name, "arguments": input}));
    }
    items
}

/// Events in order.
struct Stream {
    events: Vec<String>,
}

impl Stream {
    fn add(&mut self, kind: &str, fields: Value) {
        let mut data = Map::from_iter([("type".to_owned(), json!(kind))]);
        data.insert("sequence_number".to_owned(), json!(self.events.len()));
        data.extend(fields.as_object().cloned().unwrap_or_default());
        self.events.push(format!("event: {kind}\ndata: {}\n", Value::Object(data)));
    }

    /// All events of the item at this index.
    fn item(&mut self, at: usize, item: &Value) {
        let id = &item["id"];
        let mut empty = item.clone();
        empty["status"] = json!("in_progress");
        match item["type"].as_str() {
            Some("reasoning") => {
                empty["summary"] = json!([]);
                self.add("response.output_item.added", json!({"output_index": at, "item": empty}));
                for (index, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
                    let place = json!({"item_id": id, "output_index": at, "summary_index": index});
                    self.part(
                        "response.reasoning_summary_part",
                        "response.reasoning_summary_text",
                        &place,
                        part,
                    );
                }
            }
            Some("message") => {
                empty["content"] = json!([]);
                self.add("response.output_item.added", json!({"output_index": at, "item": empty}));
                for (index, part) in item["content"].as_array().into_iter().flatten().enumerate() {
                    let place = json!({"item_id": id, "output_index": at, "content_index": index});
                    let text =
                        if part["type"] == "refusal" { "response.refusal" } else { "response.output_text" };
                    self.part("response.content_part", text, &place, part);
                }
            }
            Some("web_search_call") => {
                empty.as_object_mut().map(|fields| fields.remove("action"));
                self.add("response.output_item.added", json!({"output_index": at, "item": empty}));
                for step in ["in_progress", "searching", "completed"] {
                    let place = json!({"item_id": id, "output_index": at});
                    self.add(&format!("response.web_search_call.{step}"), place);
                }
            }
            _ => {
                empty["arguments"] = json!("");
                self.add("response.output_item.added", json!({"output_index": at, "item": empty}));
                let place = json!({"item_id": id, "output_index": at});
                let arguments = item["arguments"].as_str().unwrap_or_default();
                for piece in pieces(arguments) {
                    let delta = with(&place, "delta", json!(piece));
                    self.add("response.function_call_arguments.delta", delta);
                }
                let done = with(&place, "arguments", json!(arguments));
                self.add("response.function_call_arguments.done", done);
            }
        }
        self.add("response.output_item.done", json!({"output_index": at, "item": item}));
    }

    /// A part of an item, with its text in pieces.
    fn part(&mut self, part_kind: &str, text_kind: &str, place: &Value, part: &Value) {
        let key = if part["type"] == "refusal" { "refusal" } else { "text" };
        let mut empty = part.clone();
        empty[key] = json!("");
        self.add(&format!("{part_kind}.added"), with(place, "part", empty));
        for piece in pieces(part[key].as_str().unwrap_or_default()) {
            self.add(&format!("{text_kind}.delta"), with(place, "delta", json!(piece)));
        }
        self.add(&format!("{text_kind}.done"), with(place, key, part[key].clone()));
        self.add(&format!("{part_kind}.done"), with(place, "part", part.clone()));
    }
}

/// `value` with another field.
fn with(value: &Value, field: &str, content: Value) -> Value {
    let mut value = value.clone();
    value[field] = content;
    value
}

fn usage(rendered: &RenderedAnswer<'_>) -> Value {
    let usage = &rendered.say.usage;
    json!({
        "input_tokens": usage.prompt_tokens(),
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens},
        "output_tokens": rendered.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens().saturating_add(rendered.output_tokens),
    })
}
