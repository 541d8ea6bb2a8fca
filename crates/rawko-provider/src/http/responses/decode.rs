//! Decodes answers as the Responses API streams them
//! (<https://platform.openai.com/docs/api-reference/responses-streaming>), and as its imitators do.
//!
//! An answer is a list of items, each with events of its own. Servers differ in how much of an item they stream: what is
//! missing is taken from the item as it is when it is done. Ignores unknown events and items, as Open Responses asks of
//! clients.

use std::sync::Arc;

use rawko_core::error::ErrorCode;
use rawko_core::hosted::{HostedBlock, HostedResult, HostedWire};
use rawko_core::message::{Message, StopReason, ToolCall};
use rawko_core::policy::WEB_SEARCH;
use rawko_core::usage::Usage;
use serde_json::{Map, Value, json};

use crate::draft::{Events, MessageDraft};
use crate::http::failure::AttemptFailure;
use crate::http::sse::SseEvent;
use crate::http::wire::{self, DecodeProgress, ResponseDecoder, parse_event};
use crate::provider::ProviderEvent;

/// The events that carry an answer; the data of others is not parsed.
const KNOWN: &[&str] = &[
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.delta",
    "response.reasoning.delta",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "error",
];

/// The places of one item in the draft: a message has a block for each of its parts.
const PARTS: u64 = 1 << 16;

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct ResponsesDecoder {
    draft: MessageDraft,
    /// The ids of the items by their index, for servers whose events name only the one or the other.
    items: Vec<(u64, String)>,
    /// Searches of the web that the server ran.
    searches: u64,
    done: bool,
}

impl ResponsesDecoder {
    /// For the answer to a conversation of these messages.
    pub(super) fn new(messages: &[Arc<Message>]) -> Self {
        Self { draft: MessageDraft::answer_to(messages), items: Vec::new(), searches: 0, done: false }
    }
}

impl ResponseDecoder for ResponsesDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Events) -> Result<DecodeProgress, AttemptFailure> {
        if !event.name.is_empty() && !KNOWN.contains(&event.name.as_str()) {
            return Ok(self.progress());
        }
        match event.data.trim() {
            "[DONE]" => return Err(cut_off()),
            "" => return Ok(self.progress()),
            _ => {}
        }
        let data = parse_event(event)?;
        let kind = str_at(&data, "/type").unwrap_or(&event.name);
        let delta = str_at(&data, "/delta").unwrap_or_default();
        match kind {
            "response.output_item.added" => self.added(&data, out),
            "response.output_item.done" => self.item_done(&data, out),
            "response.output_text.delta" => self.draft.text(self.place(&data), delta, out),
            "response.refusal.delta" => {
                self.draft.text(self.place(&data), delta, out);
                self.draft.stop = Some(StopReason::Refusal);
            }
            "response.reasoning_summary_part.added" => self.summary_part(&data, out),
            // `reasoning_text` is `OpenAI`'s name, `reasoning` that of Open Responses.
            "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.reasoning.delta" => self.draft.thinking(self.item(&data), delta, out),
            "response.function_call_arguments.delta" => {
                self.draft.tool_input(self.item(&data), delta, out);
            }
            "response.function_call_arguments.done" => {
                self.arguments(self.item(&data), str_at(&data, "/arguments"), out);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.response(data.get("response").unwrap_or(&data), out)?;
            }
            "error" => return Err(AttemptFailure::from_value(&data)),
            // Gateways report failures in the way of Chat Completions.
            _ if data.get("error").is_some_and(Value::is_object) => {
                return Err(AttemptFailure::from_value(&data));
            }
            _ => {}
        }
        Ok(self.progress())
    }

    fn whole(&mut self, body: &Value, out: &mut Events) -> Result<(), AttemptFailure> {
        if !body.get("output").is_some_and(Value::is_array) {
            return Err(AttemptFailure::from_value(body));
        }
        self.response(body, out)
    }

    fn progress(&self) -> DecodeProgress {
        if self.done { DecodeProgress::Done } else { DecodeProgress::Open }
    }

    fn consumed(&self) -> Option<Usage> {
        self.draft.consumed()
    }

    fn finish(self, out: &mut Events) -> ProviderEvent {
        self.draft.finish(out)
    }
}

impl ResponsesDecoder {
    /// The place of the item that an event is about.
    fn item(&self, data: &Value) -> u64 {
        let id = str_at(data, "/item_id").unwrap_or_default();
        let by_id = || self.items.iter().rfind(|(_, other)| !id.is_empty() && other == id).map(|(at, _)| *at);
        let latest = || self.items.last().map_or(0, |(at, _)| *at);
        data.get("output_index").and_then(Value::as_u64).or_else(by_id).unwrap_or_else(latest) * PARTS
    }

    /// The place of the part of a message that an event is about.
    fn place(&self, data: &Value) -> u64 {
        let part = data.get("content_index").and_then(Value::as_u64).unwrap_or_default();
        self.item(data) + part.min(PARTS - 1)
    }

    fn added(&mut self, data: &Value, out: &mut Events) {
        let Some(item) = data.get("item") else { return };
        let next = self.items.last().map_or(0, |(at, _)| at + 1);
        let at = data.get("output_index").and_then(Value::as_u64).unwrap_or(next);
        self.begin(at, item, out);
    }

    /// Begins the item at this index, unless it has begun.
    fn begin(&mut self, at: u64, item: &Value, out: &mut Events) {
        if self.items.iter().any(|(other, _)| *other == at) {
            return;
        }
        let text = |pointer: &str| str_at(item, pointer).unwrap_or_default();
        self.items.push((at, text("/id").to_owned()));
        match text("/type") {
            "function_call" => {
                let id = str_at(item, "/call_id").filter(|id| !id.is_empty()).unwrap_or(text("/id"));
                self.draft.tool(at * PARTS, id, text("/name"), out);
            }
            "reasoning" => self.draft.thinking(at * PARTS, "", out),
            _ => {}
        }
    }

    /// Another part of a summary is a paragraph of its own.
    fn summary_part(&mut self, data: &Value, out: &mut Events) {
        let place = self.item(data);
        if self.draft.received_len(place) > 0 {
            self.draft.thinking(place, "\n\n", out);
        }
    }

    fn item_done(&mut self, data: &Value, out: &mut Events) {
        let Some(item) = data.get("item") else { return };
        let known = str_at(item, "/id").filter(|id| !id.is_empty());
        let by_id = known.and_then(|id| self.items.iter().rfind(|(_, other)| other == id)).map(|(at, _)| *at);
        let next = self.items.last().map_or(0, |(at, _)| at + 1);
        let at = data.get("output_index").and_then(Value::as_u64).or(by_id).unwrap_or(next);
        self.complete(at, item, out);
    }

    /// Adds what was not streamed of the item at this index, and completes it.
    fn complete(&mut self, at: u64, item: &Value, out: &mut Events) {
        self.begin(at, item, out);
        let place = at * PARTS;
        match str_at(item, "/type").unwrap_or_default() {
            "message" => {
                for (place, part) in (place..).zip(items(item, "content")) {
                    let refusal = str_at(part, "/refusal");
                    let text = refusal.or_else(|| str_at(part, "/text")).unwrap_or_default();
                    let had = self.draft.received_len(place);
                    self.draft.text(place, text.get(had..).unwrap_or_default(), out);
                    self.draft.cite_all(place, HostedWire::Responses, items(part, "annotations"));
                    if refusal.is_some() {
                        self.draft.stop = Some(StopReason::Refusal);
                    }
                }
            }
            "function_call" => {
                self.arguments(place, str_at(item, "/arguments"), out);
                self.draft.tool_end(place, out);
            }
            "web_search_call" => {
                // Pages that it opens are free.
                let action = str_at(item, "/action/type").unwrap_or("search");
                self.searches += u64::from(action == "search");
                self.draft.hosted(place, search(item));
            }
            "reasoning" => {
                if self.draft.received_len(place) == 0 {
                    self.draft.thinking(place, &reasoning_text(item), out);
                }
                if let Some(item) = handed_back(item) {
                    self.draft.signature(place, &item.to_string());
                }
            }
            _ => {}
        }
    }

    /// Adds what was not streamed of a call's arguments. Some servers send them as an object.
    fn arguments(&mut self, place: u64, arguments: Option<&str>, out: &mut Events) {
        let had = self.draft.received_len(place);
        let rest = arguments.and_then(|all| all.get(had..)).unwrap_or_default();
        self.draft.tool_input(place, rest, out);
    }

    /// Handles the response as it is at its end.
    fn response(&mut self, response: &Value, out: &mut Events) -> Result<(), AttemptFailure> {
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            self.draft.usage = usage_of(usage);
        }
        if let Some(error) = response.get("error").filter(|error| error.is_object()) {
            return Err(AttemptFailure::from_value(&json!({"error": error})));
        }
        match str_at(response, "/status").unwrap_or("completed") {
            "completed" => {}
            "incomplete" => {
                let reason = str_at(response, "/incomplete_details/reason").unwrap_or_default();
                self.draft.stop = Some(match reason {
                    "content_filter" => StopReason::Refusal,
                    // `max_output_tokens`. Whatever else it was: the answer is not whole.
                    _ => StopReason::MaxTokens,
                });
            }
            status => {
                let message =
                    format!("the server ended the response as `{}`", rawko_core::text::truncate(status, 100));
                return Err(AttemptFailure::transient(ErrorCode::Overloaded, message));
            }
        }
        // A server that streamed no items sends all of them here.
        if self.items.is_empty() && self.draft.is_empty() {
            for (at, item) in (0..).zip(items(response, "output")) {
                self.complete(at, item, out);
            }
        }
        self.draft.usage.web_searches = self.searches;
        self.done = true;
        Ok(())
    }
}

fn cut_off() -> AttemptFailure {
    AttemptFailure::transient(
        ErrorCode::NetworkError,
        "the server closed the stream before the end of the message",
    )
}

/// The text of a reasoning item: its raw content, else its summary.
fn reasoning_text(item: &Value) -> String {
    let texts =
        |key| -> Vec<&str> { items(item, key).iter().filter_map(|part| str_at(part, "/text")).collect() };
    match texts("content") {
        content if content.is_empty() => texts("summary").join("\n\n"),
        content => content.concat(),
    }
}

/// A search, or another step of one: it has its result with it.
fn search(item: &Value) -> HostedBlock {
    let id = str_at(item, "/id").unwrap_or_default().to_owned();
    let mut fields = item.as_object().cloned().unwrap_or_default();
    fields.retain(|_, value| !value.is_null());
    let mut input = item.get("action").cloned().unwrap_or_else(|| json!({}));
    let sources = input.as_object_mut().and_then(|action| action.remove("sources"));
    input.sort_all_objects();
    let sources = sources.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let line = |(number, source): (usize, &Value)| {
        format!("{number}. {}\n", str_at(source, "/url").or(str_at(source, "/name")).unwrap_or_default())
    };
    let lines: String = (1..).zip(sources).map(line).collect();
    let is_error = str_at(item, "/status") == Some("failed");
    let content = match (is_error, lines.is_empty()) {
        (true, _) => "The search failed.".to_owned(),
        (false, true) => "Done. The provider does not show what it found.".to_owned(),
        (false, false) => lines,
    };
    let call =
        ToolCall { id: id.clone(), name: WEB_SEARCH.into(), input, invalid_input: None, withheld: None };
    HostedBlock {
        wire: HostedWire::Responses,
        block: Value::Object(fields).to_string(),
        call: Some(call),
        result: Some(HostedResult { call_id: id, content, is_error }),
    }
}

/// A reasoning item as it goes back with the next request; `None` if it cannot.
///
/// An item without encrypted or raw reasoning would be looked up on the server, where it is not stored
/// (<https://github.com/openai/openai-agents-js/issues/546>), and one that was cut off cannot be decrypted. Left out of the
/// others: the status, which is refused (<https://github.com/BerriAI/litellm/issues/13420>), fields that are null, and the id
/// where the encrypted reasoning says all, because it may be looked up too (<https://github.com/openai/codex/pull/3390>).
fn handed_back(item: &Value) -> Option<Value> {
    let has = |key: &str| match item.get(key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(parts)) => !parts.is_empty(),
        _ => false,
    };
    let is_encrypted = has("encrypted_content");
    if str_at(item, "/status") == Some("incomplete") || !(is_encrypted || has("content")) {
        return None;
    }
    let mut fields: Map<String, Value> = item.as_object()?.clone();
    fields.retain(|name, value| name != "status" && !value.is_null() && !(is_encrypted && name == "id"));
    // Required, even if it is empty.
    fields.entry("summary").or_insert_with(|| json!([]));
    Some(Value::Object(fields))
}

/// The elements of the array under `key`.
fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn usage_of(usage: &Value) -> Usage {
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    wire::usage_of(
        count("/input_tokens"),
        count("/input_tokens_details/cached_tokens"),
        count("/input_tokens_details/cache_write_tokens"),
        count("/output_tokens"),
    )
}

fn str_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

#[cfg(test)]
mod tests;
