//! A length of time after which something ends, or `0` for none.

use std::borrow::Cow;
use std::fmt;

use rawko_core::time_span::{schema_in_file, text_in_file};
use rawko_core::{NotATimeSpan, PlainNumber, TimeSpan};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// When something ends at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLimit {
    /// Never; written as `0`.
    Off,
    /// After this time.
    After(TimeSpan),
}

impl TimeLimit {
    /// So many milliseconds; off for 0.
    #[must_use]
    pub fn from_ms(ms: u64) -> Self {
        TimeSpan::from_ms(ms).map_or(Self::Off, Self::After)
    }

    /// Parses a length of time like [`TimeSpan::parse`], or `0`.
    ///
    /// # Errors
    /// `text` is neither.
    pub fn parse(text: &str, plain: PlainNumber) -> Result<Self, NotATimeSpan> {
        if text.trim() == "0" { Ok(Self::Off) } else { TimeSpan::parse(text, plain).map(Self::After) }
    }

    /// The limit in milliseconds; `None` if it is off.
    #[must_use]
    pub fn as_ms(self) -> Option<u64> {
        match self {
            Self::Off => None,
            Self::After(span) => Some(span.as_ms()),
        }
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::After(span) => span.fmt(f),
        }
    }
}

impl Serialize for TimeLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = text_in_file(deserializer)?;
        Self::parse(&text, PlainNumber::Milliseconds).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for TimeLimit {
    fn schema_name() -> Cow<'static, str> {
        "TimeLimit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let description = "a length of time: milliseconds as a number, or text like `90s`, `30m` or `1h30m`; `0` for no limit";
        schema_in_file(description, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<TimeLimit>) {
        assert_eq!(TimeLimit::parse(text, PlainNumber::Seconds).ok(), expected, "{text}");
    }

    #[test]
    fn nought_is_no_limit() {
        check("0", Some(TimeLimit::Off));
        check("90", Some(TimeLimit::from_ms(90_000)));
        check("4h", Some(TimeLimit::from_ms(4 * 3_600_000)));
        check("soon", None);
        for limit in [TimeLimit::Off, TimeLimit::from_ms(1)] {
            let written = serde_json::to_value(limit).unwrap();
            assert_eq!(serde_json::from_value::<TimeLimit>(written).unwrap(), limit);
        }
        assert_eq!(serde_json::from_str::<TimeLimit>("0").unwrap(), TimeLimit::Off);
    }
}
