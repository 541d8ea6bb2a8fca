//! A finished span, before it has a wire format.

use rawko_core::Timestamp;

use crate::conventions::{ERROR_TYPE, OPERATION};

/// Something that had a beginning and an end.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The trace that it is part of.
    pub trace: [u8; 16],
    /// Its id.
    pub id: [u8; 8],
    /// The span that it is a part of.
    pub parent: Option<[u8; 8]>,
    /// Whether that one is another process's.
    pub parent_is_remote: bool,
    /// What it did, and to what: `chat claude-opus-4-5`.
    pub name: String,
    /// Whether it called another service.
    pub kind: SpanKind,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// What is known of it.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// What happened during it.
    pub events: Vec<SpanEvent>,
    /// Why it failed, for people; `Some("")` if it may not be shown.
    pub failure: Option<String>,
}

/// Something that happened during a span.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanEvent {
    /// When.
    pub at: Timestamp,
    /// What.
    pub name: &'static str,
    /// What is known of it.
    pub attributes: Vec<(&'static str, AttributeValue)>,
}

/// What a span did toward others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Work of the process.
    Internal,
    /// A call of another service.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// Texts.
    Texts(Vec<String>),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
    /// Yes or no.
    Bool(bool),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for AttributeValue {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<i32> for AttributeValue {
    fn from(number: i32) -> Self {
        Self::Int(number.into())
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

impl From<bool> for AttributeValue {
    fn from(yes: bool) -> Self {
        Self::Bool(yes)
    }
}

impl Span {
    /// The value of an attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&AttributeValue> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The text of an attribute.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            AttributeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The operation by the GenAI conventions, if they have one for it.
    #[must_use]
    pub fn operation(&self) -> Option<&str> {
        self.text(OPERATION)
    }

    /// How long it took, in seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a span of 2^53 milliseconds is 285,000 years")]
    pub fn seconds(&self) -> f64 {
        self.end.since(self.start) as f64 / 1_000.0
    }

    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<AttributeValue>) {
        self.attributes.push((name, value.into()));
    }

    /// Marks it as failed.
    pub(crate) fn fail(&mut self, kind: &str, why: String) {
        self.set(ERROR_TYPE, kind);
        self.failure = Some(why);
    }
}
