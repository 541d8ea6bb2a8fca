//! `provider.retry`: how long a run waits for a provider that is down.

use std::borrow::Cow;

use rawko_core::TimeSpan;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The default patience, in milliseconds: 30 minutes.
const DEFAULT_MS: u64 = 30 * 60 * 1_000;

/// `provider.retry:` — waiting for providers, whichever it is. How often one request is sent is set for each provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct OutageConfig {
    /// How long an outage is waited out: connection errors, overload and other server errors (default 30m; 0: not at all). A
    /// quota that names its reset is waited for as long as `constraints.maxDuration` allows.
    pub patience: Patience,
}

/// A length of time that can be zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    ms: u64,
}

impl Patience {
    /// Its length in milliseconds.
    #[must_use]
    pub fn as_ms(self) -> u64 {
        self.ms
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self { ms: DEFAULT_MS }
    }
}

impl Serialize for Patience {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match TimeSpan::from_ms(self.ms) {
            Some(span) => span.serialize(serializer),
            None => serializer.serialize_u64(0),
        }
    }
}

impl<'de> Deserialize<'de> for Patience {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.as_u64() == Some(0) || value.as_str().is_some_and(|text| text.trim() == "0") {
            return Ok(Self { ms: 0 });
        }
        let span = TimeSpan::deserialize(value).map_err(serde::de::Error::custom)?;
        Ok(Self { ms: span.as_ms() })
    }
}

impl JsonSchema for Patience {
    fn schema_name() -> Cow<'static, str> {
        "Patience".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let span = generator.subschema_for::<TimeSpan>();
        json_schema!({
            "description": "A length of time, or 0 for none.",
            "anyOf": [span, { "enum": [0, "0"] }]
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(written: Value, expected: Option<u64>) {
        let read = serde_json::from_value::<Patience>(written).ok();
        assert_eq!(read.map(Patience::as_ms), expected);
        let again = read.map(|read| serde_json::from_value(serde_json::to_value(read).unwrap()).unwrap());
        assert_eq!(again, read, "it is written as it is read");
    }

    #[test]
    fn patience_is_a_length_of_time_or_none() {
        check(json!("30m"), Some(1_800_000));
        check(json!(1_500), Some(1_500));
        check(json!(0), Some(0));
        check(json!("0"), Some(0));
        check(json!("soon"), None);
        check(json!(-1), None);
    }
}
