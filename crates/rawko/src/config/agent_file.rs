//! One agent from one file, YAML or Markdown.
//!
//! Owns the file's form. The rules between agents are in `agent_rules`.

use std::path::Path;

use rawko_core::agent::AgentConfig;
use serde_json::Value;

use super::diagnostic::Diagnostic;
use super::markdown::{self, WhenToUse};
use super::position::Position;
use super::schema::{FileKind, Validated, validate};
use super::source::SourceFile;
use super::yaml::Document;

/// An agent file, with what of it could be parsed.
pub(super) struct AgentFile {
    pub(super) source: SourceFile,
    pub(super) document: Document,
    /// The name in the file, or the file's stem if it has none. Other agents may refer to it even if the file is broken.
    pub(super) name: String,
    /// The agent; `None` if the file has too many errors to make one.
    pub(super) config: Option<AgentConfig>,
}

impl AgentFile {
    pub(super) fn parse(source: SourceFile, errors: &mut Vec<Diagnostic>) -> Self {
        let is_markdown = source.name.extension().is_some_and(|extension| extension == "md");
        let parsed =
            if is_markdown { markdown_document(&source, errors) } else { document(&source, &source.text, 0) };
        let document = match parsed {
            Ok(document) => document,
            Err(found) => {
                errors.extend(found);
                let name = stem(&source.name);
                return Self { source, document: Document::default(), name, config: None };
            }
        };
        let Validated { mut sound, findings, .. } = validate(FileKind::Agent, &document, &source);
        let name =
            sound.get("name").and_then(Value::as_str).map_or_else(|| stem(&source.name), str::to_owned);
        if let (false, Value::Object(map)) = (findings.is_empty(), &mut sound) {
            // A placeholder, so that the rest of the file is checked as well. It is never used.
            map.entry("name").or_insert_with(|| Value::from(name.clone()));
            map.entry("systemPrompt").or_insert_with(|| Value::from("(missing)"));
        }
        let config = match serde_json::from_value(sound) {
            Ok(config) => Some(config),
            Err(error) => {
                if findings.is_empty() {
                    let message = format!("this is not a valid agent: {error}");
                    errors.push(source.finding(document.place(""), message, None));
                }
                None
            }
        };
        errors.extend(findings);
        Self { source, document, name, config }
    }

    /// A finding about the value at `pointer`.
    pub(super) fn finding(
        &self,
        pointer: &str,
        message: impl Into<String>,
        help: Option<String>,
    ) -> Diagnostic {
        self.source.finding(self.document.place(pointer), message, help)
    }
}

pub(super) fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Parses the YAML `text`, which begins at line `first_line` (from 0) of the source.
pub(super) fn document(
    source: &SourceFile,
    text: &str,
    first_line: usize,
) -> Result<Document, Vec<Diagnostic>> {
    Document::parse(text, first_line).map_err(|errors| {
        errors.into_iter().map(|error| source.finding(error.place, error.message, error.help)).collect()
    })
}

/// Parses a Markdown agent. A missing prompt is reported in `errors`, and the rest is still checked.
fn markdown_document(source: &SourceFile, errors: &mut Vec<Diagnostic>) -> Result<Document, Vec<Diagnostic>> {
    let parts = markdown::split(&source.text).map_err(|error| {
        vec![source.finding(
            Position::of_line(&source.text, error.line),
            error.message,
            Some(error.help.to_owned()),
        )]
    })?;
    let mut document = document(source, parts.front, parts.front_line)?;
    if document.value.get("systemPrompt").is_some() && !parts.prompt.is_empty() {
        let help = "remove the key: in Markdown the body is the prompt";
        let message = "the system prompt is given twice, here and in the body";
        return Err(vec![source.finding(
            document.key_place("/systemPrompt"),
            message,
            Some(help.to_owned()),
        )]);
    }
    if parts.prompt.is_empty() && document.value.get("systemPrompt").is_none() {
        let help = "write it below the front matter, or in a section `## System Prompt`";
        let place = Position::of_line(&source.text, parts.prompt_line);
        errors.push(source.finding(place, "the system prompt is empty", Some(help.to_owned())));
        // A placeholder, so that the rest of the file is checked as well. It is never used.
        document.insert("systemPrompt", Value::from("(missing)"), place);
    }
    let prompt_place = Position::of_line(&source.text, parts.prompt_line);
    if !parts.prompt.is_empty() {
        document.insert("systemPrompt", Value::from(parts.prompt), prompt_place);
    }
    if let Some(when) = parts.when_to_use.filter(|_| document.value.get("whenToUse").is_none()) {
        let value = match when {
            WhenToUse::Text(text) => Value::from(text),
            WhenToUse::List(items) => Value::from(items),
        };
        document.insert("whenToUse", value, prompt_place);
    }
    Ok(document)
}
