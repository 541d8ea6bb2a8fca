//! `fleet:` — where the fleet is that tasks are submitted to (`docs/fleets.md`). Keys and certificates are never here: they are
//! in Temporal's own variables and files.

use rawko_core::TimeSpan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::claim::{ClaimKind, Claims};
use super::diagnostic::whole;

/// `fleet:`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct FleetConfig {
    /// Host and port of the Temporal server, e.g. `temporal.example.com:7233`. `TEMPORAL_ADDRESS` takes precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub address: Option<String>,
    /// The namespace there. `TEMPORAL_NAMESPACE` takes precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub namespace: Option<String>,
    /// The profile of Temporal's own `temporal.toml`. `TEMPORAL_PROFILE` takes precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub profile: Option<String>,
    /// The first word of the names of its queues. Default: `rawko`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub queue: Option<String>,
    /// What its workers share: an absolute path, or `s3://bucket/prefix`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub store: Option<String>,
    /// How long a worker may be silent before another one takes its step over, from 1s to 1h. Default: `10s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takeover: Option<TimeSpan>,
}

impl Claims<'_> {
    /// A file that chooses the server or the queue decides who gets the tasks and the key for the server.
    pub(super) fn fleet(&mut self, config: &FleetConfig) {
        let chosen = [
            ("address", &config.address, "tasks for a fleet would be sent to the server"),
            ("namespace", &config.namespace, "tasks for a fleet would be sent to the namespace"),
            ("profile", &config.profile, "tasks for a fleet would be sent to the server of the profile"),
            ("queue", &config.queue, "tasks for a fleet would be given to the workers of the queue"),
            ("store", &config.store, "what a fleet shares would be kept in"),
        ];
        for (key, value, what) in chosen {
            if let Some(value) = value {
                let message = format!("{what} {}", whole(value));
                self.add(ClaimKind::Server, &format!("/fleet/{key}"), message);
            }
        }
    }
}
