//! Decodes answers as Chat Completions streams them
//! (<https://platform.openai.com/docs/api-reference/chat-streaming>), and as many imitators do.
//!
//! Servers differ most in tool calls: ids and names arrive whole, in pieces, again with every chunk, or not at all; several
//! calls may share an index or an id. Reasoning arrives as `reasoning_content`, as `reasoning` or as parts of the content.

use std::sync::Arc;

use rawko_core::error::ErrorCode;
use rawko_core::message::{Message, StopReason};
use rawko_core::usage::Usage;
use serde_json::Value;

use crate::draft::{Events, MessageDraft};
use crate::http::failure::AttemptFailure;
use crate::http::sse::SseEvent;
use crate::http::wire::{self, DecodeProgress, ResponseDecoder, parse_event};
use crate::provider::ProviderEvent;

/// Positions of the blocks in the message.
const THINKING: u64 = 0;
const TEXT: u64 = 1;
const FIRST_CALL: u64 = 2;

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct OpenAiDecoder {
    draft: MessageDraft,
    calls: Vec<PartialCall>,
    /// The number of chunks so far.
    chunks: u64,
    finished: bool,
    done: bool,
}

/// A tool call as far as it has arrived.
#[derive(Debug)]
struct PartialCall {
    /// The server's index of it.
    index: u64,
    /// The server's id of it.
    id: String,
    name: String,
    input: String,
    /// How much of the input the draft contains.
    given: usize,
    /// The draft contains it: id and name are final.
    announced: bool,
    /// The last chunk that contained a piece of it.
    chunk: u64,
}

impl OpenAiDecoder {
    /// For the answer to a conversation of these messages.
    pub(super) fn new(messages: &[Arc<Message>]) -> Self {
        let draft = MessageDraft::answer_to(messages);
        Self { draft, calls: Vec::new(), chunks: 0, finished: false, done: false }
    }
}

impl ResponseDecoder for OpenAiDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Events) -> Result<DecodeProgress, AttemptFailure> {
        match event.data.trim() {
            "[DONE]" => return self.end_mark(out),
            "" => return Ok(self.progress()),
            _ => {}
        }
        let data = parse_event(event)?;
        if is_error(&data) || (event.name == "error" && data.get("choices").is_none()) {
            return Err(AttemptFailure::from_value(&data));
        }
        self.chunk(&data, "delta", out)?;
        Ok(self.progress())
    }

    fn whole(&mut self, body: &Value, out: &mut Events) -> Result<(), AttemptFailure> {
        if is_error(body) || body.pointer("/choices/0/message").is_none() {
            return Err(AttemptFailure::from_value(body));
        }
        self.chunk(body, "message", out)?;
        self.announce_all(out);
        self.done = true;
        Ok(())
    }

    fn progress(&self) -> DecodeProgress {
        match (self.done, self.finished) {
            (true, _) => DecodeProgress::Done,
            (false, true) => DecodeProgress::Closing,
            (false, false) => DecodeProgress::Open,
        }
    }

    fn consumed(&self) -> Option<Usage> {
        self.draft.consumed().or_else(|| (!self.calls.is_empty()).then(Usage::default))
    }

    fn finish(mut self, out: &mut Events) -> ProviderEvent {
        self.announce_all(out);
        self.draft.finish(out)
    }
}

impl OpenAiDecoder {
    /// Handles `[DONE]`. A few servers never send a finish reason, but all send some content before `[DONE]`.
    fn end_mark(&mut self, out: &mut Events) -> Result<DecodeProgress, AttemptFailure> {
        if !self.finished && self.draft.is_empty() && self.calls.is_empty() {
            return Err(AttemptFailure::transient(
                ErrorCode::NetworkError,
                "the server ended the answer before it began",
            ));
        }
        self.announce_all(out);
        self.done = true;
        Ok(DecodeProgress::Done)
    }

    fn chunk(&mut self, data: &Value, key: &str, out: &mut Events) -> Result<(), AttemptFailure> {
        if let Some(usage) = data.get("usage").filter(|u| u.is_object()) {
            self.draft.usage = usage_of(usage);
        }
        let Some(choice) = data.pointer("/choices/0") else { return Ok(()) };
        if let Some(message) = choice.get(key) {
            self.message(message, out);
        }
        // Groq reports usage beside the choice.
        if let Some(usage) = data.pointer("/x_groq/usage").filter(|u| u.is_object()) {
            self.draft.usage = usage_of(usage);
        }
        match choice.get("finish_reason").and_then(Value::as_str) {
            None | Some("") => Ok(()),
            Some("error") => Err(AttemptFailure::from_value(if is_error(choice) { choice } else { data })),
            Some(reason) => {
                self.finish_reason(reason);
                Ok(())
            }
        }
    }

    fn message(&mut self, message: &Value, out: &mut Events) {
        for key in ["reasoning_content", "reasoning"] {
            if let Some(text) = message.get(key).and_then(Value::as_str).filter(|t| !t.is_empty()) {
                self.draft.thinking(THINKING, text, out);
                break;
            }
        }
        match message.get("content") {
            Some(Value::String(text)) => self.text(text, out),
            Some(Value::Array(parts)) => parts.iter().for_each(|part| self.part(part, out)),
            _ => {}
        }
        if let Some(refusal) = message.get("refusal").and_then(Value::as_str).filter(|t| !t.is_empty()) {
            self.text(refusal, out);
            self.draft.stop = Some(StopReason::Refusal);
        }
        self.chunks += 1;
        let calls = message.get("tool_calls").and_then(Value::as_array).filter(|calls| !calls.is_empty());
        for (at, call) in calls.into_iter().flatten().enumerate() {
            self.call(call, at, out);
        }
        // The older form of a tool call. llama-cpp-python sends both forms in one chunk
        // (https://github.com/abetlen/llama-cpp-python/blob/main/llama_cpp/llama_chat_format.py).
        let function = message.get("function_call").filter(|f| f.is_object() && calls.is_none());
        if let Some(function) = function {
            self.call(&serde_json::json!({"index": 0, "function": function}), 0, out);
        }
    }

    fn text(&mut self, text: &str, out: &mut Events) {
        if !text.is_empty() {
            self.draft.text(TEXT, text, out);
        }
    }

    /// A part of a content list: text, or Mistral's reasoning with texts inside.
    fn part(&mut self, part: &Value, out: &mut Events) {
        let inner = part.get("thinking");
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            self.text(text, out);
        } else if let Some(text) = inner.and_then(Value::as_str) {
            self.draft.thinking(THINKING, text, out);
        } else {
            for text in
                inner.and_then(Value::as_array).into_iter().flatten().filter_map(|p| p.get("text")?.as_str())
            {
                self.draft.thinking(THINKING, text, out);
            }
        }
    }

    /// A piece of a call, `at` this position in the chunk's list.
    fn call(&mut self, piece: &Value, at: usize, out: &mut Events) {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = text(piece.get("id"));
        let name = text(piece.pointer("/function/name"));
        let input = match piece.pointer("/function/arguments") {
            Some(Value::String(text)) => text.clone(),
            // Some servers send the arguments as an object instead of text.
            Some(value @ (Value::Object(_) | Value::Array(_))) => value.to_string(),
            _ => String::new(),
        };
        let slot = self.slot(piece.get("index").and_then(Value::as_u64), at, &id, &name, &input);
        let Some(call) = self.calls.get_mut(slot) else { return };
        if !call.announced {
            join(&mut call.id, &id);
            join(&mut call.name, &name);
        }
        call.chunk = self.chunks;
        call.input.push_str(&input);
        // Arguments follow the name almost everywhere, so id and name are complete now. Some servers send the name late, or in
        // the last piece: a call without one waits for it.
        if !call.input.is_empty() && !call.name.is_empty() {
            self.announce(slot, out);
        }
    }

    /// The call that a piece belongs to; a new one if the piece begins one.
    fn slot(&mut self, index: Option<u64>, at: usize, id: &str, name: &str, input: &str) -> usize {
        let same_id = |call: &&PartialCall| !id.is_empty() && call.id == id;
        let found = match index {
            // The last one: calls that share an index follow each other.
            Some(index) => self.calls.iter().rposition(|call| call.index == index),
            None if !id.is_empty() => self.calls.iter().rposition(|call| same_id(&call)),
            None if name.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        };
        if let Some(slot) = found {
            // A chunk never has two pieces of one call, so a piece with a name is another call under the same id. In a later
            // chunk it is another one if the arguments were complete and begin again.
            let is_other = |call: &PartialCall| call.id != id || input.trim_start().starts_with('{');
            // The same call with nothing before its arguments, or with its arguments once more.
            let is_again = |call: &PartialCall| {
                let same = call.id == id && call.name == name && index.is_some() && call.chunk != self.chunks;
                same && (is_empty_object(&call.input) || call.input == input)
            };
            let has_both = !id.is_empty() && !name.is_empty();
            let begins_another = self.calls.get(slot).filter(|call| has_both && !is_again(call));
            let begins_another = begins_another.is_some_and(|call| {
                call.chunk == self.chunks || (is_other(call) && is_complete(&call.input))
            });
            if !begins_another {
                return slot;
            }
        }
        let index = index.unwrap_or(at as u64);
        self.calls.push(PartialCall {
            index,
            id: String::new(),
            name: String::new(),
            input: String::new(),
            given: 0,
            announced: false,
            chunk: self.chunks,
        });
        self.calls.len() - 1
    }

    /// Passes on to the draft what it does not have yet of a call.
    fn announce(&mut self, slot: usize, out: &mut Events) {
        let Some(call) = self.calls.get_mut(slot) else { return };
        let place = FIRST_CALL + slot as u64;
        if !call.announced {
            call.announced = true;
            self.draft.tool(place, &call.id, &call.name, out);
        }
        self.draft.tool_input(place, call.input.get(call.given..).unwrap_or_default(), out);
        call.given = call.input.len();
    }

    fn announce_all(&mut self, out: &mut Events) {
        for slot in 0..self.calls.len() {
            self.announce(slot, out);
        }
    }

    fn finish_reason(&mut self, reason: &str) {
        self.finished = true;
        let stop = match reason {
            "tool_calls" | "function_call" | "tool_use" => StopReason::ToolUse,
            "length" | "max_tokens" => StopReason::MaxTokens,
            "model_length" => StopReason::ContextWindow,
            "content_filter" | "refusal" => StopReason::Refusal,
            _ => StopReason::EndTurn,
        };
        // A refusal in words ends with `stop`.
        if self.draft.stop != Some(StopReason::Refusal) {
            self.draft.stop = Some(stop);
        }
    }
}

/// Whether a body is an error instead of an answer; `"error": null` is not one.
fn is_error(data: &Value) -> bool {
    data.get("error").is_some_and(|error| !error.is_null())
}

/// Whether the arguments are complete.
fn is_complete(input: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(input).is_ok()
}

/// Whether these are arguments that say nothing.
fn is_empty_object(input: &str) -> bool {
    input
        .trim()
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|inner| inner.trim().is_empty())
}

/// Adds a piece to an id or a name, unless it repeats it: some servers send the whole of it again with every chunk.
fn join(known: &mut String, piece: &str) {
    if piece.is_empty() || piece == known {
        return;
    }
    if piece.starts_with(known.as_str()) {
        piece.clone_into(known);
    } else {
        known.push_str(piece);
    }
}

/// Usage as Chat Completions and its imitators count it.
fn usage_of(usage: &Value) -> Usage {
    let count = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    let read = count("/prompt_tokens_details/cached_tokens").or_else(|| count("/prompt_cache_hit_tokens"));
    wire::usage_of(
        count("/prompt_tokens").unwrap_or_default(),
        read.unwrap_or_default(),
        count("/prompt_tokens_details/cache_write_tokens").unwrap_or_default(),
        count("/completion_tokens").unwrap_or_default(),
    )
}
