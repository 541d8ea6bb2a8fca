//! `apiKeyEnv:` of a provider. Unlike for every other key, absent and `null` mean different things.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which environment variable holds a provider's key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ApiKeyEnv {
    /// Not configured: a preset at its own address gets the preset's key, any other server gets none.
    #[default]
    NotSet,
    /// `null`: no key is sent.
    NoKey,
    /// The key is in the environment variable of this name.
    Variable(String),
}

impl ApiKeyEnv {
    pub(super) fn is_not_set(&self) -> bool {
        *self == Self::NotSet
    }
}

impl JsonSchema for ApiKeyEnv {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ApiKeyEnv".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["string", "null"], "pattern": r"^[A-Za-z_][A-Za-z0-9_]*$" })
    }
}

impl Serialize for ApiKeyEnv {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::NotSet | Self::NoKey => serializer.serialize_none(),
            Self::Variable(name) => serializer.serialize_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for ApiKeyEnv {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map_or(Self::NoKey, Self::Variable))
    }
}
