//! Reads other YAML files, such as a provider's script, with the same parser, limits and errors.

use std::path::Path;

use serde_json::Value;

use super::agent_file::document;
use super::diagnostic::{ConfigErrors, Diagnostic};
use super::source::{Scope, SourceFile};

/// Reads a YAML (or JSON) file.
///
/// # Errors
/// If the file does not exist, cannot be read or is not YAML.
pub fn read_data_file(path: &Path) -> Result<Value, ConfigErrors> {
    let source = match SourceFile::read(path, path, Scope::User, None) {
        Ok(Some(source)) => source,
        Ok(None) => {
            return Err(ConfigErrors::new(vec![Diagnostic::of_file(path, "there is no such file", None)]));
        }
        Err(error) => return Err(ConfigErrors::new(vec![*error])),
    };
    parse(&source)
}

/// The same for a file that was read already.
pub(crate) fn parse_data(path: &Path, text: &str) -> Result<Value, ConfigErrors> {
    parse(&SourceFile::new(path, Scope::User, text))
}

fn parse(source: &SourceFile) -> Result<Value, ConfigErrors> {
    document(source, &source.text, 0).map(|document| document.value).map_err(ConfigErrors::new)
}
