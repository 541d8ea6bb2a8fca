//! The rules, and the replies that each needs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use rawko_core::error::ErrorCode;
use rawko_core::message::{Content, Message, Role, StopReason};
use rawko_core::usage::Usage;
use serde_json::{Value, json};

use super::answer::request;
use super::{Completion, ScriptedReply, Subject, ask};
use crate::scripted::{ScriptedCall, ScriptedError};

/// How long a provider may go on with a request after its stream was dropped.
const PROMPT: Duration = Duration::from_secs(5);

/// What the replies report.
const USAGE: Usage = Usage {
    input_tokens: 100,
    output_tokens: 20,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    web_searches: 0,
    estimated: false,
};

/// A rule of the contract.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    Text,
    Thinking,
    Calls,
    BadInput,
    Ids,
    UsageCounted,
    Failure(ErrorCode),
    AfterFailure,
    Dropped,
    Prefix,
    SameBytes,
}

/// All rules.
pub(super) fn all() -> Vec<Rule> {
    let codes =
        [ErrorCode::AuthenticationFailed, ErrorCode::ContextLengthExceeded, ErrorCode::InvalidRequest];
    let mut all =
        vec![Rule::Text, Rule::Thinking, Rule::Calls, Rule::BadInput, Rule::Ids, Rule::UsageCounted];
    all.extend(codes.map(Rule::Failure));
    all.extend([Rule::AfterFailure, Rule::Dropped, Rule::Prefix, Rule::SameBytes]);
    all
}

fn text(text: &str) -> ScriptedReply {
    ScriptedReply { text: text.to_owned(), usage: USAGE, ..ScriptedReply::default() }
}

fn call(name: &str, input: Value) -> ScriptedCall {
    ScriptedCall { name: name.to_owned(), input }
}

fn calls(calls: Vec<ScriptedCall>) -> ScriptedReply {
    ScriptedReply { tools: calls, ..text("I will look.") }
}

fn reads() -> ScriptedReply {
    calls(vec![call("Read", json!({"path": "naïve.rs"})), call("Write", json!({}))])
}

fn failure(code: ErrorCode) -> ScriptedReply {
    let message = match code {
        ErrorCode::ContextLengthExceeded => "prompt is too long",
        _ => "as the script says",
    };
    let error = ScriptedError { code, message: message.to_owned(), retry_after_ms: None };
    ScriptedReply { error: Some(error), ..ScriptedReply::default() }
}

impl Rule {
    /// The rule, for people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Text => "a text arrives whole, and ends the turn",
            Self::Thinking => "thinking arrives as thinking",
            Self::Calls => "calls arrive whole and in order, and stop for their results",
            Self::BadInput => "input that is not JSON is kept as it was written",
            Self::Ids => "ids of calls are unique in the conversation",
            Self::UsageCounted => "usage is counted, or marked as estimated",
            Self::Failure(_) => "a failure is one error with its code, and names the provider",
            Self::AfterFailure => "a session is of use after a failure",
            Self::Dropped => "dropping a stream ends the request, and the session is of use",
            Self::Prefix => "a request begins with the bytes of the request before it",
            Self::SameBytes => "the same conversation gives the same bytes",
        }
    }

    /// The replies that the peer gives.
    pub(super) fn replies(self) -> Vec<ScriptedReply> {
        match self {
            Self::Text | Self::UsageCounted => vec![text("A “naïve” text 🦀 of more than one piece.")],
            Self::Thinking => {
                vec![ScriptedReply { thinking: "Let me see … 日本語.".to_owned(), ..text("Done.") }]
            }
            Self::Calls => vec![reads()],
            Self::BadInput => vec![calls(vec![call("Read", json!("{\"path\": \"src/"))])],
            Self::Ids | Self::Prefix => vec![reads(), reads(), text("Done.")],
            Self::Failure(code) => vec![failure(code)],
            Self::AfterFailure => vec![failure(ErrorCode::InvalidRequest), text("Better.")],
            Self::Dropped => vec![ScriptedReply { delay_ms: 60_000, ..text("Late.") }, text("Next.")],
            Self::SameBytes => vec![text("One."), text("Two.")],
        }
    }

    /// Checks the rule; in words, what happened instead.
    pub(super) async fn run(self, subject: &Subject) -> Result<(), String> {
        let mut talk = Talk::new(subject);
        match self {
            Self::Text => {
                let (message, _, stop) = talk.message().await?;
                let said = message.text();
                let expected = "A “naïve” text 🦀 of more than one piece.";
                is(said == expected && stop == StopReason::EndTurn, || format!("{said:?}, {stop:?}"))
            }
            Self::Thinking => {
                let (message, _, _) = talk.message().await?;
                let is_thought = |content: &Content| match content {
                    Content::Thinking { thinking, .. } => thinking == "Let me see … 日本語.",
                    _ => false,
                };
                let found = message.content.iter().any(is_thought) && message.text() == "Done.";
                is(found, || format!("{:?}", message.content))
            }
            Self::Calls => {
                let (message, _, stop) = talk.message().await?;
                let found: Vec<_> =
                    message.tool_calls().map(|call| (call.name.as_str(), &call.input)).collect();
                let expected = [("Read", &json!({"path": "naïve.rs"})), ("Write", &json!({}))];
                is(found == expected && stop == StopReason::ToolUse, || format!("{found:?}, {stop:?}"))
            }
            Self::BadInput => {
                let (message, _, _) = talk.message().await?;
                let found: Vec<_> =
                    message.tool_calls().map(|call| (&call.input, call.invalid_input.as_deref())).collect();
                is(found == [(&json!({}), Some("{\"path\": \"src/"))], || format!("{found:?}"))
            }
            Self::Ids => {
                let mut ids = BTreeSet::new();
                for _ in 0..2 {
                    let (message, _, _) = talk.message().await?;
                    for call in message.tool_calls() {
                        let is_new = !call.id.is_empty() && ids.insert(call.id.clone());
                        is(is_new, || format!("`{}` is empty, or is used twice", call.id))?;
                    }
                }
                Ok(())
            }
            Self::UsageCounted => {
                let (_, usage, _) = talk.message().await?;
                let is_counted = usage == USAGE || (usage.estimated && usage.output_tokens > 0);
                is(is_counted, || format!("{usage:?} instead of {USAGE:?}"))
            }
            Self::Failure(code) => match talk.ask().await? {
                Err(error) => {
                    let is_named = error.provider.as_deref() == Some(subject.provider.name());
                    is(error.code == code && is_named && !error.message.is_empty(), || format!("{error:?}"))
                }
                Ok(done) => Err(format!("the answer {done:?}")),
            },
            Self::AfterFailure => {
                if let Ok(done) = talk.ask().await? {
                    return Err(format!("no failure, but {done:?}"));
                }
                let (message, _, _) = talk.message().await?;
                is(message.text() == "Better.", || format!("{:?}", message.content))
            }
            Self::Dropped => talk.drop_one().await,
            Self::Prefix => {
                for _ in 0..3 {
                    talk.message().await?;
                }
                prefixes(subject)
            }
            Self::SameBytes => {
                talk.message().await?;
                Talk::new(subject).message().await?;
                let Some(requests) = &subject.requests else { return Ok(()) };
                let bodies = requests();
                is(bodies.len() == 2 && bodies[0] == bodies[1], || shown(&bodies))
            }
        }
    }
}

fn is(holds: bool, found: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(found()) }
}

/// Each request begins with the one before it, but for the brackets at its end.
fn prefixes(subject: &Subject) -> Result<(), String> {
    let Some(requests) = &subject.requests else { return Ok(()) };
    let bodies = requests();
    is(bodies.len() == 3, || format!("{} requests instead of 3", bodies.len()))?;
    let open = |body: &[u8]| {
        let end = body.iter().rposition(|byte| !matches!(byte, b']' | b'}')).map_or(0, |at| at + 1);
        body[..end].to_vec()
    };
    let broken = bodies.windows(2).any(|pair| !pair[1].starts_with(&open(&pair[0])));
    is(!broken, || shown(&bodies))
}

fn shown(bodies: &[Vec<u8>]) -> String {
    let texts: Vec<_> = bodies.iter().map(|body| String::from_utf8_lossy(body)).collect();
    texts.join("\n")
}

/// A conversation that goes on with what the provider answers.
struct Talk {
    session: Box<dyn crate::provider::ProviderSession>,
    model: String,
    messages: Vec<Arc<Message>>,
}

impl Talk {
    fn new(subject: &Subject) -> Self {
        Self {
            session: subject.provider.open(),
            model: subject.provider.default_model().to_owned(),
            messages: vec![Arc::new(Message::user("Fix the bug."))],
        }
    }

    async fn ask(&mut self) -> Result<Completion, String> {
        ask(&mut *self.session, request(&self.model, self.messages.clone())).await
    }

    /// The next message, which becomes part of the conversation together with the results of its calls.
    async fn message(&mut self) -> Result<(Message, Usage, StopReason), String> {
        let done = self.ask().await?.map_err(|error| format!("the error {error:?}"))?;
        let results: Vec<Content> = done.0.tool_calls().map(|call| result(&call.id)).collect();
        let next = if results.is_empty() { vec![Content::text("Go on.")] } else { results };
        let next = Message { role: Role::User, content: next };
        self.messages.extend([Arc::new(done.0.clone().or_placeholder()), Arc::new(next)]);
        Ok(done)
    }

    /// Drops a stream that waits, and asks again.
    async fn drop_one(&mut self) -> Result<(), String> {
        let asked = request(&self.model, self.messages.clone());
        let mut stream = self.session.send(asked);
        if let Ok(event) = tokio::time::timeout(Duration::from_millis(300), stream.next()).await {
            return Err(format!("{event:?} arrived before its time"));
        }
        drop(stream);
        match tokio::time::timeout(PROMPT, self.message()).await {
            Ok(done) => {
                let (message, _, _) = done?;
                is(message.text() == "Next.", || format!("{:?}", message.content))
            }
            Err(_) => Err(format!("the next answer did not come within {} s", PROMPT.as_secs())),
        }
    }
}

fn result(id: &str) -> Content {
    Content::ToolResult {
        tool_use_id: id.to_owned(),
        content: "a line".to_owned(),
        is_error: false,
        images: Vec::new(),
    }
}
