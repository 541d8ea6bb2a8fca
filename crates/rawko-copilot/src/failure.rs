//! Turns failures that the Copilot CLI reports into rawko's errors.

use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_provider::error_code;
use serde_json::Value;

/// What to do without an account.
const LOG_IN: &str =
    "run `copilot login`, or set COPILOT_GITHUB_TOKEN to a token with the permission `Copilot Requests`";

/// The failure of a call to the model (`model.call_failure`).
pub(crate) fn of_call(data: &Value) -> ErrorInfo {
    let said = text(data, "errorMessage");
    // The CLI passes the server's error object on, as text.
    let body = serde_json::from_str::<Value>(said).ok();
    let message = body.as_ref().map(|body| text(body, "message")).filter(|text| !text.is_empty());
    let kind = format!("{} {}", text(data, "errorType"), text(data, "errorCode"));
    let status = status(data);
    let message = message.unwrap_or(said);
    let mut error = ErrorInfo::new(code(status, &kind, message), message);
    error.status = status;
    error.request_id = Some(text(data, "providerCallId")).filter(|id| !id.is_empty()).map(Into::into);
    if status.is_none() && text(data, "failureKind") == "transport" {
        error.code = ErrorCode::NetworkError;
    }
    error
}

/// The failure of a turn (`session.error`), after `call` failed if one did.
pub(crate) fn of_session(data: &Value, call: Option<&ErrorInfo>) -> ErrorInfo {
    let said = text(data, "message").split_whitespace().collect::<Vec<_>>().join(" ");
    let status = status(data).or_else(|| call.and_then(|call| call.status));
    let kind = text(data, "errorType");
    let of_words = code(status, &format!("{kind} {}", text(data, "errorCode")), &said);
    let code = match (kind, call) {
        ("authentication" | "authorization" | "policy", _) => ErrorCode::AuthenticationFailed,
        ("rate_limit", _) => ErrorCode::RateLimited,
        // Waiting does not help, and another provider does.
        ("quota", _) => ErrorCode::AuthenticationFailed,
        ("context_limit", _) => ErrorCode::ContextLengthExceeded,
        // The server's own words say more than those of the CLI.
        (_, Some(call)) if call.code != ErrorCode::Unknown => call.code,
        _ => of_words,
    };
    let own = call.map(|call| call.message.as_str()).filter(|own| !own.is_empty() && !said.contains(own));
    let message = match own {
        Some(own) => format!("{own} ({said})"),
        None => said,
    };
    let mut error = ErrorInfo::new(code, message);
    error.status = status;
    error.request_id = call.and_then(|call| call.request_id.clone());
    with_hint(error)
}

/// A failure of the CLI itself: a request that it refuses, or its end.
#[cfg_attr(not(feature = "sdk"), allow(dead_code, reason = "only the provider calls the CLI"))]
pub(crate) fn of_words(message: &str) -> ErrorInfo {
    with_hint(ErrorInfo::new(code(None, "", message), message))
}

/// Says what to do where the account is missing. A key of the user's own is named by the CLI itself.
fn with_hint(mut error: ErrorInfo) -> ErrorInfo {
    if error.code == ErrorCode::AuthenticationFailed && !error.message.contains("COPILOT_PROVIDER_") {
        error.message = format!("{}; {LOG_IN}", error.message.trim_end_matches('.'));
    }
    error
}

fn code(status: Option<u16>, kind: &str, message: &str) -> ErrorCode {
    let words = message.to_lowercase();
    let says = |part: &str| words.contains(part);
    let without_account = says("no github oauth token")
        || says("not authenticated")
        || says("no authentication information")
        || says("not logged in");
    if status.is_none() && without_account {
        return ErrorCode::AuthenticationFailed;
    }
    if status.is_none() && says("model") && (says("not available") || says("not supported")) {
        return ErrorCode::ModelUnavailable;
    }
    let known = error_code(status, kind, message);
    let is_transport = says("connection") || says("network") || says("fetch failed") || says("dns");
    if known == ErrorCode::Unknown && is_transport { ErrorCode::NetworkError } else { known }
}

fn status(data: &Value) -> Option<u16> {
    data.get("statusCode").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok())
}

fn text<'a>(data: &'a Value, key: &str) -> &'a str {
    data.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `call` and `session` as CLI 1.0.102 reported them.
    #[track_caller]
    fn check(call: Option<Value>, session: Value, code: ErrorCode, part: &str) {
        let call = call.map(|call| of_call(&call));
        let error = of_session(&session, call.as_ref());
        assert_eq!(error.code, code, "{error:?}");
        assert!(error.message.contains(part), "{}", error.message);
    }

    #[test]
    fn failures_have_codes_and_say_what_to_do() {
        let failed = |status: u16, kind: &str, code: &str, message: &str| {
            let body = json!({"message": message, "type": kind, "code": code}).to_string();
            Some(json!({"statusCode": status, "errorType": kind, "errorCode": code, "errorMessage": body}))
        };
        check(
            failed(401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided"),
            json!({"errorType": "authentication", "statusCode": 401, "message": "Authentication failed with provider at \
                http://127.0.0.1/v1 (HTTP 401).\n  Check your COPILOT_PROVIDER_API_KEY."}),
            ErrorCode::AuthenticationFailed,
            "Incorrect API key provided (Authentication failed with provider at http://127.0.0.1/v1 (HTTP 401). Check",
        );
        check(
            None,
            json!({"errorType": "query", "message": "Execution failed: InvalidArg, No GitHub OAuth token or Copilot HMAC \
                key provided"}),
            ErrorCode::AuthenticationFailed,
            "key provided; run `copilot login`, or set COPILOT_GITHUB_TOKEN",
        );
        check(
            failed(404, "invalid_request_error", "model_not_found", "The model m1 does not exist"),
            json!({"errorType": "query", "statusCode": 404, "message": "Resource not found on provider"}),
            ErrorCode::ModelUnavailable,
            "The model m1 does not exist",
        );
        check(
            failed(
                400,
                "invalid_request_error",
                "context_length_exceeded",
                "This model's maximum context length is 8192 tokens",
            ),
            json!({"errorType": "query", "statusCode": 400, "message": "400 This model's maximum context length is 8192 tokens"}),
            ErrorCode::ContextLengthExceeded,
            "8192",
        );
        check(
            failed(500, "server_error", "", "boom"),
            json!({"errorType": "query", "statusCode": 500, "message": "retried 5 times. Last error: 500 boom"}),
            ErrorCode::Overloaded,
            "retried 5 times",
        );
        check(
            failed(429, "rate_limit_error", "", "Rate limit"),
            json!({"errorType": "rate_limit", "statusCode": 429, "message": "slow down"}),
            ErrorCode::RateLimited,
            "Rate limit (slow down)",
        );
        check(
            Some(json!({"failureKind": "transport", "errorMessage": "connect ECONNREFUSED"})),
            json!({"errorType": "query", "message": "Failed to get response"}),
            ErrorCode::NetworkError,
            "ECONNREFUSED (Failed to get response)",
        );
        check(
            None,
            json!({"errorType": "quota", "message": "You have no quota left"}),
            ErrorCode::AuthenticationFailed,
            "no quota left",
        );
    }
}
