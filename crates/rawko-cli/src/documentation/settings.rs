//! Generates `docs/reference/configuration.md` from the schemas of the files.

use std::fmt::Write as _;

use rawko::config::{agent_schema, config_schema};
use serde_json::Value;

use super::check_generated;

const HEAD: &str = "\
# Configuration reference

Every key of `config.yaml` and of an agent, generated from the types that read them. [Configuration](../configuration.md) explains them.
`NAME` is a name of your choice, `[]` for an entry of a list.

<!-- Generated: RAWKO_UPDATE_DOCS=1 cargo test -p rawko-cli --bin rawko documentation -->
";

/// Types that are written in one of several ways, and what they mean.
const NAMED: [(&str, &str); 4] = [
    ("TimeSpan", "duration"),
    ("TimeLimit", "duration or 0"),
    ("Patience", "duration or 0"),
    ("MemoryLimit", "amount"),
];

#[test]
fn the_page_shows_the_keys_as_they_are() {
    let mut page = HEAD.to_owned();
    for (title, schema) in [("config.yaml", config_schema()), ("An agent", agent_schema())] {
        write!(page, "\n## {title}\n").expect("text");
        page.push_str("\n| key | type | default | |\n| --- | --- | --- | --- |\n");
        page.push_str(&keys(schema));
    }
    check_generated("docs/reference/configuration.md", &page);
}

/// The rows of all keys, the same in every build: with the feature `copilot`, `serde_json` keeps the order of the types.
fn keys(mut schema: Value) -> String {
    schema.sort_all_objects();
    let mut rows = String::new();
    write_keys(&mut rows, &schema, &schema, "");
    rows
}

/// The rows of all keys of an object, and of the keys inside them.
fn write_keys(page: &mut String, root: &Value, schema: &Value, path: &str) {
    for part in parts(root, schema) {
        for (key, inner) in part["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            page.push_str(&row(root, inner, &path));
            write_keys(page, root, inner, &path);
        }
        if part["items"].is_object() {
            write_keys(page, root, &part["items"], &format!("{path}[]"));
        }
        if part["additionalProperties"].is_object() {
            let path = format!("{path}.NAME");
            write_keys(page, root, &part["additionalProperties"], &path);
        }
    }
}

fn row(root: &Value, schema: &Value, path: &str) -> String {
    let description = schema["description"].as_str().or_else(|| target(root, schema)["description"].as_str());
    let description = description.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let default = match &schema["default"] {
        Value::Null | Value::Object(_) => String::new(),
        default => format!("`{default}`"),
    };
    let description = description.replace('|', "\\|").replace('<', "\\<");
    format!("| `{path}` | {} | {default} | {description} |\n", kind(root, schema).replace('|', "\\|"))
}

/// The schema itself, or what it refers to.
fn target<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|path| root.pointer(path.trim_start_matches('#'))) {
        Some(found) => target(root, found),
        None => schema,
    }
}

/// All that a value may be: the alternatives of a schema, references followed.
fn parts<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let schema = target(root, schema);
    let alternatives = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema[key].as_array());
    let mut found: Vec<&Value> = alternatives.flatten().flat_map(|one| parts(root, one)).collect();
    found.push(schema);
    found
}

/// What a value is, in words.
fn kind(root: &Value, schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        if let Some((_, meaning)) = NAMED.iter().find(|(named, _)| *named == name) {
            return (*meaning).to_owned();
        }
    }
    let schema = target(root, schema);
    let mut kinds: Vec<String> = Vec::new();
    kinds.extend(schema.get("const").map(|value| format!("`{}`", plain(value))));
    kinds.extend(schema["enum"].as_array().into_iter().flatten().map(|value| format!("`{}`", plain(value))));
    for key in ["anyOf", "oneOf", "allOf"] {
        kinds.extend(schema[key].as_array().into_iter().flatten().map(|one| kind(root, one)));
    }
    if kinds.is_empty() {
        let types = match &schema["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect::<Vec<_>>(),
        };
        kinds.extend(types.into_iter().filter(|name| *name != "null").map(|name| match name {
            "array" if schema["items"].is_object() => format!("list of {}", kind(root, &schema["items"])),
            "array" => "list".to_owned(),
            "object" => "mapping".to_owned(),
            "boolean" => "`true` or `false`".to_owned(),
            other => other.to_owned(),
        }));
    }
    kinds.retain(|kind| !kind.is_empty());
    kinds.dedup();
    kinds.join(" or ")
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[test]
fn a_schema_becomes_rows() {
    let schema = serde_json::json!({
        "$defs": {"Mode": {"oneOf": [{"const": "on"}, {"const": "off"}]}, "TimeSpan": {"type": "string"}},
        "properties": {
            "mode": {"$ref": "#/$defs/Mode", "default": "on", "description": "Whether it\nis on."},
            "all": {"type": ["array", "null"], "items": {"properties": {"wait": {"$ref": "#/$defs/TimeSpan"}}}},
        },
    });
    assert_eq!(
        keys(schema),
        "| `all` | list of  |  |  |\n| `all[].wait` | duration |  |  |\n\
         | `mode` | `on` or `off` | `\"on\"` | Whether it is on. |\n"
    );
}
