//! What a plug-in contains, and how it joins what the user configured (`docs/plugins.md`).
//!
//! Two forms of manifest: `plugin.json` of the Agent Plugins specification (<https://agent-plugins.org>, version 1.0.0), and
//! Claude Code's `.claude-plugin/plugin.json`. Both bring skills and MCP servers; agents and hooks are in Claude Code's places
//! and forms. Where a plug-in comes from and whether it was approved is `plugins`' to say.

mod files;
mod hooks;
mod join;
mod manifest;
mod parts;
mod servers;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawko_core::agent::AgentConfig;
use serde::Serialize;
use serde_json::{Map, Value};

use super::claude_code::ImportContext;
use super::diagnostic::Diagnostic;
use super::hooks::LoadedHook;
use super::mcp::LoadedServer;
use super::model::ProviderType;
use crate::skills::Skill;
use manifest::PluginManifest;

pub use hooks::HookCommand;
pub(super) use join::add_servers;
pub(crate) use manifest::is_plugin_name;

/// Which specification a plug-in follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PluginForm {
    /// Agent Plugins 1.0.0: `plugin.json`.
    AgentPlugins,
    /// Claude Code: `.claude-plugin/plugin.json`.
    ClaudeCode,
}

/// Where a plug-in is, and what it may keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginPlace {
    /// The plug-in's name.
    pub name: String,
    /// Its folder.
    pub root: PathBuf,
    /// The folder for what its programs keep.
    pub data: PathBuf,
}

impl PluginPlace {
    /// The variables that its programs get.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (root, data) = (text(&self.root), text(&self.data));
        // What Python keeps beside its files does not count for the digest, so Python is to look elsewhere.
        let pycache = text(&self.data.join("pycache"));
        [
            ("PLUGIN_ROOT", root.clone()),
            ("PLUGIN_DATA", data.clone()),
            ("CLAUDE_PLUGIN_ROOT", root),
            ("CLAUDE_PLUGIN_DATA", data),
            ("PYTHONPYCACHEPREFIX", pycache),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

/// The plug-in that a server comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginServer {
    /// The plug-in.
    pub place: PluginPlace,
    /// Its form, which says what is filled in.
    pub form: PluginForm,
}

/// An agent of a plug-in.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginAgent {
    /// The agent.
    pub config: AgentConfig,
    /// Its file.
    pub path: PathBuf,
}

/// A plug-in, as its files say.
#[derive(Debug, Clone)]
pub struct Plugin {
    /// Its name, its folder, and the folder for what its programs keep.
    pub place: PluginPlace,
    /// Which specification it follows.
    pub form: PluginForm,
    /// Its version.
    pub version: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Its skills.
    pub skills: Vec<Skill>,
    /// Its agents.
    pub agents: Vec<PluginAgent>,
    /// Its servers by name.
    pub servers: BTreeMap<String, LoadedServer>,
    /// Its hooks in Claude Code's shape: for each event a list of `{matcher, hooks}`.
    pub hooks: Map<String, Value>,
    /// Those of them that runs ask.
    pub asked: Vec<LoadedHook>,
    /// What it has and rawko does not use.
    pub unused: Vec<&'static str>,
    /// What is left out of it, and why.
    pub findings: Vec<Diagnostic>,
}

impl Plugin {
    /// Reads the plug-in at its place, shown as `shown`.
    ///
    /// # Errors
    /// What is wrong with its manifest, and each agent that has the name of a built-in one.
    pub fn read(place: PluginPlace, shown: &Path) -> Result<Self, Vec<Diagnostic>> {
        // Names of tools and models are checked when it is used.
        Self::read_for(place, shown, &ImportContext { tools: &[], provider: Some(ProviderType::Claude) })
    }

    pub(super) fn read_for(
        place: PluginPlace,
        shown: &Path,
        around: &ImportContext<'_>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut findings = Vec::new();
        let manifest = PluginManifest::read(&place.root, shown, &mut findings)?;
        let place = PluginPlace { name: manifest.name.clone(), ..place };
        let skills = parts::skills(&place, shown, &manifest, &mut findings);
        let agents = parts::agents(&place, shown, &manifest, around, &mut findings)?;
        let servers = servers::read(&place, shown, &manifest, &mut findings);
        let (hooks, asked) = hooks::read(&place, shown, &manifest, &mut findings);
        let unused = parts::unused(&place.root, &manifest);
        let PluginManifest { form, version, description, .. } = manifest;
        Ok(Self {
            place,
            form,
            version,
            description,
            skills,
            agents,
            servers,
            hooks,
            asked,
            unused,
            findings,
        })
    }

    /// Lets its servers reach these hosts.
    pub(crate) fn may_reach(&mut self, hosts: &[String]) {
        for server in self.servers.values_mut() {
            server.config.permissions.net = Some(hosts.to_vec());
        }
    }

    /// The commands that its hooks run.
    #[must_use]
    pub fn hook_commands(&self) -> Vec<HookCommand> {
        hooks::commands(&self.hooks)
    }
}

/// The name of the plug-in at `root`, shown as `shown`.
pub(crate) fn plugin_name(root: &Path, shown: &Path) -> Result<String, Vec<Diagnostic>> {
    PluginManifest::read(root, shown, &mut Vec::new()).map(|manifest| manifest.name)
}
