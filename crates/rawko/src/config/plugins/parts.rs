//! The skills and agents of a plug-in.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rawko_core::agent::builtin_agents;

use super::manifest::PluginManifest;
use super::{PluginAgent, PluginForm, PluginPlace};
use crate::config::agent_rules::COMPLETE;
use crate::config::claude_code::{self, ImportContext};
use crate::config::diagnostic::Diagnostic;
use crate::config::source::{Scope, SourceFile, list};
use crate::skills::{Skill, SkillFault, SkillPlace};

/// Most skills and agents of a plug-in.
const MAX_PARTS: usize = 200;
/// Parts of plug-ins that rawko does not use, by their place.
const UNUSED: [&str; 7] =
    ["commands", "output-styles", "outputStyles", "rules", ".lsp.json", "settings.json", "monitors"];

/// The skills right in `skills/` and in the folders that the manifest names.
pub(super) fn skills(
    place: &PluginPlace,
    shown: &Path,
    manifest: &PluginManifest,
    findings: &mut Vec<Diagnostic>,
) -> Vec<Skill> {
    let mut skills: Vec<Skill> = Vec::new();
    let mut seen = BTreeSet::new();
    let folders = std::iter::once(PathBuf::from("skills")).chain(manifest.skills.iter().cloned());
    for folder in folders {
        let itself = place.root.join(&folder).join("SKILL.md").is_file().then(|| folder.clone());
        let names = folders_in(&place.root.join(&folder));
        for inside in itself.into_iter().chain(names.into_iter().map(|name| folder.join(name))) {
            let Ok(real) = place.root.join(&inside).canonicalize() else { continue };
            if !real.join("SKILL.md").is_file() || !seen.insert(real.clone()) || skills.len() == MAX_PARTS {
                continue;
            }
            let name = shown.join(&inside);
            let at = SkillPlace {
                folder: real,
                shown: name.clone(),
                scope: Scope::User,
                plugin: Some(place.name.clone()),
            };
            let left_out = |why: String, help: &str| Diagnostic::of_file(&name, why, Some(help.to_owned()));
            match Skill::read(at) {
                Ok(skill) if skills.iter().any(|known| known.name == skill.name) => {
                    let message =
                        format!("left out: there is already a skill `{}` in the plug-in", skill.name);
                    findings.push(left_out(message, "rename one of the two"));
                }
                Ok(skill) => skills.push(skill),
                Err(faults) => {
                    let faults: Vec<String> = faults.iter().map(SkillFault::to_string).collect();
                    let message = format!("this skill is left out: {}", faults.join("; "));
                    findings
                        .push(left_out(message, "rawko skills check says what the specification asks for"));
                }
            }
        }
    }
    skills
}

/// The names of the folders right in one, sorted.
fn folders_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = named.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// The agents in `agents/` and in what the manifest names, which have Claude Code's form: they ask for no rights of their own.
pub(super) fn agents(
    place: &PluginPlace,
    shown: &Path,
    manifest: &PluginManifest,
    around: &ImportContext<'_>,
    findings: &mut Vec<Diagnostic>,
) -> Result<Vec<PluginAgent>, Vec<Diagnostic>> {
    let (mut agents, mut errors): (Vec<PluginAgent>, Vec<Diagnostic>) = (Vec::new(), Vec::new());
    let builtin: Vec<String> = builtin_agents().into_iter().map(|agent| agent.name).collect();
    for inside in agent_files(place, shown, manifest, findings) {
        let name = shown.join(&inside);
        let source = match SourceFile::read(&place.root.join(&inside), &name, Scope::User, Some(&place.root))
        {
            Ok(Some(source)) => source,
            Ok(None) => continue,
            Err(unreadable) => {
                findings.push(*unreadable);
                continue;
            }
        };
        let Some(config) = claude_code::translate(&source, around, findings) else { continue };
        if builtin.contains(&config.name) || config.name == COMPLETE {
            let message =
                format!("the plug-in has an agent `{}`, which is the name of a built-in one", config.name);
            let help =
                "a plug-in cannot take the place of what is built in: its author has to rename the agent";
            errors.push(Diagnostic::of_file(&name, message, Some(help.to_owned())));
        } else if agents.iter().any(|known| known.config.name == config.name) {
            let message = format!("left out: there is already an agent `{}` in the plug-in", config.name);
            findings.push(Diagnostic::of_file(&name, message, Some("rename one of the two".to_owned())));
        } else {
            agents.push(PluginAgent { config, path: name });
        }
    }
    if errors.is_empty() { Ok(agents) } else { Err(errors) }
}

/// The files of agents, by their paths in the plug-in.
fn agent_files(
    place: &PluginPlace,
    shown: &Path,
    manifest: &PluginManifest,
    findings: &mut Vec<Diagnostic>,
) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for named in std::iter::once(PathBuf::from("agents")).chain(manifest.agents.iter().cloned()) {
        let path = place.root.join(&named);
        let found = if path.is_file() {
            vec![named]
        } else {
            match list(&path, &shown.join(&named), &["md"]) {
                Ok(listed) => {
                    let inside = |file: PathBuf| file.file_name().map(|name| named.join(name));
                    listed.into_iter().flatten().filter_map(inside).collect()
                }
                Err(error) => {
                    findings.push(*error);
                    continue;
                }
            }
        };
        for file in found {
            if !files.contains(&file) && files.len() < MAX_PARTS {
                files.push(file);
            }
        }
    }
    files
}

/// What the plug-in has and rawko does not use.
pub(super) fn unused(root: &Path, manifest: &PluginManifest) -> Vec<&'static str> {
    let there = UNUSED.into_iter().filter(|name| root.join(name).symlink_metadata().is_ok());
    let mut unused: Vec<&str> = there.collect();
    if manifest.form == PluginForm::ClaudeCode {
        let fields = ["commands", "outputStyles", "lspServers"];
        let named = fields.into_iter().filter(|field| manifest.file.value.get(field).is_some());
        unused.extend(named);
        unused.sort_unstable();
        unused.dedup();
    }
    unused
}
