//! Everything that goes to a client is bounded, and says what was cut.

use rawko_core::text::harmless;
use serde_json::Value;

/// Bytes of one answer.
pub(crate) const ANSWER_BYTES: usize = 64 * 1024;
/// The shortest that the texts of an answer are made.
const SHORTEST: usize = 64;

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

/// `value` in at most [`ANSWER_BYTES`]: its texts are made shorter until it fits. What does not fit even so is left out.
pub(crate) fn answer(value: Value) -> Value {
    let mut limit = ANSWER_BYTES / 4;
    let mut kept = texts(value, limit);
    while kept.to_string().len() > ANSWER_BYTES {
        limit /= 2;
        if limit < SHORTEST {
            return Value::String("[too long to be shown]".to_owned());
        }
        kept = texts(kept, limit);
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_text_says_how_much_is_missing() {
        assert_eq!(text("naïve", 3), "na\n[... 4 bytes cut]");
        assert_eq!(text("naïve", 6), "naïve");
        assert!(!text("a\u{1b}[31mb", 20).contains('\u{1b}'));
    }

    #[test]
    fn an_answer_fits_whatever_it_is_made_of() {
        let short = json!({"a": ["x", 1, null]});
        assert_eq!(answer(short.clone()), short);
        let long = json!({"a": vec!["y".repeat(10_000); 50]});
        let kept = answer(long);
        assert!(kept.to_string().len() <= ANSWER_BYTES, "{}", kept.to_string().len());
        assert!(kept["a"][49].as_str().unwrap().contains("bytes cut"), "{kept}");
        let many = Value::Array(vec![json!("z"); ANSWER_BYTES]);
        assert_eq!(answer(many), json!("[too long to be shown]"));
    }
}
