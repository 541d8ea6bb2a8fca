//! Answers from a script: for tests, trials and demonstrations without a model.
//!
//! Plays a [`Script`] through the provider contract, streamed in pieces as a model would do. The same script and the same
//! order of requests give the same events.

mod script;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use rawko_core::error::ErrorInfo;
use rawko_core::request::{ModelRequest, Purpose, ToolChoice};
use rawko_core::usage::Usage;
use serde_json::Value;

use crate::draft::{Events, MessageDraft};
use crate::provider::{EventStream, Provider, ProviderEvent, ProviderSession};

pub use script::{Script, ScriptPlayer, ScriptedCall, ScriptedError, ScriptedReply};

/// The number of characters in one piece of text.
const PIECE: usize = 24;

/// A provider that plays a script.
#[derive(Debug)]
pub struct Scripted {
    name: String,
    state: Arc<Mutex<ScriptState>>,
}

/// What all sessions share: one script and one counter of tool calls.
#[derive(Debug)]
struct ScriptState {
    player: ScriptPlayer,
    calls: u64,
}

impl Scripted {
    /// A provider called `scripted`.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self::named("scripted", script)
    }

    /// A provider with another name.
    #[must_use]
    pub fn named(name: impl Into<String>, script: Script) -> Self {
        let state = ScriptState { player: ScriptPlayer::new(script), calls: 0 };
        Self { name: name.into(), state: Arc::new(Mutex::new(state)) }
    }
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn default_model(&self) -> &'static str {
        "scripted"
    }

    fn plays_a_script(&self) -> bool {
        true
    }

    fn resumed(&self, answered: &[Purpose]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for purpose in answered {
            // The script may have changed and hold fewer replies. Then the run continues where it can.
            if let Ok(reply) = state.player.take(&purpose.to_string()) {
                state.calls += reply.tools.len() as u64 + u64::from(reply.decision.is_some());
            }
        }
    }

    fn open(&self) -> Box<dyn ProviderSession> {
        Box::new(ScriptedSession { name: self.name.clone(), state: Arc::clone(&self.state) })
    }
}

struct ScriptedSession {
    name: String,
    state: Arc<Mutex<ScriptState>>,
}

impl ProviderSession for ScriptedSession {
    fn send(&mut self, request: ModelRequest) -> EventStream<'_> {
        // The reply is taken when the stream is first polled, not when the request is sent: a stream that is dropped
        // unread uses no reply.
        let begin = async move {
            let (delay_ms, events) = self.play(&request);
            if delay_ms > 0 {
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            }
            stream::iter(events)
        };
        let begin: Pin<Box<dyn Future<Output = _> + Send + '_>> = Box::pin(begin);
        stream::once(begin).flatten().boxed()
    }
}

impl ScriptedSession {
    fn play(&self, request: &ModelRequest) -> (u64, Events) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.player.take(&request.purpose.to_string()) {
            Ok(reply) => (reply.delay_ms, state.events(reply, request, &self.name)),
            Err(error) => (
                0,
                Events::from([ProviderEvent::Error {
                    error: ErrorInfo { provider: Some(self.name.clone()), ..error },
                    usage: None,
                }]),
            ),
        }
    }
}

impl ScriptState {
    fn events(&mut self, reply: ScriptedReply, request: &ModelRequest, provider: &str) -> Events {
        let mut out = Events::new();
        let mut draft = MessageDraft::default();
        let mut text = reply.text;
        let mut calls = reply.tools;
        match (&request.tool_choice, reply.decision) {
            (ToolChoice::Tool { name }, Some(input)) => {
                calls.push(ScriptedCall { name: name.clone(), input });
            }
            (ToolChoice::Auto, Some(decision)) => text.push_str(&decision.to_string()),
            (_, None) => {}
        }
        for piece in pieces(&reply.thinking) {
            draft.thinking(0, piece, &mut out);
        }
        for piece in pieces(&text) {
            draft.text(1, piece, &mut out);
        }
        for (place, call) in (2_u64..).zip(calls) {
            self.calls += 1;
            draft.tool(place, &format!("call_{}", self.calls), &call.name, &mut out);
            let input = match call.input {
                Value::String(raw) => raw,
                input => input.to_string(),
            };
            for piece in pieces(&input) {
                draft.tool_input(place, piece, &mut out);
            }
            draft.tool_end(place, &mut out);
        }
        if let Some(error) = reply.error {
            let message =
                if error.message.is_empty() { format!("scripted {}", error.code) } else { error.message };
            out.push_back(ProviderEvent::Error {
                error: ErrorInfo {
                    provider: Some(provider.to_owned()),
                    retry_after_ms: error.retry_after_ms,
                    ..ErrorInfo::new(error.code, message)
                },
                usage: (reply.usage != Usage::default()).then_some(reply.usage),
            });
            return out;
        }
        draft.usage = reply.usage;
        draft.stop = reply.stop_reason;
        let mut done = draft.finish(&mut out);
        // The draft corrects servers that contradict themselves; a script is used as it is.
        if let (ProviderEvent::MessageDone { stop_reason, .. }, Some(stop)) = (&mut done, reply.stop_reason) {
            *stop_reason = stop;
        }
        out.push_back(done);
        out
    }
}

/// `text` in pieces of [`PIECE`] characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().nth(PIECE).map_or(rest.len(), |(at, _)| at);
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        Some(piece)
    })
}
