//! `hooks:` — programs that are asked at fixed points of a run (`docs/hooks.md`), in the form of Claude Code's settings.
//!
//! Hooks of several files add up: no file takes away what another one has asked. Where a hook comes from decides what it
//! needs: those of a project need trust, and always run as an agent's commands do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rawko_core::agent::SandboxUse;
use rawko_core::hook::HookEvent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::claim::{Claim, ClaimKind, Claims};
use super::diagnostic::whole;
use super::layers::{FileLayer, Layers};
use super::plugins::PluginPlace;
use super::source::Scope;
use crate::hooks::HookMatcher;

/// How long a hook may take if it does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a hook may take at most.
const LONGEST: Duration = Duration::from_secs(600);

/// `hooks:`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct HooksConfig {
    /// Asked before a granted tool call is made; may deny it.
    #[serde(rename = "PreToolUse", skip_serializing_if = "Vec::is_empty")]
    pub pre_tool_use: Vec<HookGroup>,
    /// Asked after a tool call succeeded; may add text to its result.
    #[serde(rename = "PostToolUse", skip_serializing_if = "Vec::is_empty")]
    pub post_tool_use: Vec<HookGroup>,
    /// Asked as a task begins; may refuse it, and add text for agents.
    #[serde(rename = "UserPromptSubmit", skip_serializing_if = "Vec::is_empty")]
    pub user_prompt_submit: Vec<HookGroup>,
    /// Asked when an agent's execution has ended; may add text to what it said.
    #[serde(rename = "SubagentStop", skip_serializing_if = "Vec::is_empty")]
    pub subagent_stop: Vec<HookGroup>,
    /// Asked before a run ends as complete; may send it back three times.
    #[serde(rename = "Stop", skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<HookGroup>,
    /// Asked before a task begins; may add text for agents.
    #[serde(rename = "SessionStart", skip_serializing_if = "Vec::is_empty")]
    pub session_start: Vec<HookGroup>,
    /// Run when a run is over.
    #[serde(rename = "SessionEnd", skip_serializing_if = "Vec::is_empty")]
    pub session_end: Vec<HookGroup>,
    /// `off` runs your own hooks outside the sandbox. Only your own configuration may set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxUse>,
    /// Whether the hooks of your `~/.claude/settings.json` are asked too. Only your own configuration may set it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub claude_settings: bool,
}

impl HooksConfig {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn groups(&self, event: HookEvent) -> &[HookGroup] {
        match event {
            HookEvent::PreToolUse => &self.pre_tool_use,
            HookEvent::PostToolUse => &self.post_tool_use,
            HookEvent::UserPromptSubmit => &self.user_prompt_submit,
            HookEvent::SubagentStop => &self.subagent_stop,
            HookEvent::Stop => &self.stop,
            HookEvent::SessionStart => &self.session_start,
            HookEvent::SessionEnd => &self.session_end,
            _ => &[],
        }
    }
}

/// Hooks for the same cases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct HookGroup {
    /// Which tools (or agents, or beginnings) they are asked about: names with `|` between them, or a regular expression.
    /// Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matcher: Option<String>,
    /// The hooks.
    pub hooks: Vec<HookEntry>,
}

/// One hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HookEntry {
    /// `command`.
    #[serde(rename = "type")]
    pub kind: HookKind,
    /// The command line, as `bash -c` takes it. It gets a JSON object on standard input.
    #[schemars(length(min = 1))]
    pub command: String,
    /// Longest time, in seconds (default 60, at most 600).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout: Option<u64>,
}

/// The kinds of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookKind {
    /// A shell command.
    Command,
}

/// A hook with everything that it needs to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedHook {
    /// The point of a run.
    pub event: HookEvent,
    /// Which cases it is asked about; all if absent.
    pub matcher: Option<String>,
    /// The command line.
    pub command: String,
    /// How long it may take.
    pub timeout: Duration,
    /// The file that has it.
    pub path: PathBuf,
    /// Whether that is the user's or the project's.
    pub scope: Scope,
    /// Whether the user has it run outside the sandbox.
    pub outside_sandbox: bool,
    /// The plug-in that has it.
    pub plugin: Option<PluginPlace>,
}

impl LoadedHook {
    pub(super) fn new(
        event: HookEvent,
        matcher: Option<&str>,
        command: &str,
        timeout: Option<u64>,
        (path, scope): (&Path, Scope),
    ) -> Self {
        let timeout = timeout.map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs(seconds).min(LONGEST));
        let matcher = matcher.map(str::to_owned);
        let (command, path) = (command.to_owned(), path.to_owned());
        Self { event, matcher, command, timeout, path, scope, outside_sandbox: false, plugin: None }
    }
}

/// The hooks of one file, with the pointers to their commands.
fn of_file(file: &FileLayer) -> Vec<(String, LoadedHook)> {
    let config = file.value.get("hooks").cloned().and_then(|hooks| serde_json::from_value(hooks).ok());
    let config: HooksConfig = config.unwrap_or_default();
    let place = (file.source.name.as_path(), file.source.scope);
    let mut found = Vec::new();
    for event in HookEvent::ALL {
        for (n, group) in config.groups(event).iter().enumerate() {
            for (m, entry) in group.hooks.iter().enumerate() {
                let pointer = format!("/hooks/{}/{n}/hooks/{m}/command", event.as_str());
                let matcher = group.matcher.as_deref();
                found.push((pointer, LoadedHook::new(event, matcher, &entry.command, entry.timeout, place)));
            }
        }
    }
    found
}

/// The hooks of all configuration files, the user's first.
pub(super) fn of_layers(layers: &Layers) -> Vec<LoadedHook> {
    layers.files.iter().flat_map(of_file).map(|(_, hook)| hook).collect()
}

/// What is wrong with the entries: pointer, message and help.
pub(super) fn faults(layers: &Layers) -> Vec<(String, String, &'static str)> {
    let mut faults = Vec::new();
    for key in ["sandbox", "claudeSettings"] {
        let pointer = format!("/hooks/{key}");
        if layers.value_in(Scope::Project, &pointer).is_some() {
            let what = format!("only your own configuration may set `hooks.{key}`");
            faults.push((pointer, what, "move it to ~/.config/rawko/config.yaml"));
        }
    }
    for event in HookEvent::ALL {
        let pointer = format!("/hooks/{}", event.as_str());
        let groups = layers.get(&pointer).and_then(Value::as_array);
        for (n, group) in groups.into_iter().flatten().enumerate() {
            let matcher = group.get("matcher").and_then(Value::as_str).unwrap_or_default();
            if let Err(error) = HookMatcher::parse(matcher) {
                let what = format!("this matcher is no regular expression: {error}");
                faults.push((
                    format!("{pointer}/{n}/matcher"),
                    what,
                    "write names of tools, such as `Write|Edit`",
                ));
            }
        }
    }
    faults
}

impl Claims<'_> {
    /// The hooks of the project's configuration.
    pub(super) fn hooks(&mut self) {
        for file in self.layers.files.iter().filter(|file| file.source.scope == Scope::Project) {
            for (pointer, hook) in of_file(file) {
                let message =
                    format!("`{}` would be run as a {} hook", whole(&hook.command), hook.event.as_str());
                let line = file.document.place(&pointer).line;
                self.found.push(Claim {
                    kind: ClaimKind::CustomTool,
                    path: file.source.name.clone(),
                    line,
                    message,
                });
            }
        }
    }
}
