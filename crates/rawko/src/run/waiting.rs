//! The event that reports a wait: what failed, which provider the run waits for, and until when.
//!
//! There are three kinds: a provider that sends a request again, the session's pause before a failed call is made again, and
//! the machine's pause after an error. The journal has the last two as timers; the first one is progress, which is not
//! stored.

use rawko_core::{ErrorInfo, Timestamp};

use crate::run::event::RunEvent;

/// Shorter waits are not reported, in milliseconds: too short to notice.
const SHORTEST_MS: u64 = 1_000;

/// The last instant that RFC 3339 can express. A server may ask for a wait of any length.
const LAST_INSTANT: Timestamp = Timestamp(253_402_300_799_999);

impl RunEvent {
    /// Reports a wait of `after_ms` from `now` because of `error`, before attempt number `attempt`. `None` where the wait
    /// is shorter than a second.
    pub(crate) fn waiting(error: &ErrorInfo, attempt: u32, after_ms: u64, now: Timestamp) -> Option<Self> {
        (after_ms >= SHORTEST_MS).then(|| Self::Waiting {
            reason: error.code,
            message: error.message.clone(),
            provider: error.provider.clone(),
            until: Timestamp(now.0.saturating_add(after_ms)).min(LAST_INSTANT),
            after_ms,
            attempt,
        })
    }
}

/// An instant as RFC 3339 text.
pub(crate) mod rfc3339 {
    use rawko_core::Timestamp;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&at.to_rfc3339())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::from_rfc3339(&text)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is not an RFC 3339 time")))
    }
}

#[cfg(test)]
mod tests {
    use rawko_core::ErrorCode;
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp(1_769_160_600_123);

    fn waiting(after_ms: u64) -> Option<RunEvent> {
        let mut error = ErrorInfo::new(ErrorCode::RateLimited, "slow down");
        error.provider = Some("claude".to_owned());
        RunEvent::waiting(&error, 2, after_ms, NOW)
    }

    #[test]
    fn a_wait_says_until_when_in_rfc_3339() {
        let event = waiting(600_000).unwrap();
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(
            json,
            json!({"type": "waiting", "reason": "rate_limited", "message": "slow down", "provider": "claude",
                   "until": "2026-01-23T09:40:00.123Z", "afterMs": 600_000, "attempt": 2})
        );
        assert_eq!(serde_json::from_value::<RunEvent>(json).unwrap(), event);
    }

    #[test]
    fn a_wait_below_a_second_is_not_reported() {
        assert_eq!(waiting(999), None);
        assert!(waiting(1_000).is_some());
    }

    #[test]
    fn a_wait_without_end_can_still_be_written() {
        let event = waiting(u64::MAX).unwrap();
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["until"], "9999-12-31T23:59:59.999Z");
        assert_eq!(serde_json::from_value::<RunEvent>(json).unwrap(), event);
    }
}
