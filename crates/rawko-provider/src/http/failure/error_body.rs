//! Reads the body of an error response.
//!
//! Servers agree on little: `error` is an object or a string, sometimes within an array, with a `type`, a `code` or a
//! `status`; or the body is a web page.

use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::text::truncate;
use serde_json::Value;

use super::AttemptFailure;
use crate::classify::{NO_CREDIT, classify, is_about_money};

/// The most characters of a server's message.
pub(super) const MAX_MESSAGE: usize = 2_000;

/// An error as the server describes it.
pub(super) struct ErrorBody {
    /// `type`, `code` and `status`, in lower case.
    kind: String,
    message: String,
    /// A numeric `code`, which some gateways send with a successful HTTP status.
    status: Option<u16>,
}

impl ErrorBody {
    pub(super) fn text(message: &str) -> Self {
        Self { kind: String::new(), message: message.to_owned(), status: None }
    }

    /// `None` if the value contains no error.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let value = value.as_array().map_or(value, |items| items.first().unwrap_or(value));
        let error = match value.get("error") {
            Some(Value::String(message)) => return Some(Self::text(message)),
            Some(error @ Value::Object(_)) => error,
            // FastAPI and Mistral send `message` or `detail` at the top level.
            _ if value.get("message").is_some() || value.get("detail").is_some() => value,
            _ => return None,
        };
        let mut kind = String::new();
        let mut status = None;
        for key in ["type", "code", "status"] {
            match error.get(key) {
                Some(Value::String(text)) => {
                    kind.push_str(&text.to_lowercase());
                    kind.push(' ');
                }
                Some(Value::Number(number)) => status = number.as_u64().and_then(|n| u16::try_from(n).ok()),
                _ => {}
            }
        }
        let message = match error.get("message").or_else(|| error.get("detail")) {
            Some(Value::String(text)) if !text.trim().is_empty() => text.clone(),
            Some(other) if !other.is_null() => other.to_string(),
            _ if kind.is_empty() => error.to_string(),
            _ => kind.trim().to_owned(),
        };
        // Gateways put the original server's message one level down.
        let raw = error.pointer("/metadata/raw").and_then(Value::as_str);
        let message = raw.map_or_else(|| message.clone(), |raw| format!("{message}: {raw}"));
        Some(Self { kind, message, status })
    }

    pub(super) fn into_failure(self, status: Option<u16>) -> AttemptFailure {
        let status = status.filter(|s| *s >= 300).or(self.status);
        let lower = self.message.to_lowercase();
        let (code, is_transient) = classify(status, &self.kind, &lower);
        let message = match self.message.trim() {
            "" => {
                status.map_or_else(|| "no reason given".to_owned(), |s| format!("HTTP {s} without a reason"))
            }
            text => truncate(text, MAX_MESSAGE),
        };
        // Says what the key's error code does not: the key is right.
        let is_spent = code == ErrorCode::AuthenticationFailed && is_about_money(status, &self.kind, &lower);
        let message = if is_spent { format!("{NO_CREDIT}: {message}") } else { message };
        AttemptFailure { info: Box::new(ErrorInfo { status, ..ErrorInfo::new(code, message) }), is_transient }
    }
}

/// A body that is not JSON, for people: of a web page only its title.
pub(super) fn body_text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    if !text.starts_with('<') {
        return text.to_owned();
    }
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|start| {
        let start = start + "<title>".len();
        lower[start..].find("</title>").map(|length| text[start..start + length].trim().to_owned())
    });
    let hint = "is baseUrl the address of an API?";
    match title {
        Some(title) if !title.is_empty() => {
            format!("a web page instead of an API answer, titled “{}”; {hint}", truncate(&title, 200))
        }
        _ => format!("a web page instead of an API answer; {hint}"),
    }
}
