//! Turns a failed request into an [`ErrorInfo`], and decides whether another attempt may help.
//!
//! [`error_body`] reads what the server wrote, [`crate::classify`] finds the error code, and [`retry_after`] reads how long
//! the server asks to wait. The retry policy decides when and how often to try again.

mod error_body;
mod retry_after;

use std::time::SystemTime;

use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::text::truncate;
use reqwest::header::HeaderMap;
use serde_json::Value;

use error_body::{ErrorBody, body_text};
use retry_after::retry_after_ms;

/// A failed attempt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttemptFailure {
    /// Boxed to keep results small.
    pub(crate) info: Box<ErrorInfo>,
    /// Whether the same request may succeed later.
    pub(crate) is_transient: bool,
}

impl AttemptFailure {
    /// A failure that may pass.
    pub(crate) fn transient(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { info: Box::new(ErrorInfo::new(code, message)), is_transient: true }
    }

    /// A failure that will not pass.
    pub(crate) fn permanent(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { info: Box::new(ErrorInfo::new(code, message)), is_transient: false }
    }

    /// The failure for an unsuccessful HTTP response.
    pub(crate) fn from_response(status: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let mut failure = if (300..400).contains(&status) {
            redirected(headers)
        } else {
            match serde_json::from_slice::<Value>(body) {
                Ok(value) => ErrorBody::of(&value)
                    .unwrap_or_else(|| ErrorBody::text(&body_text(body)))
                    .into_failure(Some(status)),
                Err(_) => ErrorBody::text(&body_text(body)).into_failure(Some(status)),
            }
        };
        failure.info.status = Some(status);
        failure.info.retry_after_ms = retry_after_ms(headers, SystemTime::now());
        // Both large vendors send this header if they know better than the status.
        match headers.get("x-should-retry").map(|v| v.as_bytes()) {
            Some(b"true") => failure.is_transient = true,
            Some(b"false") => failure.is_transient = false,
            _ => {}
        }
        failure
    }

    /// Whether earlier thinking was refused, because of an invalid signature or because of another conversation.
    ///
    /// The Messages API names the block. Over Responses, a reasoning item cannot be decrypted (another account or server,
    /// <https://github.com/openai/codex/issues/8145>), is looked up although nothing was stored
    /// (<https://github.com/openai/openai-agents-js/issues/546>), or has lost the item that followed it
    /// (<https://github.com/vercel/ai/issues/7099>).
    pub(crate) fn refuses_thinking(&self) -> bool {
        let message = self.info.message.to_lowercase();
        let says = |part: &str| message.contains(part);
        let is_block = says("invalid") && says("thinking` block") && (says("`signature`") || says("`data`"));
        let is_item = (says("encrypted content") && says("could not be"))
            || (says("item with id 'rs_") && says("not found"))
            || (says("of type 'reasoning'") && says("without its required following item"))
            || (says("without its required 'reasoning' item"));
        match self.info.status {
            Some(400 | 422) => is_block || is_item,
            Some(404) => is_item,
            _ => false,
        }
    }

    /// The failure for an error object inside an answer with a successful status.
    pub(crate) fn from_value(value: &Value) -> Self {
        ErrorBody::of(value).unwrap_or_else(|| ErrorBody::text(&value.to_string())).into_failure(None)
    }
}

fn redirected(headers: &HeaderMap) -> AttemptFailure {
    let to = headers.get("location").and_then(|v| v.to_str().ok()).unwrap_or("an address it does not name");
    AttemptFailure::permanent(
        ErrorCode::ConfigError,
        format!(
            "the server redirects to {}; a key is sent only to the configured host, so set baseUrl to the final address",
            truncate(&crate::settings::shown_url(to), 200)
        ),
    )
}

#[cfg(test)]
mod tests;
