//! Turns violations of a schema into messages that help to fix them.
//!
//! It knows the schema and the file, but not the rules between values.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Map, Value};

use super::diagnostic::{Diagnostic, dotted, printable};
use super::nearest::nearest;
use super::schema::FileKind;
use super::source::SourceFile;
use super::unsupported;
use super::yaml::{Document, escape};

const NOT_EMPTY: &str = "should not be empty";

/// The violations found in a file.
#[derive(Default)]
pub(super) struct Violations {
    pub(super) findings: Vec<Diagnostic>,
    /// JSON pointers to the invalid values.
    pub(super) unsound: Vec<String>,
}

/// Writes the messages.
pub(super) struct Translator<'a> {
    pub(super) kind: FileKind,
    /// The whole schema.
    pub(super) root: &'a Value,
    pub(super) document: &'a Document,
    pub(super) source: &'a SourceFile,
}

impl Translator<'_> {
    pub(super) fn translate(&self, error: &ValidationError<'_>, out: &mut Violations) {
        let pointer = error.instance_path().as_str();
        let schema = self.schema_around(error);
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                for key in unexpected {
                    self.unknown_key(pointer, key, schema, out);
                }
            }
            ValidationErrorKind::Required { property } => {
                let key = property.as_str().unwrap_or_default();
                let help = description_of(schema, key).map(|text| format!("`{key}`: {text}"));
                let at = format!("{pointer}/{}", escape(key));
                let place = if self.document.value.pointer(&at).is_some() {
                    self.document.key_place(&at)
                } else {
                    self.document.key_place(pointer)
                };
                let message = if pointer.is_empty() {
                    format!("the key `{key}` is missing")
                } else {
                    format!("the key `{key}` is missing in `{}`", dotted(pointer))
                };
                let finding = self.source.finding(place, message, help);
                // At the top level only the key itself is missing: the rest can still be checked.
                if pointer.is_empty() { out.findings.push(finding) } else { out.add(pointer, finding) }
            }
            ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
                self.alternatives(error, context, schema, out);
            }
            kind => {
                let (wants, help) = wanted(kind, error.instance());
                self.wrong_value(error, &wants, help, out);
            }
        }
    }

    /// Reports that no alternative matches: lists them, or explains the error in the only relevant one.
    fn alternatives(
        &self,
        error: &ValidationError<'_>,
        context: &[Vec<ValidationError<'static>>],
        schema: Option<&Value>,
        out: &mut Violations,
    ) {
        let mut options = Vec::new();
        collect_options(context, error.instance_path().as_str(), &mut options);
        if !options.is_empty() {
            let pointer = error.instance_path().as_str();
            let given = error.instance().as_str().unwrap_or_default();
            let note = unsupported::value(self.kind, pointer, given);
            let near = nearest(given, options.iter().map(String::as_str));
            let help = note.map(str::to_owned).or_else(|| near.map(|near| format!("did you mean `{near}`?")));
            let list = options.iter().map(|o| format!("`{o}`")).collect::<Vec<_>>().join(" or ");
            self.wrong_value(error, &format!("should be {list}"), help, out);
            return;
        }
        // `null` beside a type only means that the key is optional.
        let real: Vec<_> = context.iter().filter(|branch| !is_only_null(branch)).collect();
        if let [branch] = real.as_slice() {
            for inner in *branch {
                self.translate(inner, out);
            }
            return;
        }
        let described = schema.and_then(|s| s.get("description")).and_then(Value::as_str);
        let wants = match described {
            Some(text) => format!("should be {}", lower_first(text.trim_end_matches('.'))),
            None => "has none of the allowed forms".to_owned(),
        };
        self.wrong_value(error, &wants, None, out);
    }

    fn unknown_key(&self, pointer: &str, key: &str, schema: Option<&Value>, out: &mut Violations) {
        let at = format!("{pointer}/{}", escape(key));
        let place = self.document.key_place(&at);
        let within = if pointer.is_empty() { String::new() } else { format!(" in `{}`", dotted(pointer)) };
        if let Some(reason) = unsupported::key(self.kind, &at) {
            let message = format!("`{}` is not supported in this version of rawko", dotted(&at));
            out.add(&at, self.source.finding(place, message, Some(reason.to_owned())));
            return;
        }
        let known = schema.and_then(|s| s.get("properties")).and_then(Value::as_object);
        let keys: Vec<&str> = known.map(|map| map.keys().map(String::as_str).collect()).unwrap_or_default();
        let help = nearest(key, keys.iter().copied())
            .map(|near| format!("did you mean `{near}`?"))
            .or_else(|| elsewhere(self.root, key).map(|path| format!("did you mean `{path}`?")))
            .or_else(|| (!keys.is_empty()).then(|| format!("known keys: {}", keys.join(", "))));
        let message = format!("unknown key `{}`{within}", printable(key));
        out.add(&at, self.source.finding(place, message, help));
    }

    fn wrong_value(
        &self,
        error: &ValidationError<'_>,
        wants: &str,
        help: Option<String>,
        out: &mut Violations,
    ) {
        let pointer = error.instance_path().as_str();
        let finding = match self.stray_provider_key(pointer, error.instance()) {
            Some((message, help)) => {
                self.source.finding(self.document.key_place(pointer), message, Some(help))
            }
            None => {
                let name =
                    if pointer.is_empty() { "the file".to_owned() } else { format!("`{}`", dotted(pointer)) };
                let given = described(pointer, error.instance()).filter(|_| wants != NOT_EMPTY);
                let given = given.map(|given| format!(", but is {given}"));
                let message = format!("{name} {wants}{}", given.unwrap_or_default());
                self.source.finding(self.document.place(pointer), message, help)
            }
        };
        out.add(pointer, finding);
    }

    /// Under `provider:` every unknown key is the name of a provider, so a scalar there is a misspelt key.
    fn stray_provider_key(&self, pointer: &str, value: &Value) -> Option<(String, String)> {
        let name = pointer.strip_prefix("/provider/").filter(|_| self.kind == FileKind::Config)?;
        if name.contains('/') || matches!(name, "default" | "fallback" | "retry") || value.is_object() {
            return None;
        }
        let known =
            ["default", "fallback", "retry", "type", "preset", "model", "baseUrl", "apiKeyEnv", "maxTokens"];
        let help = match nearest(name, known.iter().copied()) {
            Some(near @ ("default" | "fallback" | "retry")) => format!("did you mean `{near}`?"),
            Some(near) => format!(
                "`{near}` is a setting of one provider; write it below the provider's name, as in `claude: {{ {near}: … }}`"
            ),
            None => "write `default: NAME`, or a provider's name with its settings below it".to_owned(),
        };
        Some((format!("unknown key `{}` in `provider`", printable(name)), help))
    }

    /// The schema that holds the broken keyword.
    fn schema_around(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let path = error.schema_path().as_str();
        self.root.pointer(&path[..path.rfind('/')?])
    }
}

impl Violations {
    fn add(&mut self, pointer: &str, finding: Diagnostic) {
        self.unsound.push(pointer.to_owned());
        self.findings.push(finding);
    }
}

fn is_only_null(branch: &[ValidationError<'_>]) -> bool {
    matches!(branch, [only] if matches!(only.kind(), ValidationErrorKind::Type { kind: TypeKind::Single(t) } if t.to_string() == "null"))
}

/// The strings that are allowed at `pointer`, in the schema's order.
fn collect_options(context: &[Vec<ValidationError<'static>>], pointer: &str, options: &mut Vec<String>) {
    for error in context.iter().flatten().filter(|error| error.instance_path().as_str() == pointer) {
        match error.kind() {
            ValidationErrorKind::Constant { expected_value } => {
                options.extend(expected_value.as_str().map(str::to_owned));
            }
            ValidationErrorKind::Enum { options: list } => {
                let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
                options.extend(texts.map(str::to_owned));
            }
            ValidationErrorKind::OneOfNotValid { context } | ValidationErrorKind::AnyOf { context } => {
                collect_options(context, pointer, options);
            }
            _ => {}
        }
    }
}

/// What a value should be, and the help.
fn wanted(kind: &ValidationErrorKind, instance: &Value) -> (String, Option<String>) {
    match kind {
        ValidationErrorKind::Type { kind } => {
            let types = match kind {
                TypeKind::Single(one) => vec![one.to_string()],
                TypeKind::Multiple(many) => many.iter().map(|t| t.to_string()).collect(),
            };
            let names: Vec<&str> = types.iter().filter(|t| *t != "null").map(|t| type_name(t)).collect();
            let wants_text = types.iter().any(|t| t == "string");
            let help = match instance {
                Value::Number(_) | Value::Bool(_) if wants_text => {
                    Some(format!("put quotes around it: \"{instance}\""))
                }
                Value::String(_) if types.iter().any(|t| t == "array") => {
                    Some("write a list: `[one, two]`, or one `- item` a line".to_owned())
                }
                Value::String(text) if text.parse::<f64>().is_ok() => Some("remove the quotes".to_owned()),
                _ => None,
            };
            (format!("should be {}", names.join(" or ")), help)
        }
        ValidationErrorKind::Minimum { limit } => (format!("should be at least {limit}"), None),
        ValidationErrorKind::Maximum { limit } => (format!("should be at most {limit}"), None),
        ValidationErrorKind::ExclusiveMinimum { limit } => (format!("should be more than {limit}"), None),
        ValidationErrorKind::ExclusiveMaximum { limit } => (format!("should be less than {limit}"), None),
        ValidationErrorKind::MinLength { .. } | ValidationErrorKind::MinItems { .. } => {
            (NOT_EMPTY.to_owned(), None)
        }
        ValidationErrorKind::Enum { options } => {
            let list: Vec<String> =
                options.as_array().into_iter().flatten().map(|o| format!("`{o}`")).collect();
            (format!("should be {}", list.join(" or ")), None)
        }
        ValidationErrorKind::Constant { expected_value } => (format!("should be `{expected_value}`"), None),
        ValidationErrorKind::Pattern { pattern } => match pattern.as_str() {
            r"^[A-Za-z][A-Za-z0-9_-]*$" | r"^[A-Za-z][A-Za-z0-9_-]{0,63}$" => {
                ("should start with a letter, followed by letters, digits, `_` or `-`".to_owned(), None)
            }
            r"^[A-Za-z_][A-Za-z0-9_]*$" => {
                let help = "put the key into an environment variable, and the variable's name here";
                ("should be the name of an environment variable".to_owned(), Some(help.to_owned()))
            }
            _ => (format!("should match {pattern}"), None),
        },
        other => (format!("breaks the rule `{}`", other.keyword()), None),
    }
}

fn type_name(json: &str) -> &'static str {
    match json {
        "string" => "a string",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "`true` or `false`",
        "array" => "a list",
        "object" => "a mapping (`key: value` lines)",
        _ => "empty",
    }
}

/// The given value for a message; `None` if it may be a secret.
fn described(pointer: &str, value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => "empty".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
        // It may be the key itself, which must not reach a log.
        Value::String(_) if pointer.ends_with("/apiKeyEnv") => return None,
        Value::String(text) if text.is_empty() => "empty".to_owned(),
        Value::String(text) => format!("\"{}\"", printable(text.lines().next().unwrap_or_default())),
        Value::Array(items) if items.is_empty() => "empty".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    })
}

fn description_of<'a>(schema: Option<&'a Value>, key: &str) -> Option<&'a str> {
    schema?.get("properties")?.get(key)?.get("description")?.as_str()
}

/// The path of a key with this name elsewhere in the schema.
fn elsewhere(root: &Value, key: &str) -> Option<String> {
    let properties = root.get("properties")?.as_object()?;
    properties.iter().find_map(|(section, schema)| {
        let name = schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")?;
        let inner: &Map<String, Value> = root.get("$defs")?.get(name)?.get("properties")?.as_object()?;
        inner.contains_key(key).then(|| format!("{section}.{key}"))
    })
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
