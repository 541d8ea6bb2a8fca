//! Lists every setting with its value and origin, as `rawko config show` prints them.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::diagnostic::dotted;
use super::layers::Origin;
use super::load::Loaded;
use super::yaml::escape;

/// The effective settings, in the order of the file format.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConfigReport {
    /// The settings, one entry for each value.
    pub settings: Vec<ReportedSetting>,
}

/// One effective setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedSetting {
    /// Its path, e.g. `constraints.maxIterations`.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Where the value comes from.
    pub origin: Origin,
}

impl Loaded {
    /// Every setting with its value and origin.
    #[must_use]
    pub fn report(&self) -> ConfigReport {
        let mut settings = Vec::new();
        // Serialising our own types cannot fail: their keys are strings and their numbers finite.
        let value = serde_json::to_value(&self.config).unwrap_or_default();
        self.collect(&value, &mut String::new(), &mut settings);
        ConfigReport { settings }
    }

    fn collect(&self, value: &Value, pointer: &mut String, settings: &mut Vec<ReportedSetting>) {
        match value {
            Value::Object(map) => {
                for (key, item) in map {
                    let parent = pointer.len();
                    pointer.push('/');
                    pointer.push_str(&escape(key));
                    self.collect(item, pointer, settings);
                    pointer.truncate(parent);
                }
            }
            _ => settings.push(ReportedSetting {
                key: dotted(pointer),
                value: value.clone(),
                origin: self.provenance.origin(pointer).clone(),
            }),
        }
    }
}

impl fmt::Display for ConfigReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self
            .settings
            .iter()
            .map(|setting| match &setting.value {
                Value::String(text) => format!("{} = {}", setting.key, super::diagnostic::printable(text)),
                value => format!("{} = {value}", setting.key),
            })
            .collect();
        let width = lines.iter().map(|line| line.chars().count()).filter(|w| *w <= 60).max().unwrap_or(0);
        for (line, setting) in lines.iter().zip(&self.settings) {
            writeln!(f, "{line:width$}  # {}", setting.origin)?;
        }
        Ok(())
    }
}
