//! Corrects arguments that are clear, though not as the schema says: models send `null` for what is left out, `"5"` for
//! 5, `"false"` for false, `5.0` for 5, and a list as the text of one.
//!
//! It changes only what can mean one thing. A value that the schema accepts stays as it is, and the schema refuses what
//! is still wrong, in its own words.

use serde_json::Value;

/// Makes arguments those that the schema of the tool asks for, as far as they are clear.
pub(crate) fn make_canonical(input: &mut Value, schema: &Value) {
    let Value::Object(fields) = &mut *input else { return };
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    fields.retain(|name, value| !value.is_null() || required.iter().any(|needed| needed == name.as_str()));
    make_fields_typed(input, schema);
}

fn make_fields_typed(object: &mut Value, schema: &Value) {
    let (Value::Object(fields), Value::Object(properties)) = (object, &schema["properties"]) else { return };
    for (name, value) in fields {
        if let Some(schema) = properties.get(name) {
            make_typed(value, schema);
        }
    }
}

/// Makes a value of the type that the schema names, if it names one.
fn make_typed(value: &mut Value, schema: &Value) {
    let Some(kind) = schema["type"].as_str() else { return };
    let parsed = value.as_str().and_then(|text| serde_json::from_str::<Value>(text.trim()).ok());
    let meant = match (kind, parsed) {
        ("integer" | "number", Some(number @ Value::Number(_))) => Some(number),
        ("boolean", Some(truth @ Value::Bool(_))) => Some(truth),
        // As Python writes it.
        ("boolean", None) => match value.as_str().map(str::trim) {
            Some("True") => Some(Value::Bool(true)),
            Some("False") => Some(Value::Bool(false)),
            _ => None,
        },
        ("array", Some(list @ Value::Array(_))) => Some(list),
        ("object", Some(object @ Value::Object(_))) => Some(object),
        _ => None,
    };
    if let Some(meant) = meant {
        *value = meant;
    }
    match (kind, &mut *value) {
        ("integer", Value::Number(number)) => {
            if let Some(whole) = number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
                *value = Value::from(whole);
            }
        }
        ("array", Value::Array(items)) => {
            items.iter_mut().for_each(|item| make_typed(item, &schema["items"]));
        }
        ("object", Value::Object(_)) => make_fields_typed(value, schema),
        _ => {}
    }
}

/// The whole number that a float is, where floats know all whole numbers.
fn whole(float: f64) -> Option<i64> {
    const MOST: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
    (float.fract() == 0.0 && float.abs() <= MOST).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The corrected value of a field of this schema.
    #[track_caller]
    fn check(schema: &Value, value: Value, expected: Value) {
        let mut input = json!({"a": value});
        make_canonical(&mut input, &json!({"properties": {"a": schema}, "required": ["a"]}));
        assert_eq!(input, json!({"a": expected}), "{schema}");
    }

    #[test]
    fn a_clear_argument_gets_the_type_of_the_schema() {
        let (integer, number, truth) =
            (json!({"type": "integer"}), json!({"type": "number"}), json!({"type": "boolean"}));
        check(&integer, json!("5"), json!(5));
        check(&integer, json!(" -5 "), json!(-5));
        check(&integer, json!(5.0), json!(5));
        check(&integer, json!("5.0"), json!(5));
        check(&number, json!("5.5"), json!(5.5));
        check(&truth, json!("false"), json!(false));
        check(&truth, json!("True"), json!(true));
        let list = json!({"type": "array", "items": {"type": "integer"}});
        check(&list, json!("[1, \"2\", 3.0]"), json!([1, 2, 3]));
        let object = json!({"type": "object", "properties": {"b": integer, "c": truth}});
        check(&object, json!({"b": "1", "c": null}), json!({"b": 1, "c": null}));
        check(&object, json!("{\"b\": 1}"), json!({"b": 1}));
    }

    #[test]
    fn an_unclear_argument_stays_as_it_is() {
        let (integer, text, truth) =
            (json!({"type": "integer"}), json!({"type": "string"}), json!({"type": "boolean"}));
        for value in [
            json!("five"),
            json!("5 lines"),
            json!(""),
            json!(5.5),
            json!("0x5"),
            json!([5]),
            json!(true),
            json!(1e300),
        ] {
            check(&integer, value.clone(), value);
        }
        for value in [json!("yes"), json!(1), json!("1"), json!(null)] {
            check(&truth, value.clone(), value);
        }
        // A text that looks like something else is a text.
        for value in [json!("5"), json!("false"), json!("[1]"), json!("{}"), json!(5)] {
            check(&text, value.clone(), value);
        }
        check(&json!({"type": ["integer", "string"]}), json!("5"), json!("5"));
        check(&json!({}), json!("5"), json!("5"));
    }

    #[test]
    fn a_null_argument_is_left_out() {
        let schema = json!({"properties": {"a": {}, "b": {}}, "required": ["b"]});
        let mut input = json!({"a": null, "b": null});
        make_canonical(&mut input, &schema);
        assert_eq!(input, json!({"b": null}));
    }
}
