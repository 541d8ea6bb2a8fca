//! Renders answers in a wire format.

mod claude;
mod openai;
mod responses;

use rawko_core::message::StopReason;
use serde_json::{Value, json};

use crate::answer::{AnswerCall, ErrorResponse, Say};
use crate::exchange::{Asked, Wire};
use crate::service::claude::{sign, thinks};
use crate::service::responses::encrypt;

/// A message ready to be sent: every call has an id, and the stop reason is known.
pub(crate) struct RenderedAnswer<'a> {
    pub(crate) say: &'a Say,
    pub(crate) text: String,
    pub(crate) calls: Vec<(String, &'a str, String)>,
    pub(crate) stop: StopReason,
    /// The signature of the reasoning; empty if there is none.
    pub(crate) signature: String,
    /// The number of output tokens.
    pub(crate) output_tokens: u64,
    pub(crate) model: &'a str,
    pub(crate) number: usize,
}

impl<'a> RenderedAnswer<'a> {
    pub(crate) fn new(say: &'a Say, asked: &'a Asked) -> Self {
        let (room, thinking_tokens) = (room(asked), thinking_tokens(say, asked));
        if thinking_tokens >= room {
            return Self::cut_off(say, asked, room);
        }
        let mut text = say.text.clone();
        let id = |at: usize, given: Option<&String>| {
            given.cloned().unwrap_or_else(|| format!("call_{}_{at}", asked.number))
        };
        let call = |(at, call): (usize, &'a AnswerCall)| {
            (id(at, call.id.as_ref()), call.name.as_str(), call.input.clone())
        };
        let mut calls: Vec<_> = say.calls.iter().enumerate().map(call).collect();
        match (&say.decision, asked.decision_tool()) {
            (Some(input), Some(tool)) => calls.push((id(calls.len(), None), tool, input.to_string())),
            (Some(input), None) => text.push_str(&input.to_string()),
            (None, _) => {}
        }
        let implied = if calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        Self {
            say,
            text,
            calls,
            stop: say.stop.unwrap_or(implied),
            signature: match (say.signature.as_str(), say.thinking.is_empty()) {
                ("", false) if asked.wire == Wire::Claude => sign(asked),
                ("", false) if asked.wire == Wire::Responses => encrypt(asked.number, &say.thinking),
                (given, _) => given.to_owned(),
            },
            output_tokens: say.usage.output_tokens.saturating_add(thinking_tokens),
            model: asked.model(),
            number: asked.number,
        }
    }

    /// An answer that used all its tokens for thinking: it has no text, and its thinking is not signed.
    fn cut_off(say: &'a Say, asked: &'a Asked, room: u64) -> Self {
        Self {
            say,
            text: String::new(),
            calls: Vec::new(),
            stop: StopReason::MaxTokens,
            signature: String::new(),
            output_tokens: room,
            model: asked.model(),
            number: asked.number,
        }
    }

    /// The events of a stream, each without the empty line after it; the end marker last.
    pub(crate) fn events(&self, wire: Wire) -> Vec<String> {
        match wire {
            Wire::Claude => claude::events(self),
            Wire::OpenAi => openai::events(self),
            Wire::Responses => responses::events(self),
        }
    }

    /// Another piece of text.
    pub(crate) fn more_text(&self, wire: Wire) -> String {
        match wire {
            Wire::Claude => claude::more_text("and so on "),
            Wire::OpenAi => openai::more_text(self, "and so on "),
            Wire::Responses => responses::more_text("and so on "),
        }
    }

    /// The answer as one object.
    pub(crate) fn whole(&self, wire: Wire) -> Value {
        match wire {
            Wire::Claude => claude::whole(self),
            Wire::OpenAi => openai::whole(self),
            Wire::Responses => responses::whole(self),
        }
    }
}

/// The most tokens that the request allows for the answer.
fn room(asked: &Asked) -> u64 {
    let limits = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
    let limit = limits.iter().find_map(|name| asked.json.get(*name));
    limit.and_then(Value::as_u64).unwrap_or(u64::MAX)
}

/// Tokens used for thinking, unless the request turns it off.
fn thinking_tokens(say: &Say, asked: &Asked) -> u64 {
    let does_think = match asked.wire {
        Wire::Claude => thinks(asked),
        Wire::OpenAi => asked.json.get("reasoning_effort").and_then(Value::as_str) != Some("none"),
        Wire::Responses => asked.json.pointer("/reasoning/effort").and_then(Value::as_str) != Some("none"),
    };
    if does_think { say.thinking_tokens } else { 0 }
}

/// The body of an HTTP error.
pub(crate) fn refusal(refusal: &ErrorResponse, wire: Wire) -> String {
    if let Some(body) = &refusal.body {
        return body.clone();
    }
    let ErrorResponse { kind, message, .. } = refusal;
    match wire {
        Wire::Claude => json!({"type": "error", "error": {"type": kind, "message": message}}),
        Wire::OpenAi | Wire::Responses => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
        }
    }
    .to_string()
}

/// `text` in pieces of a few characters, as models send it.
pub(crate) fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(7).map(|piece| piece.iter().collect()).collect()
}
