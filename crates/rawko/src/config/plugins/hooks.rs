//! The hooks of a plug-in, in Claude Code's shape. They are only read here.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use super::PluginPlace;
use super::files::JsonFile;
use super::manifest::{ManifestPart, PluginManifest};
use crate::config::diagnostic::{Diagnostic, printable};

/// Where they are.
const HOOKS: &str = "hooks/hooks.json";
const FORM: &str =
    r#"write {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": …}]}]}}"#;

/// A command that a hook runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookCommand {
    /// The event that it runs at.
    pub event: String,
    /// What it matches, where it does not run at each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matcher: Option<String>,
    /// The command, or the hook itself where it runs none.
    pub command: String,
}

/// The hooks of all files and of the manifest, by event.
pub(super) fn read(
    place: &PluginPlace,
    shown: &Path,
    manifest: &PluginManifest,
    findings: &mut Vec<Diagnostic>,
) -> Map<String, Value> {
    let mut hooks = Map::new();
    let mut seen = Vec::new();
    let default = ManifestPart::File(HOOKS.into());
    for part in std::iter::once(&default).chain(&manifest.hooks) {
        match part {
            ManifestPart::Inline(pointer, value) => add(&mut hooks, &manifest.file, pointer, value, findings),
            ManifestPart::File(path) if seen.contains(&path) => {}
            ManifestPart::File(path) => {
                seen.push(path);
                match JsonFile::read(&place.root, shown, path) {
                    Ok(Some(file)) => add(&mut hooks, &file, "", &file.value, findings),
                    Ok(None) if path == Path::new(HOOKS) => {}
                    Ok(None) => {
                        let message = "there is no such file, so its hooks are not there";
                        let help = Some("correct `hooks` in the manifest".to_owned());
                        findings.push(Diagnostic::of_file(&shown.join(path), message, help));
                    }
                    Err(error) => findings.push(*error),
                }
            }
        }
    }
    hooks
}

/// Adds the hooks of one value, which may be around them: `{"hooks": {…}}`.
fn add(
    hooks: &mut Map<String, Value>,
    file: &JsonFile,
    pointer: &str,
    value: &Value,
    findings: &mut Vec<Diagnostic>,
) {
    let (pointer, value) = match value.get("hooks") {
        Some(inner) => (format!("{pointer}/hooks"), inner),
        None => (pointer.to_owned(), value),
    };
    let Some(events) = value.as_object() else {
        findings.push(file.finding(&pointer, "these hooks are left out: they are no object", FORM));
        return;
    };
    for (event, groups) in events {
        let is_group = |group: &Value| group.get("hooks").is_some_and(Value::is_array);
        let groups = groups.as_array().filter(|groups| groups.iter().all(is_group));
        match (groups, hooks.entry(event.clone()).or_insert_with(|| Value::Array(Vec::new()))) {
            (Some(groups), Value::Array(known)) => known.extend(groups.iter().cloned()),
            _ => {
                let message =
                    format!("the hooks of `{}` are left out: they are no list of them", printable(event));
                let pointer = format!("{pointer}/{}", crate::config::escape(event));
                findings.push(file.finding(&pointer, message, FORM));
            }
        }
    }
    hooks.retain(|_, groups| groups.as_array().is_some_and(|groups| !groups.is_empty()));
}

/// The commands of these hooks.
pub(super) fn commands(hooks: &Map<String, Value>) -> Vec<HookCommand> {
    let mut commands = Vec::new();
    for (event, groups) in hooks {
        for group in groups.as_array().into_iter().flatten() {
            let matcher = group.get("matcher").and_then(Value::as_str).filter(|matcher| !matcher.is_empty());
            for hook in group.get("hooks").and_then(Value::as_array).into_iter().flatten() {
                let command = hook.get("command").and_then(Value::as_str).map(str::to_owned);
                commands.push(HookCommand {
                    event: event.clone(),
                    matcher: matcher.map(str::to_owned),
                    command: command.unwrap_or_else(|| hook.to_string()),
                });
            }
        }
    }
    commands
}
