//! `SKILL.md`: its front matter, and what the specification asks of it.
//!
//! Two readers: [`check`] is as strict as the specification, [`SkillDocument::read`] takes what can be used. Skills were
//! written for other programs too, which are lenient.

use std::ffi::OsStr;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::config::front_matter;

/// Most characters of a name.
const MAX_NAME: usize = 64;
/// Most characters of a description.
pub(super) const MAX_DESCRIPTION: usize = 1_024;
/// Most characters of `compatibility`.
const MAX_COMPATIBILITY: usize = 500;
/// The fields of the specification.
const FIELDS: [&str; 6] = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// What is wrong with a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillFault {
    /// The line of `SKILL.md`, from 1, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to try.
    pub help: String,
}

impl SkillFault {
    pub(super) fn of_file(message: impl Into<String>, help: &str) -> Self {
        Self { line: None, message: message.into(), help: help.to_owned() }
    }

    fn at(line: usize, message: impl Into<String>, help: &str) -> Self {
        Self { line: Some(line), ..Self::of_file(message, help) }
    }
}

impl fmt::Display for SkillFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}: {}", self.message, self.help)
    }
}

/// The parts of a `SKILL.md`.
#[derive(Debug)]
pub(super) struct SkillDocument<'a> {
    fields: Map<String, Value>,
    pub(super) body: &'a str,
}

impl<'a> SkillDocument<'a> {
    /// Reads front matter that is YAML, or else one `key: value` a line: descriptions with an unquoted `: ` are common, and are
    /// not valid YAML.
    pub(super) fn read(text: &'a str) -> Result<Self, SkillFault> {
        let (front, body) = split(text)?;
        let fields = match front_matter::parse(front, 1) {
            Ok(parsed) => match parsed.value {
                Value::Object(fields) => fields,
                _ => return Err(not_a_mapping()),
            },
            Err(_) => lenient(front),
        };
        Ok(Self { fields, body })
    }

    /// The name, if it has the form that the specification gives it.
    pub(super) fn usable_name(&self) -> Result<String, Vec<SkillFault>> {
        let name = self.fields.get("name").and_then(text_of).unwrap_or_default();
        let faults = faults_of_name(&name);
        if faults.is_empty() { Ok(name) } else { Err(faults) }
    }

    /// The description, if there is one.
    pub(super) fn usable_description(&self) -> Result<String, Vec<SkillFault>> {
        let description = self.fields.get("description").and_then(text_of).unwrap_or_default();
        if description.is_empty() {
            return Err(vec![SkillFault::of_file("`description` is missing", DESCRIBE)]);
        }
        Ok(description)
    }

    /// The other fields.
    pub(super) fn rest(&self) -> Map<String, Value> {
        let others = self.fields.iter().filter(|(name, _)| *name != "name" && *name != "description");
        others.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

const DESCRIBE: &str = "say what the skill does and when to use it";

/// All that the specification forbids or asks for of a `SKILL.md` in a folder of this name.
pub(super) fn check(text: &str, folder: &OsStr) -> Vec<SkillFault> {
    let front = match split(text) {
        Ok((front, _)) => front,
        Err(fault) => return vec![fault],
    };
    let parsed = match front_matter::parse(front, 1) {
        Ok(parsed) => parsed,
        Err(errors) => {
            let fault = |(place, message, help): front_matter::FrontMatterError| {
                let help = help.unwrap_or_else(|| "put a text with special characters in quotes".to_owned());
                SkillFault::at(place.line, format!("the front matter: {message}"), &help)
            };
            return errors.into_iter().map(fault).collect();
        }
    };
    let Value::Object(fields) = &parsed.value else { return vec![not_a_mapping()] };
    let mut faults = Vec::new();
    for name in fields.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
        let message = format!("`{}` is no field of the specification", name.escape_debug());
        faults.push(SkillFault::at(
            parsed.key_place(name).line,
            message,
            "put it under `metadata`, or remove it",
        ));
    }
    let line = |field: &str| parsed.place(&format!("/{field}")).line;
    match fields.get("name").map(text_of) {
        None => faults.push(SkillFault::of_file("`name` is missing", "add the name of the folder")),
        Some(None) => {
            faults.push(SkillFault::at(line("name"), "`name` is no text", "write the name of the folder"));
        }
        Some(Some(name)) => {
            let of_name = faults_of_name(&name).into_iter();
            faults.extend(of_name.map(|fault| SkillFault { line: Some(line("name")), ..fault }));
            if folder != OsStr::new(&name) {
                let message = format!("`name` is `{name}`, but the folder is `{}`", folder.to_string_lossy());
                faults.push(SkillFault::at(line("name"), message, "give both the same name"));
            }
        }
    }
    match fields.get("description").map(text_of) {
        None => faults.push(SkillFault::of_file("`description` is missing", DESCRIBE)),
        Some(description) => match description.unwrap_or_default().chars().count() {
            0 => faults.push(SkillFault::at(line("description"), "`description` is empty", DESCRIBE)),
            length if length > MAX_DESCRIPTION => {
                let message = format!("`description` has {length} characters, more than {MAX_DESCRIPTION}");
                faults.push(SkillFault::at(line("description"), message, "shorten it"));
            }
            _ => {}
        },
    }
    if let Some(compatibility) = fields.get("compatibility") {
        let fault = match compatibility.as_str().map(|text| text.chars().count()) {
            None => Some("`compatibility` is no text".to_owned()),
            Some(length) if length > MAX_COMPATIBILITY => {
                Some(format!("`compatibility` has {length} characters, more than {MAX_COMPATIBILITY}"))
            }
            Some(_) => None,
        };
        let help = "write in a few words what the skill needs";
        faults.extend(fault.map(|fault| SkillFault::at(line("compatibility"), fault, help)));
    }
    if let Some(tools) = fields.get("allowed-tools") {
        let is_list = tools.as_array().is_some_and(|tools| tools.iter().all(Value::is_string));
        if !tools.is_string() && !is_list {
            let help = "write names with blanks between them, or a list of names";
            faults.push(SkillFault::at(
                line("allowed-tools"),
                "`allowed-tools` is no text and no list of texts",
                help,
            ));
        }
    }
    if fields.get("metadata").is_some_and(|metadata| !metadata.is_object()) {
        let help = "write it as `key: value` lines below `metadata:`";
        faults.push(SkillFault::at(line("metadata"), "`metadata` is no mapping", help));
    }
    faults
}

/// A value as text. YAML takes `1.0` for a number, and a name of digits alone for one too.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(bool) => Some(bool.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn faults_of_name(name: &str) -> Vec<SkillFault> {
    let mut faults = Vec::new();
    let mut fault = |message: String| {
        let help = "use lowercase letters, digits, and single hyphens between them";
        faults.push(SkillFault::of_file(message, help));
    };
    if name.is_empty() {
        fault("`name` is missing or empty".to_owned());
        return faults;
    }
    let length = name.chars().count();
    if length > MAX_NAME {
        fault(format!("`name` has {length} characters, more than {MAX_NAME}"));
    }
    let shown = name.escape_debug();
    if name.to_lowercase() != name {
        fault(format!("`name` is `{shown}`, which is not lowercase"));
    }
    if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        fault(format!("`name` is `{shown}`, with a hyphen at an end or beside another one"));
    }
    if !name.chars().all(|c| c.is_alphanumeric() || c == '-') {
        fault(format!("`name` is `{shown}`, which has characters besides letters, digits and hyphens"));
    }
    faults
}

fn not_a_mapping() -> SkillFault {
    SkillFault::of_file("the front matter is no mapping", "write it as `key: value` lines")
}

/// The YAML between the first two lines `---`, and what follows.
fn split(text: &str) -> Result<(&str, &str), SkillFault> {
    let help = "begin the file with `---`, `name: …`, `description: …` and `---`, each in a line of its own";
    let Some(rest) = text.strip_prefix("---\n") else {
        return Err(SkillFault::at(1, "the front matter is missing", help));
    };
    let mut offset = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok((&rest[..offset], &rest[offset + line.len()..]));
        }
        offset += line.len();
    }
    Err(SkillFault::at(1, "the front matter is not closed", help))
}

/// One field a line, its value as it is there; a line without one goes on with the last.
fn lenient(front: &str) -> Map<String, Value> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    let is_key =
        |key: &str| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    for line in front.lines() {
        match line.split_once(':').filter(|(key, _)| is_key(key)) {
            Some((key, value)) => fields.push((key, value.trim().trim_matches(['"', '\'']).to_owned())),
            None => {
                if let Some((_, text)) = fields.last_mut() {
                    text.push(' ');
                    text.push_str(line.trim());
                }
            }
        }
    }
    fields.into_iter().map(|(key, text)| (key.to_owned(), Value::from(text.trim()))).collect()
}
