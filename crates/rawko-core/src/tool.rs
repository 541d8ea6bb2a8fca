//! Tools as the core sees them: a specification for the model, an access level for the policy, an outcome to record.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Ask;
use crate::error::ErrorCode;
use crate::hook::HookReply;
use crate::message::Image;
use crate::policy::net_preset_of;
pub use crate::tool_spec::{ToolAccess, ToolSpec};

/// The outcome of one tool call. A failure is an outcome too: the model sees it and can act on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolOutcome {
    /// The result for the model, already bounded.
    pub content: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// Kind of failure, if the tool knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Exit status of the program that was run, if one was and it exited by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Exit statuses of the members of the last pipeline of a shell command, in order; empty where it had one member, or
    /// where they are not known. A record of what happened, and nothing that the command could not forge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pipe_status: Vec<i32>,
    /// Files that the tool wrote; relative paths if they are inside the project.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    /// Files inside the project that a shell command names and that differ after it, by their metadata. What it changed
    /// beside them is not looked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named_files_changed: Vec<String>,
    /// Files whose content the agent knows now, because it read or wrote them. A resumed run starts with these, so that
    /// it may edit what it could edit before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_seen: Vec<SeenFile>,
    /// The background jobs that the call started, or whose end it reports, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Box<JobChanges>>,
    /// What the call needed and was refused, where the user could grant it. Nothing that is denied outright. With a host among
    /// it, a call that may change something has run and met the refusal; else nothing was done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
    /// The change of the configuration that would allow a call that the policy denied: for people, the model cannot make it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would_allow: Option<String>,
    /// What hooks and the embedding program said about the call, if they said anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Box<HookReply>>,
    /// Pictures that belong to the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Wall time the call took, in milliseconds.
    pub duration_ms: u64,
}

/// What a call needed and its permissions do not grant (`docs/tools.md`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Refusal {
    /// To run a command that the agent's lists do not allow: `tools.bashFilter`, `permissions.run`.
    Command,
    /// To reach a host: `permissions.net`.
    Host {
        /// Its name or address, without a port.
        host: String,
    },
    /// To read a path: `permissions.read`.
    Read {
        /// The path, absolute.
        path: String,
    },
    /// To write a path: `permissions.write`.
    Write {
        /// The path, absolute.
        path: String,
    },
}

impl Refusal {
    /// Which entry of `permissions.ask` has a person asked for it.
    #[must_use]
    pub fn asked_by(&self) -> Ask {
        match self {
            Self::Command => Ask::Commands,
            Self::Host { .. } => Ask::Hosts,
            Self::Read { .. } | Self::Write { .. } => Ask::Paths,
        }
    }
}

impl Refusal {
    /// The change of the configuration that grants it for good. For a command, the policy's decision names it.
    fn change_to_grant_it(&self) -> Option<String> {
        match self {
            Self::Command => None,
            Self::Host { host } => {
                let all = net_preset_of(host)
                    .map(|preset| format!(", or `- {preset}` for all hosts of that package manager"));
                let all = all.unwrap_or_default();
                Some(format!(
                    "add `- {host}` under permissions.net{all}; for one run: {}",
                    flag_to_grant(host)
                ))
            }
            Self::Read { path } => Some(format!("add `- {path}` under permissions.read")),
            Self::Write { path } => Some(format!("add `- {path}` under permissions.write")),
        }
    }
}

/// The option that grants a host for one run, instead of the configured ones.
#[must_use]
pub fn flag_to_grant(host: &str) -> String {
    format!("--allow-net={}", net_preset_of(host).unwrap_or(host))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command => f.write_str("to run this command"),
            Self::Host { host } => write!(f, "to reach {host}"),
            Self::Read { path } => write!(f, "to read {path}"),
            Self::Write { path } => write!(f, "to write {path}"),
        }
    }
}

/// What a call changed about the background jobs of its agent. The end of a job that no call reports is unknown to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobChanges {
    /// The number of the job that the call started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<u32>,
    /// The jobs whose end the result reports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<u32>,
}

/// A file as an agent last saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeenFile {
    /// The file, as the tool names it.
    pub path: String,
    /// SHA-256 of its content, in hexadecimal.
    pub digest: String,
}

impl ToolOutcome {
    /// The outcome of a successful call.
    #[must_use]
    pub fn ok(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// A copy for reports: pictures are listed without their data, which can be megabytes.
    #[must_use]
    pub fn without_pictures(&self) -> Self {
        let images = self.images.iter();
        Self {
            content: self.content.clone(),
            is_error: self.is_error,
            error_code: self.error_code,
            exit_code: self.exit_code,
            pipe_status: self.pipe_status.clone(),
            files_modified: self.files_modified.clone(),
            named_files_changed: self.named_files_changed.clone(),
            files_seen: self.files_seen.clone(),
            jobs: self.jobs.clone(),
            refused: self.refused.clone(),
            would_allow: self.would_allow.clone(),
            hooks: self.hooks.clone(),
            images: images
                .map(|image| Image { media_type: image.media_type.clone(), data: String::new() })
                .collect(),
            duration_ms: self.duration_ms,
        }
    }

    /// The changes of the configuration that would have allowed what was refused, for people.
    #[must_use]
    pub fn changes_to_allow_it(&self) -> Vec<String> {
        let refused = self.refused.iter().filter_map(Refusal::change_to_grant_it);
        self.would_allow.iter().cloned().chain(refused).collect()
    }

    /// The outcome of a failed call.
    #[must_use]
    pub fn error(code: ErrorCode, content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true, error_code: Some(code), ..Self::default() }
    }
}
