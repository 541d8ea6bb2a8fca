//! Schemas of arguments as all services take them.
//!
//! Services refuse a request as a whole for one tool whose schema is no object's, or has alternatives at the top:
//! "input_schema does not support oneOf, allOf, or anyOf at the top level", "schema must have type 'object' and not
//! have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level". What they take is sent as it is. For others, the
//! properties of all alternatives are shown, and the tool refuses what does not fit.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// What holds alternatives or parts of a schema.
const COMBINED: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// What no service takes at the top beside these.
const REFUSED: [&str; 3] = ["$ref", "enum", "not"];
/// How deep alternatives may be nested.
const DEPTH: usize = 8;

/// The schema itself where services take it, else the nearest one that they do.
pub(crate) fn accepted(schema: &Value) -> Cow<'_, Value> {
    let is_accepted = schema.as_object().is_some_and(|schema| {
        schema.get("type").is_some_and(|kind| kind == "object")
            && !COMBINED.iter().chain(&REFUSED).any(|key| schema.contains_key(*key))
    });
    if is_accepted {
        return Cow::Borrowed(schema);
    }
    let mut object = schema.as_object().cloned().unwrap_or_default();
    let flat = Flat::of(&object, &object, DEPTH);
    object.retain(|key, _| !COMBINED.iter().chain(&REFUSED).any(|refused| refused == key));
    object.insert("type".to_owned(), json!("object"));
    object.insert("properties".to_owned(), Value::Object(flat.properties));
    object.remove("required");
    if !flat.required.is_empty() {
        object.insert("required".to_owned(), json!(flat.required));
    }
    Cow::Owned(Value::Object(object))
}

/// What a schema says of properties, wherever it says so.
#[derive(Default)]
struct Flat {
    properties: Map<String, Value>,
    /// Those that every alternative needs.
    required: BTreeSet<String>,
}

impl Flat {
    fn of(schema: &Map<String, Value>, root: &Map<String, Value>, depth: usize) -> Self {
        let mut flat = Self::default();
        let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        flat.required.extend(names.filter_map(Value::as_str).map(str::to_owned));
        flat.add(schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default());
        let Some(depth) = depth.checked_sub(1) else { return flat };
        let inner = |schema: &Value| schema.as_object().map(|schema| Self::of(schema, root, depth));
        if let Some(named) = schema.get("$ref").and_then(|named| resolved(root, named)).and_then(inner) {
            flat.both(named);
        }
        for key in COMBINED {
            let parts = schema.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(inner);
            if key == "allOf" {
                parts.for_each(|part| flat.both(part));
            } else if let Some(one) = parts.reduce(Self::either) {
                flat.both(one);
            }
        }
        flat
    }

    /// Both hold.
    fn both(&mut self, other: Self) {
        self.required.extend(other.required);
        self.add(other.properties);
    }

    /// One of them holds.
    fn either(mut self, other: Self) -> Self {
        self.required.retain(|name| other.required.contains(name));
        self.add(other.properties);
        self
    }

    fn add(&mut self, properties: Map<String, Value>) {
        for (name, schema) in properties {
            match self.properties.get_mut(&name) {
                Some(known) if *known != schema => *known = json!({"anyOf": [known.take(), schema]}),
                Some(_) => {}
                None => {
                    self.properties.insert(name, schema);
                }
            }
        }
    }
}

/// What `#/$defs/…` names.
fn resolved<'a>(root: &'a Map<String, Value>, named: &Value) -> Option<&'a Value> {
    let mut parts =
        named.as_str()?.strip_prefix("#/")?.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
    let first = root.get(&parts.next()?)?;
    parts.try_fold(first, |at, part| at.get(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &Value, expected: &Value) {
        let found = accepted(schema);
        assert_eq!(found.as_ref(), expected, "{schema}");
        assert!(matches!(accepted(&found), Cow::Borrowed(_)), "{found} is taken");
    }

    #[test]
    fn what_services_take_is_sent_as_it_is() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["a"]}),
            json!({"$defs": {"x": {"enum": [1]}}, "type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}}),
        ] {
            assert!(matches!(accepted(&schema), Cow::Borrowed(_)), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_services_refuse_shows_all_properties() {
        let (text, number) = (json!({"type": "string"}), json!({"type": "number"}));
        let empty = json!({"type": "object", "properties": {}});
        check(&json!({}), &empty);
        check(&json!(true), &empty);
        check(&json!({"type": ["object", "null"]}), &empty);
        check(
            &json!({"properties": {"a": text}, "required": ["a"]}),
            &json!({"type": "object", "properties": {"a": text}, "required": ["a"]}),
        );
        check(
            &json!({"anyOf": [
                {"type": "object", "properties": {"a": text, "k": text}, "required": ["a", "k"]},
                {"type": "object", "properties": {"b": text, "k": number}, "required": ["b", "k"]},
            ]}),
            &json!({"type": "object", "required": ["k"], "properties": {
                "a": text, "b": text, "k": {"anyOf": [text, number]},
            }}),
        );
        check(
            &json!({"type": "object", "properties": {"a": text}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            &json!({"type": "object", "properties": {"a": text}}),
        );
        check(
            &json!({"allOf": [{"properties": {"a": text}, "required": ["a"]}, {"$ref": "#/$defs/b"}],
                "$defs": {"b": {"properties": {"b": number}, "required": ["b"]}}}),
            &json!({"type": "object", "required": ["a", "b"], "properties": {"a": text, "b": number},
                "$defs": {"b": {"properties": {"b": number}, "required": ["b"]}}}),
        );
        // A schema that names itself.
        check(&json!({"$ref": "#"}), &empty);
        check(
            &json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
            &json!({"type": "object", "properties": {}, "$defs": {"a": {"$ref": "#/$defs/a"}}}),
        );
    }
}
