//! Exit statuses and their numbers (`docs/cli.md`).

use std::process::ExitCode;

use rawko_core::ErrorCode;
use rawko_core::ErrorInfo;
use rawko_core::integrity::DoubtReason;
use rawko_core::session::{Outcome, Status};

/// An exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Success,
    /// The task failed, or a check found something.
    Failed,
    /// The command line or the configuration cannot be used.
    Usage,
    /// Stopped by a limit.
    Limited,
    /// The provider failed, or there is no usable key.
    Provider,
    /// The folder's configuration needs trust.
    Untrusted,
    /// Stopped by the user.
    Cancelled,
}

impl Exit {
    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Limited => 3,
            Self::Provider => 4,
            Self::Untrusted => 5,
            Self::Cancelled => 130,
        }
    }

    /// The exit status for a run that ended with this outcome.
    pub(crate) fn of_outcome(outcome: &Outcome) -> Self {
        let is_red = outcome.doubt.as_ref().is_some_and(|doubt| doubt.reason == DoubtReason::RedBefore);
        if is_red { Self::Failed } else { Self::of_run(outcome.status, outcome.error.as_ref()) }
    }

    fn of_run(status: Status, error: Option<&ErrorInfo>) -> Self {
        match status {
            Status::Verified | Status::Claimed => Self::Success,
            Status::Limited => Self::Limited,
            Status::Cancelled => Self::Cancelled,
            Status::Failed => error.map_or(Self::Failed, Self::of_error),
        }
    }

    /// The exit status for an error that ended a run.
    pub(crate) fn of_error(error: &ErrorInfo) -> Self {
        match error.code {
            ErrorCode::RateLimited
            | ErrorCode::Overloaded
            | ErrorCode::NetworkError
            | ErrorCode::AuthenticationFailed
            | ErrorCode::ContextLengthExceeded
            | ErrorCode::InvalidRequest
            | ErrorCode::ModelUnavailable => Self::Provider,
            // A timeout can be a tool's or an agent's. It is the provider's if the error names one.
            ErrorCode::Timeout | ErrorCode::Unknown if error.provider.is_some() => Self::Provider,
            // A check that the user named could not run.
            ErrorCode::ConfigError if error.tool.is_some() => Self::Failed,
            ErrorCode::ConfigError => Self::Usage,
            ErrorCode::BudgetExceeded | ErrorCode::Stalled => Self::Limited,
            ErrorCode::Timeout
            | ErrorCode::ToolFailure
            | ErrorCode::ValidationError
            | ErrorCode::PermissionError
            | ErrorCode::Blocked
            | ErrorCode::JournalIncomplete
            | ErrorCode::Unknown => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: Status, error: Option<(ErrorCode, bool)>, code: u8) {
        let error = error.map(|(code, of_provider)| ErrorInfo {
            provider: of_provider.then(|| "claude".to_owned()),
            ..ErrorInfo::new(code, "it failed")
        });
        assert_eq!(Exit::of_run(status, error.as_ref()).code(), code, "{status:?} {error:?}");
    }

    #[test]
    fn a_run_ends_in_its_documented_status() {
        check(Status::Claimed, None, 0);
        check(Status::Failed, None, 1);
        check(Status::Limited, None, 3);
        check(Status::Limited, Some((ErrorCode::BudgetExceeded, false)), 3);
        check(Status::Cancelled, None, 130);
        for code in [
            ErrorCode::AuthenticationFailed,
            ErrorCode::RateLimited,
            ErrorCode::Overloaded,
            ErrorCode::NetworkError,
            ErrorCode::ModelUnavailable,
            ErrorCode::InvalidRequest,
            ErrorCode::ContextLengthExceeded,
        ] {
            check(Status::Failed, Some((code, false)), 4);
        }
        check(Status::Failed, Some((ErrorCode::Timeout, true)), 4);
        check(Status::Failed, Some((ErrorCode::Timeout, false)), 1);
        check(Status::Failed, Some((ErrorCode::ToolFailure, false)), 1);
        check(Status::Failed, Some((ErrorCode::ValidationError, true)), 1);
        check(Status::Failed, Some((ErrorCode::Blocked, false)), 1);
        check(Status::Failed, Some((ErrorCode::ConfigError, true)), 2);
    }
}
