//! Plays scripts of the `scripted` provider over HTTP.

use std::time::Duration;

use rawko_core::error::ErrorCode;
use rawko_provider::scripted::{Script, ScriptPlayer, ScriptedError, ScriptedReply};
use serde_json::Value;

use crate::answer::{Answer, AnswerCall, Delivery, ErrorResponse, Say};
use crate::exchange::{Asked, Who};

/// Plays a script: a behaviour for [`crate::ModelServer::start`].
#[derive(Debug)]
pub struct ScriptedBehaviour(ScriptPlayer);

impl ScriptedBehaviour {
    /// Starts at the beginning of `script`.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self(ScriptPlayer::new(script))
    }

    /// The answer to a request. After the end of the script this is a 400, which clients do not retry.
    pub fn answer(&mut self, asked: &Asked) -> Answer {
        let whom = match asked.who() {
            Who::Select => "select",
            Who::Evaluate => "evaluate",
            Who::Agent => "an agent",
        };
        match self.0.take_where(whom, |wanted| asked.is_for(wanted)) {
            Ok(reply) => from_reply(reply),
            Err(error) => Answer::refuse(400, "invalid_request_error", error.message),
        }
    }
}

fn from_reply(reply: ScriptedReply) -> Answer {
    if let Some(error) = reply.error {
        return Answer::Refuse(refusal(error));
    }
    let calls = reply.tools.into_iter().map(|call| AnswerCall {
        id: None,
        name: call.name,
        input: match call.input {
            Value::String(raw) => raw,
            input => input.to_string(),
        },
    });
    Say {
        thinking: reply.thinking,
        text: reply.text,
        calls: calls.collect(),
        decision: reply.decision,
        usage: reply.usage,
        stop: reply.stop_reason,
        delivery: Delivery { delay: Duration::from_millis(reply.delay_ms), ..Delivery::default() },
        ..Say::default()
    }
    .into()
}

fn refusal(error: ScriptedError) -> ErrorResponse {
    let (status, kind) = match error.code {
        ErrorCode::RateLimited => (429, "rate_limit_error"),
        ErrorCode::Overloaded => (529, "overloaded_error"),
        ErrorCode::NetworkError => (502, "api_error"),
        ErrorCode::Timeout => (504, "timeout_error"),
        ErrorCode::AuthenticationFailed | ErrorCode::PermissionError => (401, "authentication_error"),
        ErrorCode::ContextLengthExceeded => (400, "context_length_exceeded"),
        ErrorCode::BudgetExceeded => (402, "billing_error"),
        ErrorCode::ModelUnavailable => (404, "model_not_found"),
        ErrorCode::InvalidRequest
        | ErrorCode::ToolFailure
        | ErrorCode::ValidationError
        | ErrorCode::ConfigError
        | ErrorCode::Stalled
        | ErrorCode::Blocked => (400, "invalid_request_error"),
        ErrorCode::JournalIncomplete | ErrorCode::Unknown => (500, "api_error"),
    };
    let message = if error.message.is_empty() { format!("scripted {}", error.code) } else { error.message };
    let wait = error.retry_after_ms.map(|ms| ("retry-after-ms".to_owned(), ms.to_string()));
    ErrorResponse { status, kind: kind.to_owned(), message, body: None, headers: wait.into_iter().collect() }
}
