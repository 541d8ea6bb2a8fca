//! Points in time as data. The core has no clock: every timestamp arrives in an event.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Milliseconds from `earlier` to `self`, 0 if the clock went backwards.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// RFC 3339 in UTC with milliseconds, e.g. `2026-01-23T09:30:00.000Z`.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
        let (second, milli) = (ms / 1_000 % 60, ms % 1_000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }

    /// Parses RFC 3339 with any offset; also with a space instead of the `T`, and a date alone, which means midnight UTC.
    /// Times before 1970 become 1970. `None` for anything else, including a time without an offset.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let digits = |range: std::ops::Range<usize>| -> Option<u64> {
            let part = bytes.get(range)?;
            part.iter()
                .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
        };
        let is = |at: usize, among: &[u8]| bytes.get(at).is_some_and(|byte| among.contains(byte));
        let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
        let is_date = is(4, b"-")
            && is(7, b"-")
            && (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day);
        if !is_date {
            return None;
        }
        let midnight = days_from_civil(year, month, day) * 86_400_000;
        if bytes.len() == 10 {
            return Some(Self(u64::try_from(midnight).unwrap_or(0)));
        }
        let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
        // A leap second counts as the first second of the next minute.
        let is_time =
            is(10, b"Tt ") && is(13, b":") && is(16, b":") && hour < 24 && minute < 60 && second <= 60;
        let mut at = 19;
        let mut milli = 0;
        if is(at, b".") {
            let fraction = bytes.iter().skip(20).take_while(|byte| byte.is_ascii_digit()).count();
            let mut scaled = text.get(20..20 + fraction)?.to_owned();
            scaled.push_str("000");
            milli = scaled.get(..3)?.parse::<u64>().ok().filter(|_| fraction > 0)?;
            at = 20 + fraction;
        }
        let offset = match bytes.get(at)? {
            b'Z' | b'z' if bytes.len() == at + 1 => 0,
            sign @ (b'+' | b'-') if bytes.len() == at + 6 && is(at + 3, b":") => {
                let (hours, minutes) = (digits(at + 1..at + 3)?, digits(at + 4..at + 6)?);
                let minutes = i64::try_from((hours * 60 + minutes).min(24 * 60))
                    .ok()
                    .filter(|_| hours < 24 && minutes < 60)?;
                if *sign == b'-' { -minutes } else { minutes }
            }
            _ => return None,
        };
        let time = i64::try_from((hour * 60 + minute) * 60_000 + second * 1_000 + milli).ok()?;
        is_time.then(|| Self(u64::try_from(midnight + time - offset * 60_000).unwrap_or(0)))
    }
}

/// The number of days in a month.
fn days_in(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since the epoch of a date, after Howard Hinnant's `days_from_civil`; negative before it.
fn days_from_civil(year: u64, month: u64, day: u64) -> i64 {
    let year = if month <= 2 { year.saturating_sub(1) } else { year };
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year;
    i64::try_from(days).unwrap_or(i64::MAX) - 719_468
}

/// Days since the epoch to (year, month, day), after Howard Hinnant's `civil_from_days`
/// (<https://howardhinnant.github.io/date_algorithms.html>), for dates from 1970 on.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ms: u64, expected: &str) {
        assert_eq!(Timestamp(ms).to_rfc3339(), expected);
    }

    #[test]
    fn prints_utc() {
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_769_160_600_123, "2026-01-23T09:30:00.123Z");
        check(4_102_444_799_999, "2099-12-31T23:59:59.999Z");
    }

    #[test]
    fn reads_rfc_3339() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(
                Timestamp::from_rfc3339(text).map(Timestamp::to_rfc3339).as_deref(),
                expected,
                "{text}"
            );
        };
        check("2026-01-23T09:30:00Z", Some("2026-01-23T09:30:00.000Z"));
        check("2026-01-23T10:30:00.1239+01:00", Some("2026-01-23T09:30:00.123Z"));
        check("2026-01-23t02:00:00.5-07:30", Some("2026-01-23T09:30:00.500Z"));
        check("2024-02-29 23:59:60z", Some("2024-03-01T00:00:00.000Z"));
        check("2026-01-23", Some("2026-01-23T00:00:00.000Z"));
        check("1969-12-31T00:00:00Z", Some("1970-01-01T00:00:00.000Z"));
        for wrong in [
            "",
            "2026",
            "2026-01-23T09:30:00",
            "2026-01-23T09:30Z",
            "2026-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-01-23T24:00:00Z",
            "2026-01-23T09:30:00.Z",
            "2026-01-23T09:30:00+1:00",
            "2026-01-23T09:30:00+24:00",
            "2026-01-23T09:30:00Z ",
            "2026/01/23",
            "é026-01-23",
            "2026-01-23T09:30:00Zé",
        ] {
            check(wrong, None);
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_printed_reads_back(ms in 0u64..253_402_300_799_999) {
            proptest::prop_assert_eq!(Timestamp::from_rfc3339(&Timestamp(ms).to_rfc3339()), Some(Timestamp(ms)));
        }

        #[test]
        fn any_text_is_read_or_not(text in "[0-9TZ:+.-]{0,30}|\\PC{0,30}") {
            let _ = Timestamp::from_rfc3339(&text);
        }
    }
}
