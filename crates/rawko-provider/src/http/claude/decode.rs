//! Decodes answers as the Messages API streams them
//! (<https://platform.claude.com/docs/en/build-with-claude/streaming>).
//!
//! Ignores unknown event and block types, as the API's versioning asks of clients.

use std::sync::Arc;

use rawko_core::hosted::{HostedBlock, HostedResult, HostedWire};
use rawko_core::message::{Message, StopReason};
use rawko_core::usage::Usage;
use serde_json::Value;

use crate::draft::{Events, MessageDraft};
use crate::http::failure::AttemptFailure;
use crate::http::sse::SseEvent;
use crate::http::wire::{DecodeProgress, ResponseDecoder, parse_event};
use crate::provider::ProviderEvent;

/// The events that carry an answer; the data of others is not parsed.
const KNOWN: &[&str] = &[
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
];

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct ClaudeDecoder {
    draft: MessageDraft,
    stopped: bool,
    done: bool,
}

impl ClaudeDecoder {
    /// For the answer to a conversation of these messages.
    pub(super) fn new(messages: &[Arc<Message>]) -> Self {
        Self { draft: MessageDraft::answer_to(messages), stopped: false, done: false }
    }
}

impl ResponseDecoder for ClaudeDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Events) -> Result<DecodeProgress, AttemptFailure> {
        if !event.name.is_empty() && !KNOWN.contains(&event.name.as_str()) {
            return Ok(self.progress());
        }
        let data = parse_event(event)?;
        let place = data.get("index").and_then(Value::as_u64).unwrap_or_default();
        match str_at(&data, "/type").unwrap_or(&event.name) {
            "message_start" => self.usage(data.pointer("/message/usage")),
            "content_block_start" => self.start(place, data.get("content_block"), out),
            "content_block_delta" => self.delta(place, data.get("delta"), out),
            "content_block_stop" => self.draft.tool_end(place, out),
            "message_delta" => {
                self.usage(data.get("usage"));
                self.stop(str_at(&data, "/delta/stop_reason"));
            }
            "message_stop" => self.done = true,
            "error" => return Err(AttemptFailure::from_value(&data)),
            _ => {}
        }
        Ok(self.progress())
    }

    fn whole(&mut self, body: &Value, out: &mut Events) -> Result<(), AttemptFailure> {
        let blocks = match body.get("content") {
            Some(Value::Array(blocks)) => blocks,
            _ => return Err(AttemptFailure::from_value(body)),
        };
        for (place, block) in (0_u64..).zip(blocks) {
            self.start(place, Some(block), out);
            self.draft.tool_end(place, out);
        }
        self.usage(body.get("usage"));
        self.stop(str_at(body, "/stop_reason"));
        self.done = true;
        Ok(())
    }

    fn progress(&self) -> DecodeProgress {
        match (self.done, self.stopped) {
            (true, _) => DecodeProgress::Done,
            (false, true) => DecodeProgress::Closing,
            (false, false) => DecodeProgress::Open,
        }
    }

    fn consumed(&self) -> Option<Usage> {
        self.draft.consumed()
    }

    fn finish(self, out: &mut Events) -> ProviderEvent {
        self.draft.finish(out)
    }
}

impl ClaudeDecoder {
    fn start(&mut self, place: u64, block: Option<&Value>, out: &mut Events) {
        let Some(block) = block else { return };
        let text = |key: &str| str_at(block, key).unwrap_or_default();
        match text("/type") {
            "text" => {
                self.draft.text(place, text("/text"), out);
                let citations = block.get("citations").and_then(Value::as_array);
                citations.into_iter().flatten().for_each(|citation| self.draft.cite(place, citation));
            }
            "server_tool_use" => self.draft.hosted_call(place, block),
            "web_search_tool_result" => self.draft.hosted(place, found(block)),
            "thinking" => {
                self.draft.thinking(place, text("/thinking"), out);
                self.draft.signature(place, text("/signature"));
            }
            "redacted_thinking" => self.draft.redacted(place, text("/data")),
            "tool_use" => {
                self.draft.tool(place, text("/id"), text("/name"), out);
                // Streams begin with `{}` and send the input after it; whole answers contain all of it here.
                if let Some(Value::Object(input)) =
                    block.get("input").filter(|i| i.as_object().is_some_and(|o| !o.is_empty()))
                {
                    let input = serde_json::to_string(input).unwrap_or_default();
                    self.draft.tool_input(place, &input, out);
                }
            }
            _ => {}
        }
    }

    fn delta(&mut self, place: u64, delta: Option<&Value>, out: &mut Events) {
        let Some(delta) = delta else { return };
        let text = |key: &str| str_at(delta, key).unwrap_or_default();
        match text("/type") {
            "text_delta" => self.draft.text(place, text("/text"), out),
            "thinking_delta" => self.draft.thinking(place, text("/thinking"), out),
            "signature_delta" => self.draft.signature(place, text("/signature")),
            "input_json_delta" => self.draft.tool_input(place, text("/partial_json"), out),
            "citations_delta" => {
                if let Some(citation) = delta.get("citation") {
                    self.draft.cite(place, citation);
                }
            }
            _ => {}
        }
    }

    /// Counts are cumulative: a later one replaces an earlier one, and a missing one changes nothing.
    fn usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            web_searches,
            estimated: _,
        } = &mut self.draft.usage;
        if let Some(found) = usage.pointer("/server_tool_use/web_search_requests").and_then(Value::as_u64) {
            *web_searches = found;
        }
        for (key, count) in [
            ("input_tokens", input_tokens),
            ("output_tokens", output_tokens),
            ("cache_read_input_tokens", cache_read_tokens),
            ("cache_creation_input_tokens", cache_write_tokens),
        ] {
            if let Some(found) = usage.get(key).and_then(Value::as_u64) {
                *count = found;
            }
        }
    }

    fn stop(&mut self, reason: Option<&str>) {
        let Some(reason) = reason else { return };
        self.stopped = true;
        self.draft.stop = Some(match reason {
            "tool_use" => StopReason::ToolUse,
            "max_tokens" => StopReason::MaxTokens,
            "refusal" => StopReason::Refusal,
            "model_context_window_exceeded" => StopReason::ContextWindow,
            // A turn in which tools ran on the server got long; the next request continues it.
            "pause_turn" => StopReason::Paused,
            // `end_turn`, `stop_sequence`.
            _ => StopReason::EndTurn,
        });
    }
}

/// The result of a search. A failure is an object with a code where there would be a list.
fn found(block: &Value) -> HostedBlock {
    let content = block.get("content").unwrap_or(&Value::Null);
    let error = str_at(content, "/error_code");
    let line = |(number, result): (usize, &Value)| {
        let part = |pointer| str_at(result, pointer).unwrap_or_default();
        format!("{number}. {}\n   {}\n", part("/title"), part("/url"))
    };
    let results = content.as_array().map_or(&[][..], Vec::as_slice);
    let lines: String = (1..).zip(results).map(line).collect();
    let result = HostedResult {
        call_id: str_at(block, "/tool_use_id").unwrap_or_default().to_owned(),
        content: match error {
            Some(code) => format!("The search failed: {code}"),
            None if lines.is_empty() => "Nothing was found.".to_owned(),
            None => lines,
        },
        is_error: error.is_some(),
    };
    HostedBlock { wire: HostedWire::Messages, block: block.to_string(), call: None, result: Some(result) }
}

fn str_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}
