//! The answers that the server sends, and how it delivers them.

use std::time::Duration;

use rawko_core::message::StopReason;
use rawko_core::usage::Usage;
use serde_json::Value;

/// One answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A message of the model.
    Say(Box<Say>),
    /// An HTTP error.
    Refuse(ErrorResponse),
    /// These bytes as the whole HTTP response; then the connection is closed.
    Raw(Vec<u8>),
    /// No response: the connection is closed.
    HangUp,
    /// No response: the connection is kept open until the client closes it.
    Silence,
}

/// A message of the model, and how it is delivered.
#[derive(Debug, Clone, Default)]
pub struct Say {
    /// Reasoning.
    pub thinking: String,
    /// Tokens used for reasoning, which count against the request's limit. If the limit is not larger, the answer is cut off
    /// before its first word. Ignored if the request turns thinking off.
    pub thinking_tokens: u64,
    /// Signature of the reasoning, if the wire has one. If empty, the server signs as the real service does, and so
    /// recognises the block when it comes back.
    pub signature: String,
    /// Encrypted reasoning, if the wire has it.
    pub redacted: String,
    /// Text.
    pub text: String,
    /// Searches of the web that the service runs, before the text.
    pub searches: Vec<Search>,
    /// Tool calls.
    pub calls: Vec<AnswerCall>,
    /// The input of the tool that the request forces, or of the only one it offers; otherwise sent as text.
    pub decision: Option<Value>,
    /// The usage that it reports.
    pub usage: Usage,
    /// Why it ends; decided by the content if absent.
    pub stop: Option<StopReason>,
    /// How it is delivered.
    pub delivery: Delivery,
}

/// A search of the web that the service runs itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Search {
    /// Its id.
    pub id: String,
    /// What was searched for.
    pub query: String,
    /// Titles and addresses of what was found.
    pub found: Vec<(String, String)>,
    /// The code with which it failed, if it did.
    pub error: Option<String>,
    /// How much of it is in this answer.
    pub part: SearchPart,
}

/// How much of a search is in an answer. A turn may be paused between the call and its result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SearchPart {
    /// The call and its result.
    #[default]
    Whole,
    /// The call alone.
    Call,
    /// The result of a call in the answer before.
    Result,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerCall {
    /// Its id; generated if absent.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments as the model writes them, JSON or not.
    pub input: String,
}

/// An HTTP error.
#[derive(Debug, Clone, Default)]
pub struct ErrorResponse {
    /// The status.
    pub status: u16,
    /// The error type; also the code if the wire has one.
    pub kind: String,
    /// The server's message.
    pub message: String,
    /// A body to send instead of one made of the fields above.
    pub body: Option<String>,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
}

/// How an answer is delivered.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    /// Delay before anything is sent.
    pub delay: Duration,
    /// How the bytes are split; each piece is flushed on its own.
    pub pieces: Chunking,
    /// Pause between the pieces.
    pub pause: Duration,
    /// Where the connection breaks.
    pub cut: Option<Cut>,
    /// Keeps the connection open in silence where it would break.
    pub stall: bool,
    /// How the end of the body is shown.
    pub framing: Framing,
    /// How lines end.
    pub line_end: LineEnd,
    /// Sent before everything and between all events, unchanged.
    pub noise: Vec<String>,
    /// Sends text until the client closes the connection.
    pub endless: bool,
    /// Leaves out the end marker of the wire.
    pub no_end_mark: bool,
    /// Leaves out usage, as a server does that counts no tokens.
    pub uncounted: bool,
    /// Sends one JSON object instead of a stream.
    pub whole: bool,
    /// Sends a byte order mark first.
    pub byte_order_mark: bool,
    /// The content type instead of `text/event-stream`.
    pub content_type: Option<String>,
    /// Additional headers.
    pub headers: Vec<(String, String)>,
}

/// How the bytes of an answer are split.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Chunking {
    /// One piece for each event.
    #[default]
    Events,
    /// All in one piece.
    Whole,
    /// Pieces of this many bytes.
    Every(usize),
}

/// Where a connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// After this many bytes of the body.
    Bytes(usize),
    /// After this many events.
    Events(usize),
}

/// How the end of a body is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framing {
    /// By chunked encoding: HTTP detects a cut.
    #[default]
    Chunked,
    /// By closing the connection: a cut looks like the end.
    UntilClose,
}

/// How lines end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n`.
    #[default]
    Lf,
    /// `\r\n`.
    CrLf,
    /// `\r`.
    Cr,
}

impl Answer {
    /// A message of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Say { text: text.into(), ..Say::default() }.into()
    }

    /// A message of one tool call.
    #[must_use]
    pub fn call(name: impl Into<String>, input: &Value) -> Self {
        Say::default().with_call(name, input).into()
    }

    /// A decision: a call of the tool that the request forces.
    #[must_use]
    pub fn decision(input: Value) -> Self {
        Say { decision: Some(input), ..Say::default() }.into()
    }

    /// An HTTP error with a message in the form of the wire.
    #[must_use]
    pub fn refuse(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Refuse(ErrorResponse {
            status,
            kind: kind.into(),
            message: message.into(),
            ..ErrorResponse::default()
        })
    }

    /// 529.
    #[must_use]
    pub fn overloaded() -> Self {
        Self::refuse(529, "overloaded_error", "Overloaded")
    }

    /// 429 with a `retry-after` header.
    #[must_use]
    pub fn rate_limited(retry_after: impl Into<String>) -> Self {
        Self::refuse(429, "rate_limit_error", "Too many requests").header("retry-after", retry_after)
    }

    /// 401.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::refuse(401, "authentication_error", "invalid key")
    }

    /// 400 because the conversation is too long.
    #[must_use]
    pub fn context_too_long() -> Self {
        Self::refuse(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let header = (name.into(), value.into());
        match &mut self {
            Self::Say(say) => say.delivery.headers.push(header),
            Self::Refuse(refusal) => refusal.headers.push(header),
            Self::Raw(_) | Self::HangUp | Self::Silence => {}
        }
        self
    }

    /// Sets the delivery of a message. Does nothing for other answers.
    #[must_use]
    pub fn delivered(mut self, delivery: Delivery) -> Self {
        if let Self::Say(say) = &mut self {
            say.delivery = delivery;
        }
        self
    }
}

impl Say {
    /// Adds a tool call.
    #[must_use]
    pub fn with_call(self, name: impl Into<String>, input: &Value) -> Self {
        self.with_raw_call(name, input.to_string())
    }

    /// Adds a tool call whose arguments need not be JSON.
    #[must_use]
    pub fn with_raw_call(mut self, name: impl Into<String>, input: impl Into<String>) -> Self {
        self.calls.push(AnswerCall { id: None, name: name.into(), input: input.into() });
        self
    }
}

impl From<Say> for Answer {
    fn from(say: Say) -> Self {
        Self::Say(Box::new(say))
    }
}
