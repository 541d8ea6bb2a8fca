//! Errors from the world, as data that the machine can act on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of failure it is. The machine decides by this alone whether to go on
/// (`spec/machine.md`, "Recoverable codes"; `spec/providers.md` for the provider's codes).
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
    /// An answer did not have the form that was asked for.
    ValidationError,
    /// No key, a wrong key, or no right to use the model.
    AuthenticationFailed,
    /// The configuration cannot work.
    ConfigError,
    /// Something was not allowed.
    PermissionError,
    /// The conversation is longer than the model takes.
    ContextLengthExceeded,
    /// Tokens, cost or time are used up.
    BudgetExceeded,
    /// The run goes round in circles: the loop breaker ended it.
    Stalled,
    /// The provider rejected the request as malformed.
    InvalidRequest,
    /// The provider does not serve this model (any more).
    ModelUnavailable,
    /// Nothing more is known. A code that a newer version wrote reads as this too.
    #[serde(other)]
    Unknown,
}

impl ErrorCode {
    /// Whether the machine may go on after this error (`spec/machine.md`, "Recoverable codes").
    ///
    /// `overloaded` is not in that list of the machine's codes; it is a shortage that passes, like `rate_limited`.
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
            | Self::Unknown => false,
        }
    }

    /// Whether another provider may do better: this one refuses the key, does not serve the model, or failed even
    /// after its retries (`spec/providers.md`, "Fallback chain").
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
            | Self::Unknown => false,
        }
    }

    /// The code as it is spelt in events, journals and messages.
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
            Self::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One failure with everything known of it. Carried by events, shown to arbiter and user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct ErrorInfo {
    /// What kind of failure.
    pub code: ErrorCode,
    /// One or more sentences for people; the server's own words where there are any.
    pub message: String,
    /// Name of the provider the failure came from, if it came from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// HTTP status, if there was an HTTP answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's request id, to quote in a support request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How long the provider asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Name of the tool that failed, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

impl ErrorInfo {
    /// An error with a code and a message and nothing else known.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            provider: None,
            status: None,
            request_id: None,
            retry_after_ms: None,
            tool: None,
        }
    }
}
