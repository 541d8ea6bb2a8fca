//! What can go wrong with a server.

use std::error::Error;
use std::time::Duration;

use rmcp::service::{ClientInitializeError, ServiceError};

/// Bytes kept of what a server says of an error.
const MAX_TEXT: usize = 2_000;

/// Why a server cannot be used, or did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// It did not answer in time.
    #[error("no answer to {what} within {} s", after.as_secs_f64())]
    Timeout {
        /// What was asked, e.g. `tools/list`.
        what: String,
        /// How long it had.
        after: Duration,
    },
    /// The connection ended.
    #[error("the connection ended: {why}")]
    Closed {
        /// Why, as far as it is known.
        why: String,
    },
    /// It refused the request.
    #[error("the server refused it (code {code}): {message}")]
    Refused {
        /// The code of the JSON-RPC error.
        code: i32,
        /// The server's words.
        message: String,
    },
    /// It wants to know who asks.
    #[error("the server wants a login")]
    LoginNeeded {
        /// The `WWW-Authenticate` header.
        challenge: String,
    },
    /// The login did not work.
    #[error("the login failed: {0}")]
    Login(String),
    /// It does not follow the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The address or a header of it cannot be used.
    #[error("{0}")]
    Address(String),
}

impl McpError {
    pub(crate) fn starting(error: &ClientInitializeError) -> Self {
        if let Some(challenge) = error.auth_challenge() {
            return Self::LoginNeeded { challenge: short(challenge) };
        }
        match error {
            ClientInitializeError::JsonRpcError(data) => {
                Self::Refused { code: data.code.0, message: short(&data.message) }
            }
            ClientInitializeError::ConnectionClosed(why) => Self::Closed { why: short(why) },
            ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
                let versions: Vec<&str> = server_supported.iter().map(|version| version.as_str()).collect();
                Self::Protocol(format!(
                    "it speaks no revision of the protocol that rawko speaks, but {}",
                    short(&versions.join(", "))
                ))
            }
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::starting(fallback),
            other => Self::Protocol(short(&chain(other))),
        }
    }

    pub(crate) fn of(error: &ServiceError) -> Self {
        if let Some(challenge) = error.auth_challenge() {
            return Self::LoginNeeded { challenge: short(challenge) };
        }
        match error {
            ServiceError::McpError(data) => {
                Self::Refused { code: data.code.0, message: short(&data.message) }
            }
            ServiceError::TransportClosed => Self::Closed { why: "the server closed it or ended".to_owned() },
            ServiceError::UnexpectedResponse => {
                Self::Protocol("the answer does not have the form that the protocol asks for".to_owned())
            }
            other => Self::Protocol(short(&chain(other))),
        }
    }
}

/// An error and its causes in one line, without repetitions.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// The beginning of a text of the server.
pub(crate) fn short(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
