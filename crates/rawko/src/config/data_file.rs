//! Other YAML files that a run reads, e.g. a provider's script: the same parser, bounds and errors.

use std::path::Path;

use serde_json::Value;

use super::agent_file::document;
use super::diagnostic::{ConfigErrors, Diagnostic};
use super::source::{Scope, Source};

/// Reads a YAML (or JSON) file.
///
/// # Errors
/// Where it is not there, not readable or not YAML, with its place.
pub fn read_data_file(path: &Path) -> Result<Value, ConfigErrors> {
    let source = match Source::read(path, path, Scope::User) {
        Ok(Some(source)) => source,
        Ok(None) => {
            return Err(ConfigErrors::new(vec![Diagnostic::of_file(path, "there is no such file", None)]));
        }
        Err(error) => return Err(ConfigErrors::new(vec![*error])),
    };
    document(&source, &source.text, 0).map(|document| document.value).map_err(ConfigErrors::new)
}
