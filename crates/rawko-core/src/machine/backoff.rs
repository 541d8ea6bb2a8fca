//! How long to wait before asking again after an error. Arithmetic only: the driver sleeps, and adds jitter if any
//! is wanted.

use crate::error::{ErrorCode, ErrorInfo};

/// Wait after the first failure, in milliseconds.
pub(super) const BASE_MS: u64 = 1_000;

/// Longest wait that the machine chooses by itself, in milliseconds.
pub(super) const CAP_MS: u64 = 30_000;

/// Milliseconds to wait after `error`, the last of `consecutive_failures` in a row: 1 s, 2 s, 4 s, … up to 30 s.
///
/// A wait that the server asks for (`retry_after_ms`) is used as is, even above the cap: an earlier request would
/// only fail again. A malformed answer needs no wait, since the provider is not overloaded.
#[must_use]
pub fn backoff(consecutive_failures: u32, error: &ErrorInfo) -> u64 {
    if error.code == ErrorCode::ValidationError {
        return 0;
    }
    error.retry_after_ms.unwrap_or_else(|| exponential(consecutive_failures))
}

fn exponential(consecutive_failures: u32) -> u64 {
    let doublings = consecutive_failures.saturating_sub(1);
    2_u64.checked_pow(doublings).and_then(|factor| BASE_MS.checked_mul(factor)).unwrap_or(CAP_MS).min(CAP_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(failures: u32, code: ErrorCode, retry_after_ms: Option<u64>, expected: u64) {
        let error = ErrorInfo { retry_after_ms, ..ErrorInfo::new(code, "m") };
        assert_eq!(backoff(failures, &error), expected);
    }

    #[test]
    fn doubles_up_to_the_cap() {
        for (failures, ms) in
            [(0, 1_000), (1, 1_000), (2, 2_000), (3, 4_000), (5, 16_000), (6, 30_000), (u32::MAX, 30_000)]
        {
            check(failures, ErrorCode::NetworkError, None, ms);
        }
    }

    #[test]
    fn the_server_has_the_last_word() {
        check(1, ErrorCode::RateLimited, Some(90_000), 90_000);
        check(5, ErrorCode::RateLimited, Some(0), 0);
        check(1, ErrorCode::RateLimited, Some(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_malformed_answer_is_asked_again_at_once() {
        check(3, ErrorCode::ValidationError, None, 0);
    }
}
