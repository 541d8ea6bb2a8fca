//! Everything that goes to a client is bounded, and says what was cut.

use rawko_core::text::harmless;
use serde_json::{Map, Value, json};

/// Bytes of one answer.
pub(crate) const ANSWER_BYTES: usize = 64 * 1024;
/// The shortest that the texts of an answer are made.
const SHORTEST: usize = 64;
/// The field that says what is missing.
const OMITTED: &str = "omitted";

/// At most the first `limit` bytes of `text`, without characters that control a terminal, and a note of how much is missing.
pub(crate) fn text(text: &str, limit: usize) -> String {
    let end = text.floor_char_boundary(limit);
    let mut kept = harmless(text.get(..end).unwrap_or_default());
    if end < text.len() {
        kept.push_str(&format!("\n[... {} bytes cut]", text.len() - end));
    }
    kept
}

/// `value` with each text in it cut after `limit` bytes.
pub(crate) fn texts(value: Value, limit: usize) -> Value {
    match value {
        Value::String(long) => Value::String(text(&long, limit)),
        Value::Array(items) => items.into_iter().map(|item| texts(item, limit)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, field)| (name, texts(field, limit))).collect()
        }
        other => other,
    }
}

/// What is left of a value.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Bytes of a text.
    text: usize,
    /// Items of a list.
    items: usize,
}

impl Bounds {
    const WIDEST: Self = Self { text: ANSWER_BYTES / 4, items: 4_096 };
    /// So far, lists are made shorter before texts are.
    const ITEMS_FIRST: usize = 256;

    /// The next narrower ones; `None` after the narrowest.
    fn narrower(self) -> Option<Self> {
        match self {
            Self { items, .. } if items > Self::ITEMS_FIRST => Some(Self { items: items / 2, ..self }),
            Self { text, .. } if text > SHORTEST => Some(Self { text: (text / 2).max(SHORTEST), ..self }),
            Self { items: 0, .. } => None,
            Self { items, .. } => Some(Self { items: items / 2, ..self }),
        }
    }
}

/// `value` in at most `bytes`, and of the same form: lists and texts are made shorter until it fits. An object says under
/// `omitted` how many items of which of its lists are missing.
pub(crate) fn fitted(value: &Value, bytes: usize) -> Value {
    let mut bounds = Bounds::WIDEST;
    loop {
        let kept = within(value, bounds);
        if kept.to_string().len() <= bytes {
            return kept;
        }
        match bounds.narrower() {
            Some(narrower) => bounds = narrower,
            None => return outline(kept),
        }
    }
}

/// `value` in at most [`ANSWER_BYTES`].
pub(crate) fn answer(value: &Value) -> Value {
    fitted(value, ANSWER_BYTES)
}

fn within(value: &Value, bounds: Bounds) -> Value {
    match value {
        Value::String(long) => Value::String(text(long, bounds.text)),
        Value::Array(items) => items.iter().take(bounds.items).map(|item| within(item, bounds)).collect(),
        Value::Object(fields) => {
            let missing = |value: &Value| match value {
                Value::Array(items) => items.len().checked_sub(bounds.items).filter(|missing| *missing > 0),
                _ => None,
            };
            let mut omitted: Map<String, Value> = fields
                .iter()
                .filter_map(|(name, field)| Some((name.clone(), missing(field)?.into())))
                .collect();
            let mut kept: Map<String, Value> =
                fields.iter().map(|(name, field)| (name.clone(), within(field, bounds))).collect();
            if let Some(Value::Object(before)) = fields.get(OMITTED) {
                omitted.extend(before.clone());
            }
            if !omitted.is_empty() {
                kept.insert(OMITTED.to_owned(), Value::Object(omitted));
            }
            Value::Object(kept)
        }
        other => other.clone(),
    }
}

/// Only the fields of an object, where even short texts and no items are too much: what is nested is left empty.
fn outline(value: Value) -> Value {
    let Value::Object(fields) = value else { return Value::Null };
    let fields = fields.into_iter().map(|(name, field)| {
        let field = match field {
            Value::Object(inner) if name != OMITTED => {
                json!({ OMITTED: { "fields": inner.len() } })
            }
            Value::Array(_) => json!([]),
            other => other,
        };
        (name, field)
    });
    Value::Object(fields.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_says_how_much_is_missing() {
        assert_eq!(text("naïve", 3), "na\n[... 4 bytes cut]");
        assert_eq!(text("naïve", 6), "naïve");
        assert!(!text("a\u{1b}[31mb", 20).contains('\u{1b}'));
    }

    #[test]
    fn an_answer_fits_and_keeps_its_form() {
        let short = json!({"a": ["x", 1, null]});
        assert_eq!(answer(&short), short);
        let long = json!({"a": vec!["y".repeat(10_000); 50]});
        let kept = answer(&long);
        assert!(kept.to_string().len() <= ANSWER_BYTES, "{}", kept.to_string().len());
        assert!(kept["a"][49].as_str().unwrap().contains("bytes cut"), "{kept}");
        let many =
            json!({"session": "s", "files": vec![json!({"path": "z", "n": 1}); ANSWER_BYTES], "patch": "p"});
        let kept = answer(&many);
        assert!(kept.to_string().len() <= ANSWER_BYTES, "{}", kept.to_string().len());
        let (files, omitted) =
            (kept["files"].as_array().unwrap(), kept["omitted"]["files"].as_u64().unwrap());
        assert_eq!(
            (files.len() as u64 + omitted, &files[0]),
            (ANSWER_BYTES as u64, &json!({"path": "z", "n": 1}))
        );
        assert_eq!((&kept["session"], &kept["patch"]), (&json!("s"), &json!("p")));
    }

    #[test]
    fn even_what_cannot_be_shortened_fits() {
        let fields: Map<String, Value> = (0..ANSWER_BYTES).map(|n| (format!("f{n}"), json!(n))).collect();
        let kept = answer(&json!({"session": "s", "input": fields}));
        assert_eq!(kept, json!({"session": "s", "input": {"omitted": {"fields": ANSWER_BYTES}}}));
    }
}
