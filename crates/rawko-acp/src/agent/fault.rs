//! Why a request is refused, as a client shows it: what is wrong, and what to try.

use agent_client_protocol::v1::schema;
use agent_client_protocol::{Error, ErrorCode};

/// A request that cannot be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcpFault {
    code: ErrorCode,
    message: String,
}

impl AcpFault {
    /// The client asks for something that cannot be.
    pub fn of_request(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::INVALID_PARAMS, message: message.into() }
    }

    /// rawko cannot do it here and now.
    pub fn of_rawko(message: impl Into<String>) -> Self {
        Self { code: ErrorCode::INTERNAL_ERROR, message: message.into() }
    }

    /// The same with what to try, in a line of its own. Clients show the message alone, so it belongs to it.
    #[must_use]
    pub fn with_hint(mut self, hint: Option<&str>) -> Self {
        if let Some(hint) = hint {
            self.message = format!("{}\n{hint}", self.message.trim_end());
        }
        self
    }

    /// What a client shows.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<AcpFault> for Error {
    fn from(fault: AcpFault) -> Self {
        Self::new(fault.code, fault.message)
    }
}

/// The error for a session that is not open.
pub(super) fn no_session(id: &schema::SessionId) -> Error {
    let mut error: Error = schema::Error::session_not_found(id.clone()).into();
    error.message = format!(
        "there is no open session `{}`: begin one with session/new, or open a recorded one of this folder with session/load",
        rawko_core::text::truncate(&id.0, 60)
    );
    error
}

/// Something of rawko's own failed that should not.
pub(super) fn broken(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::INTERNAL_ERROR, format!("rawko itself failed: {error}"))
}
