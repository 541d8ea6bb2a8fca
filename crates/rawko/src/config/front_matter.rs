//! Front matter for other parts of the SDK: the same YAML, with the same bounds and messages, as configuration.

use serde_json::Value;

use super::emit;
use super::place::Place;
use super::yaml::Document;

/// Parsed front matter.
#[derive(Debug)]
pub(crate) struct FrontMatter {
    /// What it holds.
    pub(crate) value: Value,
    document: Document,
}

impl FrontMatter {
    /// Where the value at a JSON pointer stands.
    pub(crate) fn place(&self, pointer: &str) -> Place {
        self.document.place(pointer)
    }

    /// Where a key of the outermost mapping stands.
    pub(crate) fn key_place(&self, key: &str) -> Place {
        self.document.key_place(&format!("/{key}"))
    }
}

/// What is wrong, where, and what to do.
pub(crate) type Wrong = (Place, String, Option<String>);

/// Parses `text`, whose first line is line `first_line` (from 0) of its file.
pub(crate) fn parse(text: &str, first_line: usize) -> Result<FrontMatter, Vec<Wrong>> {
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
