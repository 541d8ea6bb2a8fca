//! Merges several sources of the same settings, and records where each value came from.
//!
//! Owns precedence: flag, environment, project, user, default. It does not know what the settings mean, with one
//! exception: no layer can undo a `deny`, a `protect` or a hook, so those lists are combined.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use super::diagnostic::{Diagnostic, dotted};
use super::source::{Scope, SourceFile};
use super::yaml::{Document, escape};

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Origin {
    /// The built-in default.
    Default,
    /// A configuration file.
    File {
        /// The file; relative to the project if it is inside.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Whether it is the user's or the project's file.
        scope: Scope,
    },
    /// An environment variable.
    Environment {
        /// Name of the variable.
        name: String,
    },
    /// A command line flag.
    Flag {
        /// Name of the flag, e.g. `--model`.
        name: String,
    },
    /// Not configured, but derived from files of the project.
    Found {
        /// The files, relative to the project.
        signs: Vec<String>,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Self::Environment { name } => f.write_str(name),
            Self::Flag { name } => f.write_str(name),
            Self::Found { signs } => write!(f, "found: {}", signs.join(", ")),
        }
    }
}

/// The origin of every value of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Keyed by JSON pointer. A list has one origin.
    origins: BTreeMap<String, Origin>,
}

impl Provenance {
    /// The origin of the value at a JSON pointer, e.g. `/constraints/maxIterations`.
    #[must_use]
    pub fn origin(&self, pointer: &str) -> &Origin {
        let mut at = pointer;
        loop {
            if let Some(origin) = self.origins.get(at) {
                return origin;
            }
            match at.rfind('/') {
                Some(cut) => at = &at[..cut],
                None => return &Origin::Default,
            }
        }
    }

    /// The origins of the values below `pointer`.
    pub(super) fn below(&self, pointer: &str) -> impl Iterator<Item = &Origin> {
        let below = format!("{pointer}/");
        self.origins.iter().filter(move |(known, _)| known.starts_with(&below)).map(|(_, origin)| origin)
    }

    /// Whether the project's file sets the value at `pointer`.
    #[must_use]
    pub fn is_projects(&self, pointer: &str) -> bool {
        matches!(self.origin(pointer), Origin::File { scope: Scope::Project, .. })
    }

    pub(super) fn set(&mut self, pointer: &str, origin: Origin) {
        let below = format!("{pointer}/");
        self.origins.retain(|known, _| known != pointer && !known.starts_with(&below));
        self.origins.insert(pointer.to_owned(), origin);
    }
}

/// A configuration file, and the part of it that is valid.
pub(super) struct FileLayer {
    pub(super) source: SourceFile,
    pub(super) document: Document,
    pub(super) value: Value,
    /// JSON pointers to the invalid parts.
    pub(super) unsound: Vec<String>,
}

/// The layers merged so far, the one with the highest precedence last.
#[derive(Default)]
pub(super) struct Layers {
    pub(super) files: Vec<FileLayer>,
    pub(super) merged: Map<String, Value>,
    pub(super) provenance: Provenance,
    /// Whether a file could not be read, so that names may be missing.
    pub(super) unreadable: bool,
}

impl Layers {
    /// The names of the providers or tools at `pointer`, including those with errors.
    pub(super) fn names_in(&self, pointer: &str) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for file in &self.files {
            match file.document.value.pointer(pointer) {
                Some(Value::Object(map)) => names.extend(map.keys().map(String::as_str)),
                Some(Value::Array(items)) => {
                    names.extend(items.iter().filter_map(|item| item.get("name")?.as_str()));
                }
                _ => {}
            }
        }
        // These keys of `provider:` are not names of providers.
        names.retain(|name| !matches!(*name, "default" | "fallback" | "retry"));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The value at `pointer` in the file with the highest precedence that has one, valid or not.
    pub(super) fn written(&self, pointer: &str) -> Option<&Value> {
        self.files.iter().rev().find_map(|file| file.document.value.pointer(pointer))
    }

    /// Whether a file has a value at `pointer` that breaks its schema.
    pub(super) fn is_unsound(&self, pointer: &str) -> bool {
        self.files.iter().any(|file| file.unsound.iter().any(|unsound| unsound == pointer))
    }

    /// Merges a file over the current layers.
    pub(super) fn push_file(&mut self, layer: FileLayer) {
        let origin = |pointer: &str| Origin::File {
            path: layer.source.name.clone(),
            line: layer.document.key_place(pointer).line,
            scope: layer.source.scope,
        };
        if let Value::Object(map) = &layer.value {
            overlay(&mut self.merged, map, &mut String::new(), &origin, &mut self.provenance);
        }
        self.files.push(layer);
    }

    /// Sets one value over the current layers.
    pub(super) fn set(&mut self, pointer: &str, value: Value, origin: Origin) {
        let mut map = &mut self.merged;
        let mut parts: Vec<&str> = pointer.split('/').skip(1).collect();
        let Some(last) = parts.pop() else { return };
        for part in parts {
            let key = part.replace("~1", "/").replace("~0", "~");
            let slot = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            match slot {
                Value::Object(inner) => map = inner,
                _ => return,
            }
        }
        map.insert(last.replace("~1", "/").replace("~0", "~"), value);
        self.provenance.set(pointer, origin);
    }

    pub(super) fn get(&self, pointer: &str) -> Option<&Value> {
        let (first, rest) =
            pointer.strip_prefix('/')?.split_once('/').unwrap_or((pointer.strip_prefix('/')?, ""));
        let value = self.merged.get(first)?;
        if rest.is_empty() { Some(value) } else { value.pointer(&format!("/{rest}")) }
    }

    /// The value at `pointer` in one scope's file, even if another layer overrides it.
    pub(super) fn value_in(&self, scope: Scope, pointer: &str) -> Option<&Value> {
        self.files
            .iter()
            .rev()
            .filter(|file| file.source.scope == scope)
            .find_map(|file| file.value.pointer(pointer))
    }

    /// A diagnostic about the value at `pointer`, at the position where that value was set.
    /// The file that sets the value at `pointer`, or a part of it: the project's, if it has one.
    pub(super) fn file_of(&self, pointer: &str) -> (PathBuf, Scope) {
        let all = std::iter::once(self.provenance.origin(pointer)).chain(self.provenance.below(pointer));
        let files = all.filter_map(|origin| match origin {
            Origin::File { path, scope, .. } => Some((path.clone(), *scope)),
            _ => None,
        });
        files.max_by_key(|(_, scope)| *scope).unwrap_or((PathBuf::from("config.yaml"), Scope::Project))
    }

    pub(super) fn finding(
        &self,
        pointer: &str,
        message: impl Into<String>,
        help: Option<String>,
    ) -> Diagnostic {
        match self.provenance.origin(pointer) {
            Origin::Environment { name } => Diagnostic::of_environment(name, message, help),
            Origin::Flag { name } => Diagnostic::of_flag(name, message, help),
            Origin::File { path, .. } => match self.files.iter().find(|file| file.source.name == *path) {
                Some(file) => file.source.finding(file.document.place(pointer), message, help),
                None => Diagnostic::of_file(path, message, help),
            },
            Origin::Default | Origin::Found { .. } => {
                let named =
                    self.files.iter().rev().find(|file| file.document.value.pointer(pointer).is_some());
                match named {
                    Some(file) => file.source.finding(file.document.key_place(pointer), message, help),
                    None => Diagnostic::of_flag(&dotted(pointer), message, help),
                }
            }
        }
    }
}

fn overlay(
    under: &mut Map<String, Value>,
    over: &Map<String, Value>,
    pointer: &mut String,
    origin: &impl Fn(&str) -> Origin,
    provenance: &mut Provenance,
) {
    let parent = pointer.len();
    for (key, value) in over {
        pointer.push('/');
        pointer.push_str(&escape(key));
        match value {
            Value::Object(map) => {
                let slot = under.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
                if !slot.is_object() {
                    *slot = Value::Object(Map::new());
                }
                if let Value::Object(inner) = slot {
                    overlay(inner, map, pointer, origin, provenance);
                }
            }
            Value::Array(items)
                if matches!(pointer.as_str(), "/permissions/deny" | "/permissions/protect")
                    || pointer.starts_with("/hooks/") =>
            {
                let mut all = under.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
                for item in items {
                    if !all.contains(item) {
                        all.push(item.clone());
                    }
                }
                under.insert(key.clone(), Value::Array(all));
                provenance.set(pointer, origin(pointer));
            }
            _ => {
                under.insert(key.clone(), value.clone());
                provenance.set(pointer, origin(pointer));
            }
        }
        pointer.truncate(parent);
    }
}
