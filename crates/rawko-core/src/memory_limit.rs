//! Limits on memory as people write them: `4GiB`, `512MiB`, `50%`, `off`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How much memory a command may use with all that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLimit {
    /// As many bytes as that, at least a MiB.
    Bytes(u64),
    /// A share of the machine's memory, from 1 to 100.
    Percent(u8),
    /// As much as there is.
    Off,
}

/// The text is not a limit on memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a limit on memory; write an amount like `4GiB` or `512MiB`, a share like `50%`, or `off`"
)]
pub struct NotAMemoryLimit(String);

const UNITS: [(&str, u64); 3] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)];

/// The rest of the machine's memory is for the system, and for rawko.
impl Default for MemoryLimit {
    fn default() -> Self {
        Self::Percent(75)
    }
}

impl MemoryLimit {
    /// Parses a whole number with the unit `MiB`, `GiB`, `TiB` or `%`, or `off`.
    ///
    /// # Errors
    /// `text` is anything else, zero, or too large to count in bytes.
    pub fn parse(text: &str) -> Result<Self, NotAMemoryLimit> {
        read(text.trim()).ok_or_else(|| NotAMemoryLimit(crate::text::truncate(text, 40)))
    }

    /// The bytes that this leaves a command on a machine with `machine` bytes of memory. `None` for no limit.
    #[must_use]
    pub fn of(self, machine: u64) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Percent(percent) => Some(machine / 100 * u64::from(percent)),
            Self::Off => None,
        }
    }

    /// Whether this is certainly no more than `other`, on every machine.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        match (self, other) {
            (_, Self::Off) => true,
            (Self::Bytes(own), Self::Bytes(other)) => own <= other,
            (Self::Percent(own), Self::Percent(other)) => own <= other,
            (Self::Off | Self::Bytes(_) | Self::Percent(_), _) => false,
        }
    }
}

fn read(text: &str) -> Option<MemoryLimit> {
    if text == "off" {
        return Some(MemoryLimit::Off);
    }
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    if unit == "%" {
        return u8::try_from(number).ok().filter(|percent| *percent <= 100).map(MemoryLimit::Percent);
    }
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor).map(MemoryLimit::Bytes)
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Bytes(bytes) => match UNITS.iter().find(|(_, factor)| bytes % factor == 0) {
                Some((unit, factor)) => write!(f, "{}{unit}", bytes / factor),
                // Made by a program.
                None => write!(f, "{}MiB", bytes >> 20),
            },
        }
    }
}

impl Serialize for MemoryLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MemoryLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for MemoryLimit {
    fn schema_name() -> Cow<'static, str> {
        "MemoryLimit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "an amount of memory like `4GiB` or `512MiB`, a share of the machine's like `50%`, or `off`",
            "type": "string",
            "pattern": r"^\s*(off|0*[1-9][0-9]*(MiB|GiB|TiB)|0*([1-9][0-9]?|100)%)\s*$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads, and checks that what is written is read as the same.
    #[track_caller]
    fn check(text: &str, expected: Option<MemoryLimit>) {
        let limit = MemoryLimit::parse(text).ok();
        assert_eq!(limit, expected, "{text}");
        if let Some(limit) = limit {
            assert_eq!(MemoryLimit::parse(&limit.to_string()), Ok(limit), "{text}");
        }
        let schema = serde_json::to_value(schemars::schema_for!(MemoryLimit)).unwrap();
        let pattern = regex::Regex::new(schema["pattern"].as_str().unwrap()).unwrap();
        assert!(pattern.is_match(text) || expected.is_none(), "the schema refuses {text}");
    }

    #[test]
    fn people_write_limits_so() {
        check("512MiB", Some(MemoryLimit::Bytes(512 << 20)));
        check(" 4GiB ", Some(MemoryLimit::Bytes(4 << 30)));
        check("2048MiB", Some(MemoryLimit::Bytes(2 << 30)));
        check("1TiB", Some(MemoryLimit::Bytes(1 << 40)));
        check("50%", Some(MemoryLimit::Percent(50)));
        check("100%", Some(MemoryLimit::Percent(100)));
        check("off", Some(MemoryLimit::Off));
        for text in
            ["", "4", "0MiB", "0%", "101%", "300%", "-1GiB", "1.5GiB", "4GB", "4 GiB", "4gib", "%", "Off"]
        {
            check(text, None);
        }
        check("99999999999999TiB", None);
    }

    #[test]
    fn what_is_left_to_a_command() {
        assert_eq!(MemoryLimit::default().of(1_000), Some(750));
        assert_eq!(MemoryLimit::Bytes(7).of(1_000), Some(7));
        assert_eq!(MemoryLimit::Off.of(1_000), None);
    }

    #[test]
    fn only_limits_of_one_kind_are_compared() {
        let check = |own: &str, other: &str, expected: bool| {
            let [own, other] = [own, other].map(|text| MemoryLimit::parse(text).unwrap());
            assert_eq!(own.is_within(other), expected, "{own} within {other}");
        };
        check("1GiB", "1GiB", true);
        check("2GiB", "1GiB", false);
        check("50%", "75%", true);
        check("80%", "75%", false);
        check("1MiB", "75%", false);
        check("1%", "1TiB", false);
        check("off", "100%", false);
        check("off", "off", true);
        check("9TiB", "off", true);
    }
}
