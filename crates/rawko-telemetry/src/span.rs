//! Spans in the form of OTLP, and what the projection says with them.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use rawko_core::Timestamp;

use crate::conventions::{ERROR_TYPE, OPERATION};

/// An attribute.
pub(crate) fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// An attribute that is a text.
pub(crate) fn text(name: &str, text: impl Into<String>) -> KeyValue {
    attribute(name, Value::StringValue(text.into()))
}

/// A time in nanoseconds.
pub(crate) fn nanos(at: Timestamp) -> u64 {
    at.0.saturating_mul(1_000_000)
}

/// What is read from a span and said on it.
pub(crate) trait SpanExt {
    /// The value of an attribute.
    fn get(&self, name: &str) -> Option<&Value>;
    /// The text of an attribute.
    fn text(&self, name: &str) -> Option<&str>;
    /// The operation by the GenAI conventions, if they have one for it.
    fn operation(&self) -> Option<&str>;
    /// How long it took, in seconds.
    fn seconds(&self) -> f64;
    fn set(&mut self, name: &str, value: Value);
    fn set_text(&mut self, name: &str, text: impl Into<String>);
    /// Adds a number; the greatest there is where it is too great.
    fn set_number(&mut self, name: &str, number: impl TryInto<i64>);
    fn end(&mut self, at: Timestamp);
    /// Marks it as failed. `why` is for people, and empty if it may not be shown.
    fn fail(&mut self, kind: &str, why: String);
}

impl SpanExt for Span {
    fn get(&self, name: &str) -> Option<&Value> {
        self.attributes.iter().find(|known| known.key == name)?.value.as_ref()?.value.as_ref()
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::StringValue(text) => Some(text),
            _ => None,
        }
    }

    fn operation(&self) -> Option<&str> {
        self.text(OPERATION)
    }

    #[allow(clippy::cast_precision_loss, reason = "2^53 nanoseconds are 104 days")]
    fn seconds(&self) -> f64 {
        self.end_time_unix_nano.saturating_sub(self.start_time_unix_nano) as f64 / 1e9
    }

    fn set(&mut self, name: &str, value: Value) {
        self.attributes.push(attribute(name, value));
    }

    fn set_text(&mut self, name: &str, text: impl Into<String>) {
        self.set(name, Value::StringValue(text.into()));
    }

    fn set_number(&mut self, name: &str, number: impl TryInto<i64>) {
        self.set(name, Value::IntValue(number.try_into().unwrap_or(i64::MAX)));
    }

    fn end(&mut self, at: Timestamp) {
        self.end_time_unix_nano = nanos(at);
    }

    fn fail(&mut self, kind: &str, why: String) {
        self.set_text(ERROR_TYPE, kind);
        self.status = Some(Status { message: why, code: StatusCode::Error.into() });
    }
}
