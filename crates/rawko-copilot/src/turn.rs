//! One turn: what the CLI reports while a model answers, as rawko's events.
//!
//! Owns the order of these events. The CLI runs a loop of its own: it would call the model again as soon as it has the
//! results of a turn's calls. rawko runs this loop, so a turn ends here as soon as every call of the message waits for
//! its result.
//!
//! ```text
//! assistant.message_delta …  assistant.usage  assistant.message ┬─ no calls ──▶ session.idle ──────────────▶ done
//!                                                               └─ calls ─────▶ external_tool.requested, each ─▶ done
//! ```
//!
//! Where the CLI goes on by itself (it answers a call that it cannot read, or asks again after an answer that was cut
//! off), the turn ends there too, and the session is not used again: rawko decides what happens next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::message::{Message, StopReason};
use rawko_core::tool::ToolSpec;
use rawko_core::usage::Usage;
use rawko_provider::{Events, MessageDraft, ProviderEvent};
use serde_json::Value;

use crate::failure;

/// The place of reasoning in a message, of text, and of the first call.
const THINKING: u64 = 0;
const TEXT: u64 = 1;
const CALLS: u64 = 2;

/// A call whose result the CLI waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingCall {
    /// The id of the call in rawko's conversation.
    pub(crate) call: String,
    /// The CLI's id of its request.
    pub(crate) request: String,
}

/// How a turn ended.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    /// With a message.
    Done {
        /// `MessageDone`.
        event: ProviderEvent,
        /// The calls whose results the CLI waits for. `None` if the session cannot be continued.
        pending: Option<Vec<PendingCall>>,
    },
    /// Without one.
    Failed {
        /// Why.
        error: Box<ErrorInfo>,
        /// What it consumed.
        usage: Option<Usage>,
    },
}

/// A call of the message, as the CLI names it.
#[derive(Debug, Clone, Default)]
struct Call {
    name: String,
    raw: String,
}

/// A turn under way.
#[derive(Debug)]
pub(crate) struct Turn {
    before: Vec<Arc<Message>>,
    draft: MessageDraft,
    has_text: bool,
    has_message: bool,
    /// Arguments as they arrive, by the CLI's id of the call: what is not JSON arrives nowhere else.
    arriving: Vec<(String, Call)>,
    /// The names of the tools that the CLI hands out.
    tools: Vec<String>,
    /// The CLI's ids of the message's calls, in order.
    calls: Vec<String>,
    requests: BTreeMap<String, String>,
    usage: Usage,
    stop: Option<StopReason>,
    failure: Option<ErrorInfo>,
    attempt: u32,
}

impl Turn {
    /// The answer to a conversation of these messages with these tools.
    pub(crate) fn answer_to(before: &[Arc<Message>], tools: &[ToolSpec]) -> Self {
        Self {
            tools: tools.iter().map(|tool| tool.name.clone()).collect(),
            before: before.to_vec(),
            draft: MessageDraft::answer_to(before),
            has_text: false,
            has_message: false,
            arriving: Vec::new(),
            calls: Vec::new(),
            requests: BTreeMap::new(),
            usage: Usage::default(),
            stop: None,
            failure: None,
            attempt: 1,
        }
    }

    /// Takes one event of the session. Returns the end of the turn with its last event.
    pub(crate) fn take(&mut self, kind: &str, data: &Value, out: &mut Events) -> Option<End> {
        match kind {
            "assistant.message_delta" => self.text(text(data, "deltaContent"), out),
            "assistant.reasoning_delta" => self.draft.thinking(THINKING, text(data, "deltaContent"), out),
            "assistant.tool_call_delta" => self.arguments(data),
            "assistant.usage" => return self.usage(data, out),
            "assistant.message" => return self.message(data, out),
            "external_tool.requested" => {
                self.requests.insert(text(data, "toolCallId").to_owned(), text(data, "requestId").to_owned());
                return self.waiting(out);
            }
            // The CLI answers what it cannot hand out: a tool that does not exist, arguments that are not JSON.
            "tool.execution_complete" if self.is_called(data) => return Some(self.done(out, false)),
            "model.call_failure" => self.failure = Some(failure::of_call(data)),
            "assistant.turn_retry" => self.retry(out),
            "session.error" if !self.is_answered() => {
                return Some(self.failed(failure::of_session(data, self.failure.as_ref())));
            }
            "session.idle" => return Some(self.idle(data, out)),
            _ => {}
        }
        None
    }

    /// The turn ended before the CLI said so.
    pub(crate) fn failed(&mut self, error: ErrorInfo) -> End {
        self.draft.usage = self.usage;
        End::Failed { error: Box::new(error), usage: self.draft.consumed() }
    }

    fn text(&mut self, delta: &str, out: &mut Events) {
        self.has_text |= !delta.is_empty();
        self.draft.text(TEXT, delta, out);
    }

    fn arguments(&mut self, data: &Value) {
        let (id, name, delta) = (text(data, "toolCallId"), text(data, "toolName"), text(data, "inputDelta"));
        match self.arriving.iter_mut().find(|(known, _)| known == id) {
            Some((_, call)) => call.raw.push_str(delta),
            None => {
                self.arriving.push((id.to_owned(), Call { name: name.to_owned(), raw: delta.to_owned() }));
            }
        }
    }

    fn usage(&mut self, data: &Value, out: &mut Events) -> Option<End> {
        let count = |key: &str| data.get(key).and_then(Value::as_u64).unwrap_or_default();
        let (read, written) = (count("cacheReadTokens"), count("cacheWriteTokens"));
        self.usage += Usage {
            // The CLI counts the whole prompt here.
            input_tokens: count("inputTokens").saturating_sub(read).saturating_sub(written),
            output_tokens: count("outputTokens"),
            cache_read_tokens: read,
            cache_write_tokens: written,
            web_searches: 0,
            estimated: false,
        };
        match text(data, "finishReason") {
            "content_filter" => self.stop = Some(StopReason::Refusal),
            // The CLI would ask again, and forget what was cut off.
            "length" => {
                self.stop = Some(StopReason::MaxTokens);
                for (place, (id, call)) in (CALLS..).zip(std::mem::take(&mut self.arriving)) {
                    self.draft.tool(place, &id, &call.name, out);
                    self.draft.tool_input(place, &call.raw, out);
                }
                return Some(self.done(out, false));
            }
            _ => {}
        }
        None
    }

    fn message(&mut self, data: &Value, out: &mut Events) -> Option<End> {
        self.has_message = true;
        if !self.has_text {
            self.text(text(data, "content"), out);
        }
        let mut is_foreign = false;
        for request in data.get("toolRequests").and_then(Value::as_array).into_iter().flatten() {
            let (id, name) = (text(request, "toolCallId"), text(request, "name"));
            let place = CALLS + u64::try_from(self.calls.len()).unwrap_or(u64::MAX - CALLS);
            self.draft.tool(place, id, name, out);
            self.draft.tool_input(place, &self.written(id, request), out);
            self.draft.tool_end(place, out);
            is_foreign |= !self.tools.iter().any(|tool| tool == name);
            self.calls.push(id.to_owned());
        }
        // No need to wait: the sooner the session ends, the less the CLI does by itself.
        if is_foreign { Some(self.done(out, false)) } else { self.waiting(out) }
    }

    /// The arguments of a call, as JSON or as the model wrote them.
    fn written(&self, id: &str, request: &Value) -> String {
        let raw = self.arriving.iter().find(|(known, _)| known == id).map(|(_, call)| call.raw.as_str());
        let given = request.get("arguments").unwrap_or(&Value::Null);
        let is_cleared = given.as_object().is_none_or(serde_json::Map::is_empty);
        match (raw, given) {
            (Some(raw), _) if is_cleared => raw.to_owned(),
            (_, Value::String(raw)) => raw.clone(),
            (_, Value::Null) => String::new(),
            (_, given) => given.to_string(),
        }
    }

    fn is_called(&self, data: &Value) -> bool {
        let id = text(data, "toolCallId");
        self.calls.iter().any(|call| call == id)
    }

    fn is_answered(&self) -> bool {
        self.has_message && self.calls.is_empty()
    }

    /// The end of the turn, if all its calls wait for results.
    fn waiting(&mut self, out: &mut Events) -> Option<End> {
        let all = !self.calls.is_empty() && self.calls.iter().all(|call| self.requests.contains_key(call));
        all.then(|| self.done(out, true))
    }

    fn retry(&mut self, out: &mut Events) {
        self.attempt += 1;
        let error = self.failure.clone().unwrap_or_else(|| {
            ErrorInfo::new(ErrorCode::Unknown, "the Copilot CLI asks the model again and does not say why")
        });
        out.push_back(ProviderEvent::Retrying { error, attempt: self.attempt, after_ms: 0 });
        // The part that has arrived is void: the answer begins again.
        self.draft = MessageDraft::answer_to(&self.before);
        self.has_text = false;
        self.arriving.clear();
    }

    fn idle(&mut self, data: &Value, out: &mut Events) -> End {
        if self.is_answered() {
            return self.done(out, true);
        }
        let aborted = data.get("aborted").and_then(Value::as_bool) == Some(true);
        let error = self.failure.take().unwrap_or_else(|| {
            let what = if aborted { "broke the answer off" } else { "ended the turn without an answer" };
            ErrorInfo::new(ErrorCode::Unknown, format!("the Copilot CLI {what}"))
        });
        self.failed(error)
    }

    fn done(&mut self, out: &mut Events, continues: bool) -> End {
        let mut draft = std::mem::take(&mut self.draft);
        draft.usage = self.usage;
        draft.stop = self.stop;
        let event = draft.finish(out);
        // The CLI cannot distinguish two calls with one id.
        let distinct = self.calls.iter().collect::<BTreeSet<_>>().len() == self.calls.len();
        let pending = match &event {
            ProviderEvent::MessageDone { message, .. } if continues && distinct => {
                let calls = message.tool_calls().zip(&self.calls);
                let requests = calls.map(|(call, id)| {
                    Some(PendingCall { call: call.id.clone(), request: self.requests.get(id)?.clone() })
                });
                requests.collect()
            }
            _ => None,
        };
        End::Done { event, pending }
    }
}

/// The text at `key`, or nothing.
fn text<'a>(data: &'a Value, key: &str) -> &'a str {
    data.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
