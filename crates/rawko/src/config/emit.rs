//! Writes a JSON value as YAML in block style, for files that people edit.

use serde_json::Value;

/// Formats `value`, which must be a mapping, as YAML. It parses back to the same value.
pub(super) fn yaml(value: &Value) -> String {
    let mut text = String::new();
    node(value, 0, &mut text);
    text
}

/// Writes `value` as lines indented by `indent` spaces.
fn node(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, item) in map {
                text.extend(std::iter::repeat_n(' ', indent));
                text.push_str(&scalar(key));
                text.push(':');
                child(item, indent + 2, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.extend(std::iter::repeat_n(' ', indent));
                text.push('-');
                child(item, indent + 2, text);
            }
        }
        _ => {
            text.push_str(&inline(value));
            text.push('\n');
        }
    }
}

/// Writes what follows a `key:` or a `-`.
fn child(value: &Value, indent: usize, text: &mut String) {
    let is_flat = match value {
        Value::Object(map) => map.is_empty(),
        // Lists of short names read best in one line.
        Value::Array(items) => {
            items.iter().all(|item| item.as_str().is_some_and(|item| item.len() <= 24))
                && inline(value).len() <= 100
        }
        _ => true,
    };
    if is_flat {
        text.push(' ');
        text.push_str(&inline(value));
        text.push('\n');
    } else {
        text.push('\n');
        node(value, indent, text);
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        // JSON is YAML.
        _ => value.to_string(),
    }
}

/// Formats a string: plain if YAML reads it as the same string, otherwise as a JSON string.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.' | '/' | ';'))
        && !text.ends_with(' ')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::yaml::Document;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_people_edit_looks_like_this() {
        let value = json!({
            "name": "x",
            "tools": {"allowed": ["Read", "Bash"], "none": []},
            "list": ["a longer sentence, which gets a line of its own"],
            "nested": [{"a": 1, "b": "yes"}],
        });
        insta::assert_snapshot!(yaml(&value));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~\\n\\té-ü\u{2028}]{0,30}".prop_map(Value::from),
            "(true|no|~|1|a: b|- x|#c|0x1|1e3|x )".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{1,12}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().filter(|(key, _)| key != "<<").collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(inner in any_value()) {
            let value = json!({ "value": inner });
            let text = yaml(&value);
            let read = Document::parse(&text, 0).map(|document| document.value);
            prop_assert_eq!(read.as_ref(), Ok(&value), "{}", text);
        }
    }
}
