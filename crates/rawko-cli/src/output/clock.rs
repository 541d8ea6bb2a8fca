//! Local time for people.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Zoned;
use jiff::tz::TimeZone;
use rawko_core::Timestamp;

/// Formats times in the local time zone. The zone is read only when needed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    now: fn() -> Timestamp,
    zone: fn() -> TimeZone,
}

impl Clock {
    /// The system's clock and time zone (`TZ`, `/etc/localtime`), or UTC if it has none.
    pub(crate) fn local() -> Self {
        Self { now: system_now, zone: TimeZone::system }
    }

    /// A clock that stands still, in UTC.
    #[cfg(test)]
    pub(crate) fn standing(now: fn() -> Timestamp) -> Self {
        Self { now, zone: || TimeZone::UTC }
    }

    /// The current time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.now)()
    }

    /// The time of day, `14:32:10`; with the date if it is not today.
    pub(crate) fn time(&self, at: Timestamp) -> String {
        match (self.zoned(at), self.zoned(self.now())) {
            (Some(at), Some(now)) if at.date() == now.date() => at.strftime("%H:%M:%S").to_string(),
            (Some(at), _) => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
            (None, _) => at.to_rfc3339(),
        }
    }

    /// The date, `2026-01-23`.
    pub(crate) fn date(&self, at: Timestamp) -> String {
        match self.zoned(at) {
            Some(at) => at.date().to_string(),
            None => at.to_rfc3339().chars().take(10).collect(),
        }
    }

    /// The beginning of the day that `text` names, `2026-01-23`, or the moment, in RFC 3339; `None` if it names neither.
    pub(crate) fn since(&self, text: &str) -> Option<Timestamp> {
        let start = match text.parse::<jiff::civil::Date>() {
            Ok(date) if text.len() == 10 => date.to_zoned((self.zone)()).ok()?.timestamp(),
            _ => return Timestamp::from_rfc3339(text),
        };
        u64::try_from(start.as_millisecond()).ok().map(Timestamp)
    }

    fn zoned(&self, at: Timestamp) -> Option<Zoned> {
        let at = jiff::Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()?;
        Some(at.to_zoned((self.zone)()))
    }
}

fn system_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(clock: Clock, at: &str, expected: &str) {
        assert_eq!(clock.time(Timestamp::from_rfc3339(at).unwrap()), expected);
    }

    /// 2026-01-23T09:30:00Z.
    fn morning() -> Timestamp {
        Timestamp(1_769_160_600_000)
    }

    #[test]
    fn a_time_has_its_date_where_that_is_not_today() {
        let utc = Clock::standing(morning);
        check(utc, "2026-01-23T14:32:10.999Z", "14:32:10");
        check(utc, "2026-01-24T00:00:00Z", "2026-01-24 00:00:00");
        check(utc, "2026-01-22T23:59:59Z", "2026-01-22 23:59:59");
        let elsewhere = Clock { now: morning, zone: || TimeZone::fixed(jiff::tz::offset(5)) };
        check(elsewhere, "2026-01-23T14:32:10Z", "19:32:10");
        check(elsewhere, "2026-01-23T20:00:00Z", "2026-01-24 01:00:00");
    }

    #[test]
    fn a_day_begins_where_the_user_is() {
        let elsewhere = Clock { now: morning, zone: || TimeZone::fixed(jiff::tz::offset(5)) };
        let at = |text: &str| Timestamp::from_rfc3339(text).unwrap();
        assert_eq!(elsewhere.since("2026-01-23"), Some(at("2026-01-22T19:00:00Z")));
        assert_eq!(elsewhere.date(at("2026-01-22T19:00:00Z")), "2026-01-23");
        assert_eq!(elsewhere.date(at("2026-01-22T18:59:59Z")), "2026-01-22");
        assert_eq!(elsewhere.since("2026-01-23T10:00:00Z"), Some(at("2026-01-23T10:00:00Z")));
        for wrong in ["", "yesterday", "2026-13-01", "23.1.2026", "7d"] {
            assert_eq!(elsewhere.since(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_instant_beyond_all_calendars_is_printed_all_the_same() {
        check(Clock::standing(morning), "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z");
    }
}
