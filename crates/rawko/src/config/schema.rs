//! JSON Schemas of the files, generated from the Rust types, and the validation of a file against them.
//!
//! Owns which parts of a file are valid. `violation` writes the messages for the others; rules that a
//! schema cannot express are in `config_rules` and `agent_rules`.

use std::sync::OnceLock;

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use rawko_core::agent::AgentConfig;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::diagnostic::Diagnostic;
use super::model::Config;
use super::source::SourceFile;
use super::violation::{Translator, Violations};
use super::yaml::Document;

/// The JSON Schema of `config.yaml`.
#[must_use]
pub fn config_schema() -> Value {
    schema_of::<Config>()
}

/// The JSON Schema of an agent file in YAML. In Markdown the front matter follows it without `systemPrompt`.
#[must_use]
pub fn agent_schema() -> Value {
    let mut schema = schema_of::<AgentConfig>();
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), Value::from("rawko agent"));
    }
    schema
}

fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = SchemaGenerator::default().into_root_schema_for::<T>().to_value();
    bound_integers(&mut schema);
    schema
}

/// Adds the upper bound that `format: uint32` names, which is a mere annotation. A number that does not fit is then an
/// error with a position.
fn bound_integers(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("format").and_then(Value::as_str) == Some("uint32") {
                map.insert("maximum".to_owned(), Value::from(u32::MAX));
            }
            map.values_mut().for_each(bound_integers);
        }
        Value::Array(items) => items.iter_mut().for_each(bound_integers),
        _ => {}
    }
}

/// The kinds of files that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Config,
    Agent,
}

struct Compiled {
    schema: Value,
    validator: Option<Validator>,
}

impl FileKind {
    /// The schema, compiled at the first file of its kind, so that a start without files does not pay for it.
    fn compiled(self) -> &'static Compiled {
        static CONFIG: OnceLock<Compiled> = OnceLock::new();
        static AGENT: OnceLock<Compiled> = OnceLock::new();
        // By these rules they mean the same, as a test shows. To compile those that `$schema` names, by which they are looked
        // through first, takes longer than all else of a start.
        let compile = |schema: Value| Compiled { validator: jsonschema::draft7::new(&schema).ok(), schema };
        match self {
            Self::Config => CONFIG.get_or_init(|| compile(config_schema())),
            Self::Agent => AGENT.get_or_init(|| compile(agent_schema())),
        }
    }
}

/// The result of validating a file.
pub(super) struct Validated {
    /// The valid part, without empty keys, which count as absent (except `apiKeyEnv`).
    pub(super) sound: Value,
    /// JSON pointers to the invalid parts.
    pub(super) unsound: Vec<String>,
    /// The errors.
    pub(super) findings: Vec<Diagnostic>,
}

/// Validates `document` against the schema of its kind.
pub(super) fn validate(kind: FileKind, document: &Document, source: &SourceFile) -> Validated {
    let compiled = kind.compiled();
    let mut sound = document.value.clone();
    let removed = remove_nulls(&mut sound);
    let Some(validator) = &compiled.validator else {
        let help = Some("this is a bug in rawko; please report it".to_owned());
        let finding = source.finding(document.place(""), "the schema does not compile", help);
        return Validated { sound, unsound: Vec::new(), findings: vec![finding] };
    };
    let translator = Translator { kind, root: &compiled.schema, document, source };
    let mut violations = Violations::default();
    for error in validator.iter_errors(&sound) {
        translator.translate(&error, &mut violations);
    }
    if removed {
        // An empty key counts as absent, but a misspelt one is still an error.
        for error in validator.iter_errors(&document.value) {
            if matches!(error.kind(), ValidationErrorKind::AdditionalProperties { .. }) {
                translator.translate(&error, &mut violations);
            }
        }
    }
    for pointer in &violations.unsound {
        remove(&mut sound, pointer);
    }
    Validated { sound, unsound: violations.unsound, findings: violations.findings }
}

fn remove_nulls(value: &mut Value) -> bool {
    let Value::Object(map) = value else { return false };
    let before = map.len();
    // `apiKeyEnv: null` means that no key is sent.
    map.retain(|key, item| !item.is_null() || key == "apiKeyEnv");
    let here = map.len() < before;
    map.values_mut().fold(here, |removed, item| remove_nulls(item) || removed)
}

/// Removes the value at `pointer`, so that the rest can still be checked. A list around it is removed as a whole, because
/// its other items would move.
fn remove(value: &mut Value, pointer: &str) {
    if pointer.is_empty() {
        *value = Value::Object(serde_json::Map::new());
    }
    let mut at = value;
    let mut parts = pointer.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let Value::Object(map) = at else { return };
        let key = part.replace("~1", "/").replace("~0", "~");
        if parts.peek().is_none() || map.get(&key).is_some_and(Value::is_array) {
            map.remove(&key);
            return;
        }
        match map.get_mut(&key) {
            Some(inner) => at = inner,
            None => return,
        }
    }
}
