//! Whether and when to retry a failed call: arithmetic only.
//!
//! The caller waits, and supplies the elapsed time and a random fraction as arguments, so that the same numbers give the
//! same decision.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often a failed call is retried, and how long the waits are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// Most attempts, the first one included.
    pub max_attempts: u32,
    /// Upper bound of the first wait, in milliseconds; it doubles from attempt to attempt.
    pub base_ms: u64,
    /// Upper bound of every wait, in milliseconds. A server that asks for more gets no further attempt.
    pub cap_ms: u64,
    /// No attempt begins later than this after the first one began, in milliseconds.
    pub deadline_ms: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 5, base_ms: 500, cap_ms: 30_000, deadline_ms: 120_000 }
    }
}

impl RetryPolicy {
    /// A policy of a single attempt.
    #[must_use]
    pub fn never() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    /// What to do after `failed` attempts (at least one) have failed and `elapsed_ms` have passed since the first began.
    ///
    /// `asked_ms` is the wait the server asked for; it is honoured to the millisecond. If it is longer than the cap,
    /// there is no further attempt. Otherwise the wait is `random` (0 to 1) of the exponential bound: full jitter, which
    /// spreads the callers that one overload hit together
    /// (<https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/>).
    ///
    /// ```
    /// use rawko_core::retry::{GiveUp, RetryPolicy, RetryDecision};
    /// let policy = RetryPolicy { max_attempts: 3, base_ms: 100, cap_ms: 1_000, deadline_ms: 10_000 };
    /// assert_eq!(policy.after_failure(2, 0, None, 0.5), RetryDecision::Again { after_ms: 100 });
    /// assert_eq!(policy.after_failure(3, 0, None, 0.5), RetryDecision::Stop(GiveUp::Attempts));
    /// assert_eq!(policy.after_failure(1, 0, Some(5_000), 0.5), RetryDecision::Stop(GiveUp::AskedTooLong));
    /// ```
    #[must_use]
    pub fn after_failure(
        &self,
        failed: u32,
        elapsed_ms: u64,
        asked_ms: Option<u64>,
        random: f64,
    ) -> RetryDecision {
        if failed >= self.max_attempts {
            return RetryDecision::Stop(GiveUp::Attempts);
        }
        let after_ms = match asked_ms {
            Some(asked) if asked > self.cap_ms => return RetryDecision::Stop(GiveUp::AskedTooLong),
            Some(asked) => asked,
            None => jitter(self.bound_ms(failed), random),
        };
        if elapsed_ms.saturating_add(after_ms) > self.deadline_ms {
            return RetryDecision::Stop(GiveUp::Deadline);
        }
        RetryDecision::Again { after_ms }
    }

    /// Upper bound of the wait after `failed` attempts: `base * 2^(failed - 1)`, at most the cap.
    #[must_use]
    pub fn bound_ms(&self, failed: u32) -> u64 {
        let doublings = failed.saturating_sub(1).min(63);
        self.base_ms.saturating_mul(1_u64 << doublings).min(self.cap_ms)
    }
}

/// What to do after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Wait, then try again.
    Again {
        /// The wait in milliseconds.
        after_ms: u64,
    },
    /// Give up.
    Stop(GiveUp),
}

/// Why no further attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUp {
    /// All attempts are used up.
    Attempts,
    /// The server asks for a longer wait than the cap: the caller decides.
    AskedTooLong,
    /// The next attempt would begin after the deadline.
    Deadline,
}

/// `random` (clamped to 0..=1) of `bound`.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn jitter(bound: u64, random: f64) -> u64 {
    let share = if random.is_nan() { 1.0 } else { random.clamp(0.0, 1.0) };
    (bound as f64 * share) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: RetryPolicy =
        RetryPolicy { max_attempts: 4, base_ms: 100, cap_ms: 300, deadline_ms: 1_000 };

    #[track_caller]
    fn check(failed: u32, elapsed: u64, asked: Option<u64>, random: f64, expected: RetryDecision) {
        assert_eq!(POLICY.after_failure(failed, elapsed, asked, random), expected);
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        check(1, 0, None, 1.0, RetryDecision::Again { after_ms: 100 });
        check(2, 0, None, 1.0, RetryDecision::Again { after_ms: 200 });
        check(3, 0, None, 1.0, RetryDecision::Again { after_ms: 300 });
        check(1, 0, None, 0.0, RetryDecision::Again { after_ms: 0 });
        check(2, 0, None, 0.25, RetryDecision::Again { after_ms: 50 });
    }

    #[test]
    fn a_wait_that_the_server_asks_for_is_kept_or_the_call_is_given_up() {
        check(1, 0, Some(250), 0.1, RetryDecision::Again { after_ms: 250 });
        check(1, 0, Some(0), 1.0, RetryDecision::Again { after_ms: 0 });
        check(1, 0, Some(301), 0.1, RetryDecision::Stop(GiveUp::AskedTooLong));
    }

    #[test]
    fn attempts_and_deadline_end_it() {
        check(4, 0, Some(1), 0.0, RetryDecision::Stop(GiveUp::Attempts));
        check(1, 900, None, 1.0, RetryDecision::Again { after_ms: 100 });
        check(1, 901, None, 1.0, RetryDecision::Stop(GiveUp::Deadline));
        assert_eq!(
            RetryPolicy::never().after_failure(1, 0, None, 0.0),
            RetryDecision::Stop(GiveUp::Attempts)
        );
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_cap_or_deadline(
            failed in 1u32..200,
            elapsed in any::<u64>(),
            asked in proptest::option::of(any::<u64>()),
            random in any::<f64>(),
            base in any::<u64>(),
        ) {
            let policy = RetryPolicy { max_attempts: 100, base_ms: base, cap_ms: 5_000, deadline_ms: 60_000 };
            match policy.after_failure(failed, elapsed, asked, random) {
                RetryDecision::Again { after_ms } => {
                    prop_assert!(failed < 100);
                    prop_assert!(after_ms <= 5_000);
                    prop_assert!(elapsed + after_ms <= 60_000);
                    if let Some(asked) = asked { prop_assert_eq!(after_ms, asked); }
                }
                RetryDecision::Stop(_) => {}
            }
        }
    }
}
