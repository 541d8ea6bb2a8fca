//! Front matter for other parts of the SDK, parsed with the same limits and messages as the configuration.

use serde_json::Value;

use super::emit;
use super::position::Position;
use super::yaml::Document;

/// Parsed front matter.
#[derive(Debug)]
pub(crate) struct FrontMatter {
    /// The parsed value.
    pub(crate) value: Value,
    document: Document,
}

impl FrontMatter {
    /// The position of the value at a JSON pointer.
    pub(crate) fn place(&self, pointer: &str) -> Position {
        self.document.place(pointer)
    }

    /// The position of a key of the top-level mapping.
    pub(crate) fn key_place(&self, key: &str) -> Position {
        self.document.key_place(&format!("/{key}"))
    }
}

/// Position, message and help.
pub(crate) type FrontMatterError = (Position, String, Option<String>);

/// Parses `text`, whose first line is line `first_line` (from 0) of its file.
pub(crate) fn parse(text: &str, first_line: usize) -> Result<FrontMatter, Vec<FrontMatterError>> {
    match Document::parse(text, first_line) {
        Ok(mut document) => Ok(FrontMatter { value: std::mem::take(&mut document.value), document }),
        Err(errors) => {
            Err(errors.into_iter().map(|error| (error.place, error.message, error.help)).collect())
        }
    }
}

/// One key with its value as YAML, with a line break at the end.
pub(crate) fn key(name: &str, value: Value) -> String {
    let mut map = serde_json::Map::new();
    map.insert(name.to_owned(), value);
    emit::yaml(&Value::Object(map))
}
