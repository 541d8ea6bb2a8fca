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
    #[error("no answer to {what} within {}", seconds(*after))]
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
    /// It wants a login.
    #[error("the server wants a login")]
    LoginNeeded {
        /// The `WWW-Authenticate` header.
        challenge: String,
    },
    /// The login did not work.
    #[error("the login failed: {0}")]
    Login(String),
    /// The authorization server registers no client.
    #[error("the login failed: the server registers no client: {0}")]
    NotRegistered(String),
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

/// A time in whole seconds; a short one with its tenths.
fn seconds(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    if tenths < 100 && !tenths.is_multiple_of(10) {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        format!("{} s", (tenths + 5) / 10)
    }
}

/// An error and its causes in one line, without repetitions, and without the names of types that the client's library puts in.
pub(crate) fn chain(error: &dyn Error) -> String {
    without_types(&rawko_provider::http::chain(error))
}

/// `text` without parts like `[rmcp::transport::Worker<…>]`.
fn without_types(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[rmcp::") {
        let mut depth = 1;
        let end = after.char_indices().find(|(_, c)| {
            depth += match c {
                '[' => 1,
                ']' => -1,
                _ => 0,
            };
            depth == 0
        });
        let Some((at, _)) = end else { break };
        kept.push_str(before.trim_end());
        rest = after.get(at + 1..).unwrap_or_default();
    }
    kept + rest
}

/// The beginning of a text of the server.
pub(crate) fn short(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_by_people() {
        for (ms, expected) in
            [(5_001, "5 s"), (120_000, "120 s"), (300, "0.3 s"), (1_500, "1.5 s"), (9_999, "10 s")]
        {
            let error = McpError::Timeout { what: "tools/list".into(), after: Duration::from_millis(ms) };
            assert_eq!(error.to_string(), format!("no answer to tools/list within {expected}"));
        }
    }

    #[test]
    fn names_of_types_are_left_out() {
        let text = "Transport [rmcp::transport::Worker<Vec<[u8]>>] error: broken [pipe]";
        assert_eq!(without_types(text), "Transport error: broken [pipe]");
        assert_eq!(without_types("[rmcp::open"), "[rmcp::open");
    }
}
