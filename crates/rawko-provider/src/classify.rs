//! Classifies a response by its status and the server's message: which error it is, and whether it may pass.

use rawko_core::error::ErrorCode;

/// What the message of an `authentication_failed` begins with where the key is right and the account has no money left.
pub const NO_CREDIT: &str = "the account's credit is used up";

/// Phrases for a conversation that is too long, in lower case.
const TOO_LONG: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size",
    "request_too_large",
    "prompt is too long",
    "maximum context length",
    "context length of",
    "exceeds the available context",
    "exceed context limit",
    "exceeds the context",
    "exceeds context",
    "context window",
    "input token count",
    "too many tokens in the prompt",
    "reduce the length of",
    // Bedrock's, with either name of the field (<https://github.com/continuedev/continue/issues/9592>).
    "input is too long for",
    "prompt_too_long",
    // xAI's (<https://github.com/cline/cline/issues/3120>).
    "maximum prompt length",
    // Moonshot's (<https://github.com/MoonshotAI/kimi-cli/issues/2011>).
    "exceeded model token limit",
    // z.ai's, with the code 1261 (<https://github.com/zeroclaw-labs/zeroclaw/issues/4124>).
    "prompt exceeds max length",
    // Volcano Engine's (<https://github.com/langgenius/dify/issues/32221>).
    "exceeds the maximum length",
];

/// Phrases for an invalid key with other statuses than 401 and 403.
const BAD_KEY: &[&str] = &[
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "api key not valid",
    "incorrect api key",
    "invalid api key",
    // Gemini's, with 400 (<https://github.com/continuedev/continue/issues/11336>).
    "api key expired",
    "key has expired",
    "token has expired",
    "expired_api_key",
];

/// Phrases about money. Waiting does not help, but another provider does: hence the error code of a key without rights.
const NO_MONEY: &[&str] = &[
    "insufficient_quota",
    "billing_error",
    "billing_hard_limit",
    "credit balance",
    "insufficient balance",
    "insufficient credits",
    "insufficient funds",
    // xAI's, with 429 and with 403 (<https://github.com/continuedev/continue/issues/10373>).
    "used all available credits",
    "run out of credits",
    "spending limit",
    // The limit that an organization sets itself at Anthropic's (<https://github.com/anthropics/claude-code/issues/38035>).
    "specified api usage limits",
];

/// Phrases for a model that does not exist.
const NO_MODEL: &[&str] = &[
    "model_not_found",
    "model_decommissioned",
    "invalid_model",
    "invalid model",
    "not a valid model",
    "unknown model",
];

/// Phrases for a request that the server cannot parse, although it reports a failure of its own (500): llama-cpp-python
/// and others with pydantic's messages
/// (<https://github.com/jekalmin/extended_openai_conversation/issues/203>), Mistral's checks
/// (<https://github.com/jundot/omlx/pull/1997>), llama.cpp for a model without vision.
const NOT_READ: &[&str] = &[
    "validation error",
    "input should be",
    "field required",
    "should be a valid",
    "value_error",
    "roles must alternate",
    "unexpected role",
    "tool call id was",
    "tool call ids should be",
    "image input is not supported",
];

/// The error code of an unsuccessful response: by its HTTP status, the type that the server gives the error, and its
/// message. For providers that get responses by other means than HTTP.
#[must_use]
pub fn error_code(status: Option<u16>, kind: &str, message: &str) -> ErrorCode {
    classify(status, &kind.to_lowercase(), &message.to_lowercase()).0
}

/// Whether a 500 is about the request. The same phrases about a response mean a failure of the server, which
/// another try may not meet (<https://github.com/JamePeng/llama-cpp-python/issues/113>).
fn is_not_read(message: &str) -> bool {
    NOT_READ.iter().any(|p| message.contains(p)) && !message.contains("response")
}

/// Whether the account has no money left.
pub(crate) fn is_about_money(status: Option<u16>, kind: &str, message: &str) -> bool {
    status == Some(402) || NO_MONEY.iter().any(|p| kind.contains(p) || message.contains(p))
}

pub(crate) fn classify(status: Option<u16>, kind: &str, message: &str) -> (ErrorCode, bool) {
    use ErrorCode as E;
    let says = |phrases: &[&str]| phrases.iter().any(|p| kind.contains(p) || message.contains(p));
    let of_model = message.contains("model")
        && ["not found", "does not exist", "no longer available", "not available", "decommissioned"]
            .iter()
            .any(|p| message.contains(p));
    if says(TOO_LONG) && status.is_none_or(|s| matches!(s, 400 | 413 | 422 | 500)) {
        return (E::ContextLengthExceeded, false);
    }
    if is_about_money(status, kind, message) {
        return (E::AuthenticationFailed, false);
    }
    if says(BAD_KEY) && status.is_none_or(|s| s < 500) {
        return (E::AuthenticationFailed, false);
    }
    match status {
        Some(401 | 403) => (E::AuthenticationFailed, false),
        Some(404 | 410) if of_model || says(NO_MODEL) || message.trim().starts_with("model") => {
            (E::ModelUnavailable, false)
        }
        Some(404 | 405) => (E::ConfigError, false),
        Some(410) => (E::ModelUnavailable, false),
        Some(408 | 504) => (E::Timeout, true),
        Some(409) => (E::Overloaded, true),
        Some(413) => (E::ContextLengthExceeded, false),
        Some(429) => (E::RateLimited, true),
        Some(501 | 505) => (E::InvalidRequest, false),
        Some(500) if is_not_read(message) => (E::InvalidRequest, false),
        Some(500..=599) => (E::Overloaded, true),
        Some(400 | 422) if says(NO_MODEL) || (of_model && !message.contains("parameter")) => {
            (E::ModelUnavailable, false)
        }
        Some(400..=499) => (E::InvalidRequest, false),
        _ => classify_kind(kind),
    }
}

/// Classifies an error object without a status, by its type alone.
fn classify_kind(kind: &str) -> (ErrorCode, bool) {
    use ErrorCode as E;
    let has = |part: &str| kind.contains(part);
    if has("overloaded") || has("unavailable") {
        (E::Overloaded, true)
    } else if has("rate_limit") || has("resource_exhausted") {
        (E::RateLimited, true)
    } else if has("timeout") || has("deadline_exceeded") {
        (E::Timeout, true)
    } else if has("api_error") || has("server_error") || has("internal") {
        (E::Overloaded, true)
    } else if NO_MODEL.iter().any(|p| has(p)) || has("not_found") {
        (E::ModelUnavailable, false)
    } else if has("invalid") {
        (E::InvalidRequest, false)
    } else {
        (E::Unknown, false)
    }
}
