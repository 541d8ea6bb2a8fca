//! `verify:` of `config.yaml`: the commands that verify that a task is done.
//!
//! Owns the two forms, a list of command lines and a mapping. If neither is given, [`crate::Rawko::verification_plan`]
//! finds the commands.

use std::borrow::Cow;

use rawko_core::TimeSpan;
use rawko_core::integrity::ChangedChecks;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// `verify:` — the commands that verify that a task is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifyConfig {
    /// The command lines, run with `bash -c`. Empty: none are run. Absent: rawko finds them by the project's build files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<String>>,
    /// Longest time of one command (default 15m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
    /// Further files that are tests, as globs relative to the project, besides those that the conventions of the common
    /// ecosystems name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<String>,
    /// What a run may do to the checks that verify it (default rerun).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_checks: Option<ChangedChecks>,
}

impl VerifyConfig {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl<'de> Deserialize<'de> for VerifyConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum RawVerifyConfig {
            List(Vec<String>),
            Mapping(Mapping),
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        struct Mapping {
            #[serde(default)]
            commands: Option<Vec<String>>,
            #[serde(default)]
            timeout: Option<TimeSpan>,
            #[serde(default)]
            tests: Vec<String>,
            #[serde(default)]
            changed_checks: Option<ChangedChecks>,
        }
        Ok(match RawVerifyConfig::deserialize(deserializer)? {
            RawVerifyConfig::List(commands) => Self { commands: Some(commands), ..Self::default() },
            RawVerifyConfig::Mapping(Mapping { commands, timeout, tests, changed_checks }) => {
                Self { commands, timeout, tests, changed_checks }
            }
        })
    }
}

impl JsonSchema for VerifyConfig {
    fn schema_name() -> Cow<'static, str> {
        "VerifyConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let time = generator.subschema_for::<TimeSpan>();
        let changed_checks = generator.subschema_for::<ChangedChecks>();
        let commands = |text: &str| json_schema!({ "description": text, "type": "array", "items": { "type": "string", "minLength": 1 } });
        json_schema!({
            "description": "a list of command lines (`[cargo test]`, `[]` for none), or a mapping with `commands`, `timeout`, `tests` and `changedChecks`",
            "anyOf": [
                commands("The command lines."),
                {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "commands": commands("The command lines, run with `bash -c`. If absent, rawko finds them by the project's build files."),
                        "timeout": { "description": "Longest time of one command (default 15m).", "allOf": [time] },
                        "tests": { "description": "Further files that are tests, as globs relative to the project, besides those that the conventions of the common ecosystems name.", "type": "array", "items": { "type": "string", "minLength": 1 } },
                        "changedChecks": { "description": "What a run may do to the checks that verify it (default rerun).", "allOf": [changed_checks] }
                    }
                }
            ]
        })
    }
}
