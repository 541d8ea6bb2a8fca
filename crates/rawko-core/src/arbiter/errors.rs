//! Error categories and the recovery options for each (`docs/arbiter.md#errors`).

use super::input::{ErrorCategory, RecoveryAction, RecoveryOption};
use crate::error::ErrorCode;

/// The category of an error code.
#[must_use]
pub fn category_of(code: ErrorCode) -> ErrorCategory {
    match code {
        ErrorCode::ToolFailure => ErrorCategory::ToolFailure,
        ErrorCode::RateLimited
        | ErrorCode::Overloaded
        | ErrorCode::NetworkError
        | ErrorCode::AuthenticationFailed
        | ErrorCode::ContextLengthExceeded
        | ErrorCode::InvalidRequest
        | ErrorCode::ModelUnavailable => ErrorCategory::ProviderError,
        ErrorCode::ValidationError | ErrorCode::ConfigError => ErrorCategory::ValidationError,
        ErrorCode::Timeout => ErrorCategory::Timeout,
        ErrorCode::PermissionError => ErrorCategory::PermissionError,
        ErrorCode::BudgetExceeded
        | ErrorCode::Stalled
        | ErrorCode::Blocked
        | ErrorCode::JournalIncomplete
        | ErrorCode::Unknown => ErrorCategory::Unknown,
    }
}

/// The recovery actions for an error. Switching agents is always offered, last.
#[must_use]
pub fn recovery_actions(category: ErrorCategory, code: ErrorCode) -> Vec<RecoveryAction> {
    use RecoveryAction::{Abort, Fallback, Retry, Skip};
    let mut actions = match category {
        ErrorCategory::ToolFailure => vec![Retry, Skip],
        ErrorCategory::ProviderError => match code {
            ErrorCode::AuthenticationFailed | ErrorCode::InvalidRequest | ErrorCode::ModelUnavailable => {
                vec![Abort]
            }
            _ => vec![Retry],
        },
        ErrorCategory::ValidationError => vec![Retry],
        ErrorCategory::Timeout | ErrorCategory::Unknown => vec![Retry, Abort],
        ErrorCategory::PermissionError => vec![Skip, Abort],
    };
    actions.push(Fallback);
    actions
}

/// The recovery actions with a description and a reason for each.
#[must_use]
pub fn recovery_options(category: ErrorCategory, code: ErrorCode) -> Vec<RecoveryOption> {
    recovery_actions(category, code)
        .into_iter()
        .map(|action| {
            let (description, reason) = words(action, category, code);
            RecoveryOption { action, description: description.to_owned(), reason: reason.to_owned() }
        })
        .collect()
}

fn words(action: RecoveryAction, category: ErrorCategory, code: ErrorCode) -> (&'static str, &'static str) {
    match (action, category) {
        (RecoveryAction::Retry, ErrorCategory::ToolFailure) => {
            ("Retry the same tool with different parameters", "Tool may be in temporary error state")
        }
        (RecoveryAction::Retry, ErrorCategory::ProviderError) => match code {
            ErrorCode::ContextLengthExceeded => {
                ("Retry after compaction", "The conversation was longer than the model takes")
            }
            ErrorCode::RateLimited => ("Wait and retry (rate limit should clear)", "Rate limit is temporary"),
            _ => ("Wait and retry", "The provider may recover"),
        },
        (RecoveryAction::Retry, ErrorCategory::ValidationError) => {
            ("Retry with a corrected answer", "The form was wrong, not necessarily the content")
        }
        (RecoveryAction::Retry, ErrorCategory::Timeout) => {
            ("Retry, with a smaller piece of work", "It may only have been too much at once")
        }
        (RecoveryAction::Retry, _) if code == ErrorCode::Blocked => {
            ("Try again", "The user has taken the task up again since")
        }
        (RecoveryAction::Retry, _) => ("Retry", "The cause is not known and may have passed"),
        (RecoveryAction::Skip, ErrorCategory::PermissionError) => {
            ("Skip what is not allowed and proceed", "The rules will not change during the run")
        }
        (RecoveryAction::Skip, _) => {
            ("Skip this step and proceed to next", "Step may not be critical to task")
        }
        (RecoveryAction::Abort, ErrorCategory::Timeout) => {
            ("Abort task due to timeout", "Agent not making progress")
        }
        (RecoveryAction::Abort, ErrorCategory::ProviderError) => {
            ("Abort: the provider refuses", "Neither waiting nor retrying changes that")
        }
        (RecoveryAction::Abort, _) => ("Abort task", "It may not be possible here"),
        (RecoveryAction::Fallback, _) => {
            ("Switch to different agent", "Different agent may have better approach")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RecoveryAction::{Abort, Fallback, Retry, Skip};

    #[track_caller]
    fn check(code: ErrorCode, category: ErrorCategory, actions: &[RecoveryAction]) {
        assert_eq!(category_of(code), category);
        let options = recovery_options(category, code);
        assert_eq!(options.iter().map(|o| o.action).collect::<Vec<_>>(), actions, "{code}");
    }

    #[test]
    fn every_row_of_the_table() {
        check(ErrorCode::ToolFailure, ErrorCategory::ToolFailure, &[Retry, Skip, Fallback]);
        check(ErrorCode::RateLimited, ErrorCategory::ProviderError, &[Retry, Fallback]);
        check(ErrorCode::NetworkError, ErrorCategory::ProviderError, &[Retry, Fallback]);
        check(ErrorCode::ContextLengthExceeded, ErrorCategory::ProviderError, &[Retry, Fallback]);
        check(ErrorCode::AuthenticationFailed, ErrorCategory::ProviderError, &[Abort, Fallback]);
        check(ErrorCode::ValidationError, ErrorCategory::ValidationError, &[Retry, Fallback]);
        check(ErrorCode::Timeout, ErrorCategory::Timeout, &[Retry, Abort, Fallback]);
        check(ErrorCode::PermissionError, ErrorCategory::PermissionError, &[Skip, Abort, Fallback]);
        check(ErrorCode::Unknown, ErrorCategory::Unknown, &[Retry, Abort, Fallback]);
    }
}
