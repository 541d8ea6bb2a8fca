//! The manifest of a plug-in, in either form.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::PluginForm;
use super::files::{JsonFile, relative};
use crate::config::diagnostic::{Diagnostic, printable};
use crate::config::yaml::escape;

/// The manifest of the specification.
const AGENT_PLUGINS: &str = "plugin.json";
/// The manifest of Claude Code.
const CLAUDE_CODE: &str = ".claude-plugin/plugin.json";
/// A list of plug-ins for Claude Code.
const MARKETPLACE: &str = ".claude-plugin/marketplace.json";
/// The `$schema` of the version that is read.
const SCHEMA: &str = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";
/// Fields of the specification with a text.
const TEXTS: [&str; 5] = ["version", "description", "homepage", "repository", "license"];
/// Longest name, in characters.
const MAX_NAME: usize = 64;

/// What a manifest says.
pub(super) struct PluginManifest {
    pub(super) form: PluginForm,
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) description: Option<String>,
    /// Folders of skills besides `skills/`.
    pub(super) skills: Vec<PathBuf>,
    /// Files and folders of agents besides `agents/`.
    pub(super) agents: Vec<PathBuf>,
    /// Hooks besides `hooks/hooks.json`.
    pub(super) hooks: Vec<ManifestPart>,
    /// Servers besides `.mcp.json`.
    pub(super) servers: Vec<ManifestPart>,
    pub(super) file: JsonFile,
}

/// A part that a manifest names or holds.
pub(super) enum ManifestPart {
    /// A file of the plug-in.
    File(PathBuf),
    /// The value at a JSON pointer.
    Inline(String, Value),
}

impl PluginManifest {
    /// Reads the manifest in `root`, shown as `shown`. What is passed over is in `findings`.
    pub(super) fn read(
        root: &Path,
        shown: &Path,
        findings: &mut Vec<Diagnostic>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let read = |name: &str| JsonFile::read(root, shown, Path::new(name)).map_err(|error| vec![*error]);
        let specified = match read(AGENT_PLUGINS)? {
            // Some plug-ins for other programs have a file of this name without a schema.
            Some(file) if file.value.get("$schema").is_some() => return Self::agent_plugins(file, findings),
            other => other,
        };
        if let Some(file) = read(CLAUDE_CODE)? {
            return Self::claude_code(file);
        }
        if let Some(file) = specified {
            let message = "`$schema` is missing, which says what the file is";
            return Err(vec![file.finding("", message, &format!("add \"$schema\": \"{SCHEMA}\""))]);
        }
        let help = match root.join(MARKETPLACE).is_file() {
            true => "this is a list of plug-ins: name the folder of one of them (--folder plugins/NAME)",
            false => {
                "a plug-in has a plugin.json or .claude-plugin/plugin.json; if it is in a folder of this one: --folder PATH"
            }
        };
        let shown = if shown.as_os_str().is_empty() { Path::new(".") } else { shown };
        Err(vec![Diagnostic::of_file(shown, "there is no manifest of a plug-in here", Some(help.to_owned()))])
    }

    fn agent_plugins(file: JsonFile, findings: &mut Vec<Diagnostic>) -> Result<Self, Vec<Diagnostic>> {
        let fields = object(&file)?;
        let mut errors = Vec::new();
        if fields.get("$schema").and_then(Value::as_str) != Some(SCHEMA) {
            let message = "`$schema` names another version of the specification than 1.0.0";
            errors.push(file.finding("/$schema", message, &format!("rawko reads {SCHEMA}")));
        }
        for (field, value) in fields {
            let pointer = format!("/{}", escape(field));
            match field.as_str() {
                "$schema" | "name" => {}
                text if TEXTS.contains(&text) => {
                    if !value.is_string() {
                        errors.push(file.finding(
                            &pointer,
                            format!("`{text}` is no text"),
                            "put it in quotes",
                        ));
                    }
                }
                "author" => {
                    let is_known = |(name, value): (&String, &Value)| {
                        ["name", "email", "url"].contains(&name.as_str()) && value.is_string()
                    };
                    if !value.as_object().is_some_and(|author| author.iter().all(is_known)) {
                        let help = "write {\"name\": …, \"email\": …, \"url\": …}, each with a text, or none";
                        errors.push(file.finding(&pointer, "`author` has not the form of an author", help));
                    }
                }
                "keywords" => {
                    if !value.as_array().is_some_and(|words| words.iter().all(Value::is_string)) {
                        errors.push(file.finding(
                            &pointer,
                            "`keywords` is no list of texts",
                            "write [\"one\"]",
                        ));
                    }
                }
                "extensions" => {
                    if !value.is_object() {
                        let message = "`extensions` is no object, and is passed over";
                        findings.push(file.finding(&pointer, message, "remove it"));
                    }
                }
                other => {
                    let message = format!(
                        "`{}` is no field of the specification, and is passed over",
                        printable(other)
                    );
                    findings.push(file.finding_at_key(&pointer, message, "remove it"));
                }
            }
        }
        let name = named(&file, fields, &mut errors);
        let (version, description) = (text(fields, "version"), text(fields, "description"));
        match name.filter(|_| errors.is_empty()) {
            Some(name) => Ok(Self {
                form: PluginForm::AgentPlugins,
                name,
                version,
                description,
                skills: Vec::new(),
                agents: Vec::new(),
                hooks: Vec::new(),
                servers: Vec::new(),
                file,
            }),
            None => Err(errors),
        }
    }

    fn claude_code(file: JsonFile) -> Result<Self, Vec<Diagnostic>> {
        let fields = object(&file)?;
        let mut errors = Vec::new();
        let name = named(&file, fields, &mut errors);
        for text in TEXTS.iter().filter(|text| fields.get(**text).is_some_and(|value| !value.is_string())) {
            // Other programs write an object here.
            if *text != "repository" {
                errors.push(file.finding(
                    &format!("/{text}"),
                    format!("`{text}` is no text"),
                    "put it in quotes",
                ));
            }
        }
        let files = |parts: Vec<ManifestPart>| -> Vec<PathBuf> {
            let file = |part| if let ManifestPart::File(path) = part { Some(path) } else { None };
            parts.into_iter().filter_map(file).collect()
        };
        let mut places = |field: &str, or_inline: bool| parts(&file, fields, field, or_inline, &mut errors);
        let (skills, agents) = (files(places("skills", false)), files(places("agents", false)));
        let (hooks, servers) = (places("hooks", true), places("mcpServers", true));
        let (version, description) = (text(fields, "version"), text(fields, "description"));
        match name.filter(|_| errors.is_empty()) {
            Some(name) => {
                let form = PluginForm::ClaudeCode;
                Ok(Self { form, name, version, description, skills, agents, hooks, servers, file })
            }
            None => Err(errors),
        }
    }
}

fn object(file: &JsonFile) -> Result<&Map<String, Value>, Vec<Diagnostic>> {
    let help = "write it as {\"name\": …}";
    file.value.as_object().ok_or_else(|| vec![file.finding("", "the manifest is no object", help)])
}

fn text(fields: &Map<String, Value>, field: &str) -> Option<String> {
    fields.get(field).and_then(Value::as_str).filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

fn named(file: &JsonFile, fields: &Map<String, Value>, errors: &mut Vec<Diagnostic>) -> Option<String> {
    const NAMES: &str = "a name has 1 to 64 lowercase letters, digits, `-`, `_` and `.`; it begins and ends with a letter or digit, \
                         without two `-` or `.` in a row";
    let (message, pointer) = match fields.get("name") {
        None => ("`name` is missing".to_owned(), ""),
        Some(Value::String(name)) if is_plugin_name(name) => return Some(name.clone()),
        Some(Value::String(name)) => {
            (format!("`{}` cannot be the name of a plug-in", printable(name)), "/name")
        }
        Some(_) => ("`name` is no text".to_owned(), "/name"),
    };
    errors.push(file.finding(pointer, message, NAMES));
    None
}

/// Whether a plug-in may have this name. It becomes the name of a folder.
pub(crate) fn is_plugin_name(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=MAX_NAME).contains(&name.len())
        && name.chars().all(|c| is_word(c) || "-_.".contains(c))
        && name.starts_with(is_word)
        && name.ends_with(is_word)
        && !name.contains("--")
        && !name.contains("..")
}

/// What a field of Claude Code's manifest names: a path, a list of paths, or the part itself.
fn parts(
    file: &JsonFile,
    fields: &Map<String, Value>,
    field: &str,
    or_inline: bool,
    errors: &mut Vec<Diagnostic>,
) -> Vec<ManifestPart> {
    let pointer = format!("/{field}");
    let items = match fields.get(field) {
        None => return Vec::new(),
        Some(Value::Array(items)) => {
            items.iter().enumerate().map(|(n, item)| (format!("{pointer}/{n}"), item)).collect()
        }
        Some(one) => vec![(pointer, one)],
    };
    let mut found = Vec::new();
    for (pointer, item) in items {
        match item {
            Value::String(path) => match relative(path) {
                Some(path) => found.push(ManifestPart::File(path)),
                None => {
                    let message = format!("`{}` leads out of the plug-in", printable(path));
                    errors.push(file.finding(&pointer, message, "name a path in the plug-in, like ./more"));
                }
            },
            Value::Object(_) if or_inline => found.push(ManifestPart::Inline(pointer, item.clone())),
            _ => {
                let message = format!("`{field}` names no path");
                errors.push(file.finding(&pointer, message, "name a path in the plug-in, like ./more"));
            }
        }
    }
    found
}
