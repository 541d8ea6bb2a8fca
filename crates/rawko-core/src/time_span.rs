//! Durations as people write them: `90s`, `30m`, `1h30m`.
//!
//! The unit of a plain number depends on where it is written ([`PlainNumber`]): milliseconds in a file, seconds on the
//! command line. There is no `FromStr`, so that every caller states which of the two applies.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time in milliseconds, greater than zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan {
    ms: u64,
}

/// The unit of a number without a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainNumber {
    /// In configuration and agent files.
    Milliseconds,
    /// In command line options and environment variables, as for `timeout` and `sleep`.
    Seconds,
}

impl PlainNumber {
    fn in_ms(self) -> u64 {
        match self {
            Self::Milliseconds => 1,
            Self::Seconds => 1_000,
        }
    }
}

impl fmt::Display for PlainNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Milliseconds => "milliseconds",
            Self::Seconds => "seconds",
        })
    }
}

/// The text is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a length of time; write {plain} as a number, or text like `90s`, `30m` or `1h30m`")]
pub struct NotATimeSpan {
    text: String,
    plain: PlainNumber,
}

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl TimeSpan {
    /// `ms` milliseconds; `None` for 0.
    #[must_use]
    pub fn from_ms(ms: u64) -> Option<Self> {
        (ms > 0).then_some(Self { ms })
    }

    /// Parses numbers with the units `d`, `h`, `m`, `s`, `ms`, largest first, or a single number in the unit `plain`.
    ///
    /// # Errors
    /// `text` is anything else, zero, or too long to count in milliseconds.
    pub fn parse(text: &str, plain: PlainNumber) -> Result<Self, NotATimeSpan> {
        parse(text.trim(), plain)
            .and_then(Self::from_ms)
            .ok_or_else(|| NotATimeSpan { text: crate::text::truncate(text, 40), plain })
    }

    /// Its length in milliseconds.
    #[must_use]
    pub fn as_ms(self) -> u64 {
        self.ms
    }

    /// As a [`Duration`].
    #[must_use]
    pub fn as_duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }
}

fn parse(text: &str, plain: PlainNumber) -> Option<u64> {
    if let Ok(count) = text.parse::<u64>() {
        return count.checked_mul(plain.in_ms());
    }
    let mut rest = text;
    let mut total = 0_u64;
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let count: u64 = rest[..digits].parse().ok()?;
        let after = &rest[digits..];
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        // Each unit once, from large to small: `30m1h` is more likely a typo than intended.
        let (_, factor) = units.find(|(unit, _)| *unit == &after[..end])?;
        total = total.checked_add(count.checked_mul(*factor)?)?;
        rest = &after[end..];
    }
    (!text.is_empty()).then_some(total)
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.ms;
        for (unit, factor) in UNITS {
            if rest >= factor {
                write!(f, "{}{unit}", rest / factor)?;
                rest %= factor;
            }
        }
        Ok(())
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A length of time in a file, as text: a number is one of milliseconds.
///
/// # Errors
/// Where it is neither a number nor text.
pub fn text_in_file<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum MsOrText {
        Ms(u64),
        Text(String),
    }
    Ok(match MsOrText::deserialize(deserializer)? {
        MsOrText::Ms(ms) => ms.to_string(),
        MsOrText::Text(text) => text,
    })
}

/// The schema of a length of time in a file, which is at least so many milliseconds.
#[must_use]
pub fn schema_in_file(description: &str, minimum: u64) -> Schema {
    json_schema!({
        "description": description,
        "anyOf": [
            { "type": "integer", "minimum": minimum },
            { "type": "string", "pattern": r"^\s*([0-9]+|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)\s*$" }
        ]
    })
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = text_in_file(deserializer)?;
        Self::parse(&text, PlainNumber::Milliseconds).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for TimeSpan {
    fn schema_name() -> Cow<'static, str> {
        "TimeSpan".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema_in_file("a length of time: milliseconds as a number, or text like `90s`, `30m` or `1h30m`", 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        let read = TimeSpan::parse(text, PlainNumber::Milliseconds);
        assert_eq!(read.ok().map(TimeSpan::as_ms), expected, "{text}");
    }

    #[test]
    fn people_write_time_so() {
        check("250", Some(250));
        check("90s", Some(90_000));
        check(" 30m ", Some(1_800_000));
        check("1h30m", Some(5_400_000));
        check("2d", Some(172_800_000));
        check("1s500ms", Some(1_500));
        for wrong in
            ["", "0", "0s", "m", "30 m", "1.5h", "-5s", "30m1h", "5x", "1h1h", "99999999999999999999s"]
        {
            check(wrong, None);
        }
    }

    #[test]
    fn a_number_without_a_unit_counts_what_its_place_says() {
        let seconds = |text| TimeSpan::parse(text, PlainNumber::Seconds);
        assert_eq!(seconds("5"), Ok(TimeSpan { ms: 5_000 }));
        assert_eq!(seconds("5ms"), Ok(TimeSpan { ms: 5 }));
        assert_eq!(serde_json::from_str::<TimeSpan>("5").unwrap(), TimeSpan { ms: 5 });
        assert_eq!(serde_json::from_str::<TimeSpan>("\"5\"").unwrap(), TimeSpan { ms: 5 });
        let error = |text| seconds(text).unwrap_err().to_string();
        assert!(error("1.5").contains("write seconds as a number"), "{}", error("1.5"));
        assert!(error(&u64::MAX.to_string()).contains("is not a length of time"));
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_read(ms in 1_u64..) {
            let span = TimeSpan { ms };
            for plain in [PlainNumber::Milliseconds, PlainNumber::Seconds] {
                prop_assert_eq!(TimeSpan::parse(&span.to_string(), plain), Ok(span));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,30}") {
            let _ = TimeSpan::parse(&text, PlainNumber::Seconds);
        }
    }
}
