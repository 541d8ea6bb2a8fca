//! The settings of a provider.
//!
//! Owns the settings of one configured provider and what follows from its base URL. The SDK's configuration reads them
//! from files and decides which source wins.

use std::fmt;

use rawko_core::retry::RetryPolicy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preset::{self, Preset};
use crate::secret::{REDACTED, Secret};

/// The wire format a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderKind {
    /// Anthropic's Messages API.
    Claude,
    /// `OpenAI`'s Chat Completions, and every server that speaks it.
    #[serde(rename = "openai")]
    OpenAi,
    /// `OpenAI`'s Responses API, and every server that speaks Open Responses.
    Responses,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Timeouts {
    /// Until the connection is established, in milliseconds.
    pub connect_ms: u64,
    /// Without a byte from the server, in milliseconds. The time in which it processes the prompt counts.
    pub idle_ms: u64,
    /// For the whole call with its retries, in milliseconds.
    pub total_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect_ms: 10_000, idle_ms: 60_000, total_ms: 900_000 }
    }
}

impl Timeouts {
    /// For a server on the same machine, which may load a model and process a long prompt for minutes.
    pub(crate) fn local() -> Self {
        Self { connect_ms: 2_000, idle_ms: 600_000, total_ms: 3_600_000 }
    }
}

/// One configured provider.
#[derive(Clone)]
pub struct ProviderSettings {
    /// The name under which it is configured.
    pub name: String,
    /// The wire format.
    pub kind: ProviderKind,
    /// The base URL of the API: `https://api.anthropic.com`, `https://api.openai.com/v1`. Shown only without credentials.
    pub base_url: String,
    /// The key, if the server needs one. It is sent to the host of `base_url` and nowhere else.
    pub api_key: Option<Secret>,
    /// The model to use if none is named. If this is empty, every request must name one.
    pub default_model: String,
    /// How often and after which waits a failed call is tried again.
    pub retry: RetryPolicy,
    /// How long a call may take.
    pub timeouts: Timeouts,
    /// Whether a server of Chat Completions forces a tool by its name. Most do; for the others the only tool of a request is
    /// forced by the word `required`.
    pub forces_by_name: bool,
}

impl ProviderSettings {
    /// Settings for any server, without a key.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: ProviderKind, base_url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind,
            base_url: base_url.into(),
            api_key: None,
            default_model: String::new(),
            retry: RetryPolicy::default(),
            timeouts: Timeouts::default(),
            forces_by_name: true,
        }
    }

    /// The settings of the preset called `name`, without a key ([`Preset::key_env`] names its variable).
    #[must_use]
    pub fn preset(name: &str) -> Option<Self> {
        preset::find(name).map(Self::from_preset)
    }

    /// The settings of `preset`, without a key.
    #[must_use]
    pub fn from_preset(preset: &Preset) -> Self {
        Self {
            default_model: preset.default_model.unwrap_or_default().to_owned(),
            timeouts: if preset.local { Timeouts::local() } else { Timeouts::default() },
            forces_by_name: preset.forces_by_name,
            ..Self::new(preset.name, preset.kind, preset.base_url)
        }
    }

    /// Sets the key.
    #[must_use]
    pub fn with_key(mut self, key: Option<Secret>) -> Self {
        self.api_key = key;
        self
    }
}

impl fmt::Debug for ProviderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSettings")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("base_url", &shown_url(&self.base_url))
            .field("api_key", &self.api_key)
            .field("default_model", &self.default_model)
            .field("retry", &self.retry)
            .field("timeouts", &self.timeouts)
            .field("forces_by_name", &self.forces_by_name)
            .finish()
    }
}

/// `url` without credentials and query, which may contain keys, whether it can be parsed or not.
pub(crate) fn shown_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("//").map_or(("", url), |(s, r)| (s, r));
    let authority_end = rest.find('/').unwrap_or(rest.len());
    match rest[..authority_end].rfind('@') {
        Some(at) => {
            let slashes = if url.contains("//") { "//" } else { "" };
            format!("{scheme}{slashes}{REDACTED}{}", &rest[at..])
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_shown(url: &str, expected: &str) {
        assert_eq!(shown_url(url), expected);
    }

    #[test]
    fn credentials_in_a_url_are_not_shown() {
        check_shown("https://user:hunter2@host/v1", "https://[redacted]@host/v1");
        check_shown("https://host/v1/@scope", "https://host/v1/@scope");
        check_shown("https://host/v1?key=hunter2", "https://host/v1");
        check_shown("user:hunter2@host", "[redacted]@host");
        check_shown("nonsense", "nonsense");
    }

    #[test]
    fn debug_shows_no_key() {
        let settings = ProviderSettings::new("p", ProviderKind::Claude, "https://u:canary-url@host")
            .with_key(Some(Secret::new("canary-key")));
        let shown = format!("{settings:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }
}
