//! The JSON files of a plug-in, with the position of every part.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::config::diagnostic::Diagnostic;
use crate::config::position::Position;
use crate::config::source::{Scope, SourceFile};
use crate::config::yaml::Document;

/// A JSON file.
pub(super) struct JsonFile {
    pub(super) source: SourceFile,
    pub(super) value: Value,
    /// Where its parts are. JSON that is no YAML (a tab may be) has no positions.
    document: Option<Document>,
}

impl JsonFile {
    /// Reads the file `inside` the folder `root`, shown as `shown`, if there is one.
    pub(super) fn read(root: &Path, shown: &Path, inside: &Path) -> Result<Option<Self>, Box<Diagnostic>> {
        let source = SourceFile::read(&root.join(inside), &shown.join(inside), Scope::User, Some(root))?;
        let Some(source) = source else { return Ok(None) };
        let value = serde_json::from_str(&source.text).map_err(|error| {
            let place = Position { line: error.line().max(1), column: error.column().max(1), width: 1 };
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            Box::new(source.finding(place, format!("this is not JSON: {message}"), help("correct it")))
        })?;
        let document = Document::parse(&source.text, 0).ok();
        Ok(Some(Self { source, value, document }))
    }

    /// A finding about the value at a JSON pointer.
    pub(super) fn finding(&self, pointer: &str, message: impl Into<String>, try_this: &str) -> Diagnostic {
        let place = self.document.as_ref().map_or(Position::START, |document| document.place(pointer));
        self.source.finding(place, message, help(try_this))
    }

    /// A finding about the key at a JSON pointer.
    pub(super) fn finding_at_key(
        &self,
        pointer: &str,
        message: impl Into<String>,
        try_this: &str,
    ) -> Diagnostic {
        let place = self.document.as_ref().map_or(Position::START, |document| document.key_place(pointer));
        self.source.finding(place, message, help(try_this))
    }
}

fn help(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A relative path that stays in its folder, as a file of the plug-in names one.
pub(super) fn relative(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    (is_inside && !text.is_empty() && !text.contains('\0')).then(|| path.components().collect())
}
