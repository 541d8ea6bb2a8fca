//! The hooks of a plug-in, in Claude Code's shape.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use super::PluginPlace;
use super::files::JsonFile;
use super::manifest::{ManifestPart, PluginManifest};
use crate::config::claude_settings;
use crate::config::diagnostic::{Diagnostic, printable};
use crate::config::hooks::LoadedHook;
use crate::config::source::Scope;

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

/// The hooks of all files and of the manifest by event, and those of them that runs ask.
pub(super) fn read(
    place: &PluginPlace,
    shown: &Path,
    manifest: &PluginManifest,
    findings: &mut Vec<Diagnostic>,
) -> (Map<String, Value>, Vec<LoadedHook>) {
    let mut found = PluginHooks { place, by_event: Map::new(), asked: Vec::new(), findings };
    let mut seen = Vec::new();
    let default = ManifestPart::File(HOOKS.into());
    for part in std::iter::once(&default).chain(&manifest.hooks) {
        match part {
            ManifestPart::Inline(pointer, value) => found.add(&manifest.file, pointer, value),
            ManifestPart::File(path) if seen.contains(&path) => {}
            ManifestPart::File(path) => {
                seen.push(path);
                match JsonFile::read(&place.root, shown, path) {
                    Ok(Some(file)) => found.add(&file, "", &file.value),
                    Ok(None) if path == Path::new(HOOKS) => {}
                    Ok(None) => {
                        let message = "there is no such file, so its hooks are not there";
                        let help = Some("correct `hooks` in the manifest".to_owned());
                        found.findings.push(Diagnostic::of_file(&shown.join(path), message, help));
                    }
                    Err(error) => found.findings.push(*error),
                }
            }
        }
    }
    (found.by_event, found.asked)
}

struct PluginHooks<'a> {
    place: &'a PluginPlace,
    by_event: Map<String, Value>,
    asked: Vec<LoadedHook>,
    findings: &'a mut Vec<Diagnostic>,
}

impl PluginHooks<'_> {
    /// Adds the hooks of one value, which may be around them: `{"hooks": {…}}`.
    fn add(&mut self, file: &JsonFile, pointer: &str, value: &Value) {
        let (pointer, value) = match value.get("hooks") {
            Some(inner) => (format!("{pointer}/hooks"), inner),
            None => (pointer.to_owned(), value),
        };
        let Some(events) = value.as_object() else {
            self.findings.push(file.finding(&pointer, "these hooks are left out: they are no object", FORM));
            return;
        };
        let mut good = Map::new();
        for (event, groups) in events {
            let is_group = |group: &Value| group.get("hooks").is_some_and(Value::is_array);
            match groups.as_array().filter(|groups| groups.iter().all(is_group)) {
                Some(groups) if groups.is_empty() => {}
                Some(_) => drop(good.insert(event.clone(), groups.clone())),
                None => {
                    let message =
                        format!("the hooks of `{}` are left out: they are no list of them", printable(event));
                    let pointer = format!("{pointer}/{}", crate::config::escape(event));
                    self.findings.push(file.finding(&pointer, message, FORM));
                }
            }
        }
        let name = &file.source.name;
        let mut warn = |message: String, help: &str| {
            self.findings.push(Diagnostic::of_file(name, message, Some(help.to_owned())));
        };
        let asked = claude_settings::asked(&good, (name, Scope::User), &mut warn);
        self.asked
            .extend(asked.into_iter().map(|hook| LoadedHook { plugin: Some(self.place.clone()), ..hook }));
        for (event, groups) in good {
            let known = self.by_event.entry(event).or_insert_with(|| Value::Array(Vec::new()));
            if let (Value::Array(groups), Value::Array(known)) = (groups, known) {
                known.extend(groups);
            }
        }
    }
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
