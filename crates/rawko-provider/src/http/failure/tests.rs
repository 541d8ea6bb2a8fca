use reqwest::header::HeaderMap;

use super::error_body::MAX_MESSAGE;
use super::*;

#[track_caller]
fn check(status: u16, body: &str, code: ErrorCode, is_transient: bool, message: &str) {
    let failure = AttemptFailure::from_response(status, &HeaderMap::new(), body.as_bytes());
    assert_eq!((failure.info.code, failure.is_transient), (code, is_transient), "{status} {body}");
    assert!(failure.info.message.contains(message), "{:?} lacks {message}", failure.info.message);
    assert_eq!(failure.info.status, Some(status));
}

fn anthropic(kind: &str, message: &str) -> String {
    serde_json::json!({"type": "error", "error": {"type": kind, "message": message}}).to_string()
}

fn openai(code: &str, message: &str) -> String {
    serde_json::json!({"error": {"type": "invalid_request_error", "code": code, "message": message}})
        .to_string()
}

#[test]
fn statuses_and_bodies_become_codes() {
    use ErrorCode as E;
    check(
        401,
        &anthropic("authentication_error", "invalid x-api-key"),
        E::AuthenticationFailed,
        false,
        "invalid x-api-key",
    );
    check(403, &anthropic("permission_error", "no access"), E::AuthenticationFailed, false, "no access");
    check(
        404,
        &anthropic("not_found_error", "model: claude-nope"),
        E::ModelUnavailable,
        false,
        "claude-nope",
    );
    check(404, &openai("model_not_found", "The model `x` does not exist"), E::ModelUnavailable, false, "`x`");
    check(404, "404 page not found", E::ConfigError, false, "page not found");
    check(
        400,
        &anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        E::ContextLengthExceeded,
        false,
        "too long",
    );
    check(
        400,
        &openai("context_length_exceeded", "This model's maximum context length is 8192 tokens"),
        E::ContextLengthExceeded,
        false,
        "8192",
    );
    for words in [
        "Input is too long for requested model.",
        "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
        "Prompt exceeds max length",
        "Input length 203743 exceeds the maximum length 202752",
    ] {
        check(400, &openai("", words), E::ContextLengthExceeded, false, words);
    }
    let bare = r#"{"data":null,"success":false,"error_code":2001,"message":"prompt_too_long"}"#;
    check(400, bare, E::ContextLengthExceeded, false, "prompt_too_long");
    for words in [
        "tools.0.name exceeds max length of 64",
        "max_tokens is too large: 200000",
        "metadata.user_id is too long",
    ] {
        check(400, &openai("", words), E::InvalidRequest, false, words);
    }
    check(
        413,
        &anthropic("request_too_large", "Request exceeds the maximum size"),
        E::ContextLengthExceeded,
        false,
        "maximum size",
    );
    check(
        400,
        &anthropic("invalid_request_error", "max_tokens: must be at least 1"),
        E::InvalidRequest,
        false,
        "max_tokens",
    );
    check(
        400,
        &anthropic("invalid_request_error", "`temperature` is deprecated for this model."),
        E::InvalidRequest,
        false,
        "temperature",
    );
    check(
        400,
        &anthropic("invalid_request_error", "Your credit balance is too low"),
        E::AuthenticationFailed,
        false,
        "credit",
    );
    check(
        402,
        "{\"error\":{\"message\":\"Insufficient Balance\"}}",
        E::AuthenticationFailed,
        false,
        "Balance",
    );
    check(429, &anthropic("rate_limit_error", "slow down"), E::RateLimited, true, "slow down");
    check(
        429,
        &openai("insufficient_quota", "You exceeded your current quota"),
        E::AuthenticationFailed,
        false,
        "quota",
    );
    check(529, &anthropic("overloaded_error", "Overloaded"), E::Overloaded, true, "Overloaded");
    check(500, &anthropic("api_error", "Internal server error"), E::Overloaded, true, "Internal");
    check(
        500,
        &openai(
            "",
            "[{'type': 'string_type', 'loc': ('body', 'messages', 2, 'content'), 'msg': 'Input should be a valid string'}]",
        ),
        E::InvalidRequest,
        false,
        "'messages', 2",
    );
    check(
        500,
        &openai("", "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9"),
        E::InvalidRequest,
        false,
        "length of 9",
    );
    check(
        500,
        &openai("", "2 validation errors: {'type': 'missing', 'loc': ('response', 'choices')}"),
        E::Overloaded,
        true,
        "'response'",
    );
    check(503, "", E::Overloaded, true, "HTTP 503");
    check(504, "upstream timed out", E::Timeout, true, "upstream");
    check(408, "", E::Timeout, true, "HTTP 408");
    check(
        400,
        "[{\"error\":{\"code\":400,\"message\":\"API key not valid.\",\"status\":\"INVALID_ARGUMENT\"}}]",
        E::AuthenticationFailed,
        false,
        "not valid",
    );
    check(
        400,
        "[{\"error\":{\"code\":400,\"message\":\"API key expired. Please renew the API key.\",\"status\":\"INVALID_ARGUMENT\"}}]",
        E::AuthenticationFailed,
        false,
        "expired",
    );
    check(401, &openai("", "Your API key has expired"), E::AuthenticationFailed, false, "expired");
    check(
        429,
        "\"Your team x has either used all available credits or reached its monthly spending limit.\"",
        E::AuthenticationFailed,
        false,
        "the account's credit is used up: \"Your team",
    );
    check(
        400,
        &anthropic("invalid_request_error", "You have reached your specified API usage limits."),
        E::AuthenticationFailed,
        false,
        "the account's credit is used up: You have",
    );
    check(422, "{\"detail\":[{\"msg\":\"field required\"}]}", E::InvalidRequest, false, "field required");
    check(
        502,
        "<html><head><title>502 Bad Gateway</title></head></html>",
        E::Overloaded,
        true,
        "“502 Bad Gateway”",
    );
    check(
        400,
        "{\"error\":\"model 'x' not found, try pulling it first\"}",
        E::ModelUnavailable,
        false,
        "pulling",
    );
    check(418, "{\"message\":\"teapot\"}", E::InvalidRequest, false, "teapot");
}

#[track_caller]
fn check_value(body: &str, code: ErrorCode, is_transient: bool) {
    let failure = AttemptFailure::from_value(&serde_json::from_str(body).expect("JSON"));
    assert_eq!((failure.info.code, failure.is_transient), (code, is_transient), "{body}");
}

#[test]
fn errors_inside_a_stream_are_judged_by_type_or_number() {
    use ErrorCode as E;
    check_value(&anthropic("overloaded_error", "Overloaded"), E::Overloaded, true);
    check_value(&anthropic("rate_limit_error", "slow"), E::RateLimited, true);
    check_value(&anthropic("invalid_request_error", "no"), E::InvalidRequest, false);
    check_value("{\"error\":{\"code\":502,\"message\":\"upstream\"}}", E::Overloaded, true);
    check_value("{\"error\":{\"code\":429,\"message\":\"wait\"}}", E::RateLimited, true);
    check_value("{\"error\":\"out of memory\"}", E::Unknown, false);
    check_value("{\"error\":{\"type\":\"server_error\",\"message\":null}}", E::Overloaded, true);
}

#[test]
fn long_bodies_are_bounded() {
    let failure = AttemptFailure::from_response(400, &HeaderMap::new(), "x".repeat(100_000).as_bytes());
    assert!(failure.info.message.len() <= MAX_MESSAGE + 3);
}
