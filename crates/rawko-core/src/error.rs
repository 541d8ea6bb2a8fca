//! Errors from outside the core, as data that the machine can act on.

use std::num::NonZeroU16;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of a failure. The machine decides by this alone whether to continue
/// (`docs/machine.md#recoverable-codes`; `docs/providers.md#errors`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The provider asks to slow down.
    RateLimited,
    /// The provider has no capacity at the moment.
    Overloaded,
    /// The connection failed or broke.
    NetworkError,
    /// A deadline passed.
    Timeout,
    /// A tool could not do its work.
    ToolFailure,
    /// An answer did not have the required form.
    ValidationError,
    /// No key, a wrong key, or no permission to use the model.
    AuthenticationFailed,
    /// The configuration cannot work.
    ConfigError,
    /// Something was not allowed.
    PermissionError,
    /// The conversation is longer than the model takes.
    ContextLengthExceeded,
    /// Tokens, cost or time are used up.
    BudgetExceeded,
    /// The run repeated itself: the loop detector ended it.
    Stalled,
    /// The provider rejected the request as malformed.
    InvalidRequest,
    /// The provider does not serve this model (any more).
    ModelUnavailable,
    /// A person has to remove what stands in the way of the task.
    Blocked,
    /// The journal could not be written to its end: the session can be resumed. No journal has this code.
    JournalIncomplete,
    /// The kind is unknown. A code that a newer version wrote is read as this too.
    #[serde(other)]
    Unknown,
}

impl ErrorCode {
    /// Whether the machine may continue after this error (`docs/machine.md#recoverable-codes`).
    #[must_use]
    pub fn is_recoverable(self) -> bool {
        match self {
            Self::RateLimited
            | Self::Overloaded
            | Self::NetworkError
            | Self::ToolFailure
            | Self::Timeout
            | Self::ValidationError => true,
            Self::AuthenticationFailed
            | Self::ConfigError
            | Self::PermissionError
            | Self::ContextLengthExceeded
            | Self::BudgetExceeded
            | Self::Stalled
            | Self::InvalidRequest
            | Self::ModelUnavailable
            | Self::Blocked
            | Self::JournalIncomplete
            | Self::Unknown => false,
        }
    }

    /// Whether another provider may succeed: this one refuses the key, does not serve the model, or failed even after
    /// its retries (`docs/providers.md#fallback-chain`).
    #[must_use]
    pub fn is_of_provider(self) -> bool {
        match self {
            Self::RateLimited
            | Self::Overloaded
            | Self::NetworkError
            | Self::Timeout
            | Self::AuthenticationFailed
            | Self::ModelUnavailable => true,
            Self::ToolFailure
            | Self::ValidationError
            | Self::ConfigError
            | Self::PermissionError
            | Self::ContextLengthExceeded
            | Self::BudgetExceeded
            | Self::Stalled
            | Self::InvalidRequest
            | Self::Blocked
            | Self::JournalIncomplete
            | Self::Unknown => false,
        }
    }

    /// The code as written in events, journals and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::NetworkError => "network_error",
            Self::Timeout => "timeout",
            Self::ToolFailure => "tool_failure",
            Self::ValidationError => "validation_error",
            Self::AuthenticationFailed => "authentication_failed",
            Self::ConfigError => "config_error",
            Self::PermissionError => "permission_error",
            Self::ContextLengthExceeded => "context_length_exceeded",
            Self::BudgetExceeded => "budget_exceeded",
            Self::Stalled => "stalled",
            Self::InvalidRequest => "invalid_request",
            Self::ModelUnavailable => "model_unavailable",
            Self::Blocked => "blocked",
            Self::JournalIncomplete => "journal_incomplete",
            Self::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure with its details. Events carry it, and arbiter and user see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct ErrorInfo {
    /// The kind of failure.
    pub code: ErrorCode,
    /// One or more sentences for people; the server's own message if there is one.
    pub message: String,
    /// Name of the provider the failure came from, if it came from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// HTTP status, if there was an HTTP answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's request id, to quote in a support request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Box<str>>,
    /// How long the provider asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// How often the provider sent the request, if more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<NonZeroU16>,
    /// Name of the tool that failed, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What is known of the work that failed; absent if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Box<FailedWork>>,
}

/// What is known of the work that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailedWork {
    /// The command that failed, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The exit status of that command; absent if it was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How often in a row the agent has failed by now, this time included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

impl ErrorInfo {
    /// The same error, of that command.
    #[must_use]
    pub fn of_command(mut self, command: Option<String>, exit_code: Option<i32>) -> Self {
        let work = self.work.get_or_insert_default();
        (work.command, work.exit_code) = (command, exit_code);
        self
    }

    /// The same error, after so many failures in a row.
    #[must_use]
    pub fn after(mut self, attempts: u32) -> Self {
        self.work.get_or_insert_default().attempts = Some(attempts);
        self
    }

    /// The command that failed, if one did.
    #[must_use]
    pub fn command(&self) -> Option<&str> {
        self.work.as_ref()?.command.as_deref()
    }

    /// The exit status of that command.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        self.work.as_ref()?.exit_code
    }

    /// How often in a row the agent has failed by now.
    #[must_use]
    pub fn attempts(&self) -> Option<u32> {
        self.work.as_ref()?.attempts
    }

    /// An error with a code and a message only.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            provider: None,
            status: None,
            request_id: None,
            retry_after_ms: None,
            attempts: None,
            tool: None,
            work: None,
        }
    }
}
