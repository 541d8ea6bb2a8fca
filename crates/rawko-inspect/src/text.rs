//! Texts for the page: free of control codes, and bounded.

use rawko_core::text::harmless;
use serde::Serialize;
use serde_json::Value;

/// A text, or its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Excerpt {
    /// The text as it is shown.
    pub text: String,
    /// How many bytes of it are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_bytes: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Excerpt {
    /// At most the first `limit` bytes of `text`.
    #[must_use]
    pub fn of(text: &str, limit: usize) -> Self {
        let end = text.floor_char_boundary(limit);
        Self { text: plain(text.get(..end).unwrap_or_default()), cut_bytes: text.len() - end }
    }
}

/// `text` without escape sequences of terminals, and without characters that control, hide or reorder the text around them.
#[must_use]
pub(crate) fn plain(text: &str) -> String {
    if !text.contains('\u{1b}') {
        return harmless(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\u{1b}', Some('[')) => {
                rest.next();
                // Up to the final character of the sequence, which a line break cannot be part of.
                while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                rest.next_if(|c| matches!(c, '@'..='~'));
            }
            ('\u{1b}', Some(']')) => {
                while rest.next_if(|c| !matches!(c, '\u{7}' | '\u{1b}' | '\n')).is_some() {}
            }
            _ => shown.push(c),
        }
    }
    harmless(&shown)
}

/// `text` on one line, at most `max` characters of it.
#[must_use]
pub(crate) fn line(text: &str, max: usize) -> String {
    // The unused rest need not be cleaned: a command may be a megabyte long.
    let head = text.get(..text.floor_char_boundary(max.saturating_mul(16))).unwrap_or_default();
    let words = plain(head).split_whitespace().collect::<Vec<_>>().join(" ");
    rawko_core::text::truncate(&words, max)
}

/// `value` with every text in it cleaned, and cut after `limit` bytes with a note of how much is missing.
#[must_use]
pub(crate) fn bounded(value: Value, limit: usize) -> Value {
    match value {
        Value::String(text) => {
            let Excerpt { mut text, cut_bytes } = Excerpt::of(&text, limit);
            if cut_bytes > 0 {
                text.push_str(&format!("\n[... {cut_bytes} bytes cut]"));
            }
            Value::String(text)
        }
        Value::Array(items) => items.into_iter().map(|item| bounded(item, limit)).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, field)| (plain(&name), bounded(field, limit))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// `json` for the inside of a `<script>` element: nothing in it can end the element or begin a comment.
#[must_use]
pub(crate) fn json_for_html(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// `text` as the content of an element or a quoted attribute.
#[must_use]
pub(crate) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_long_text_says_how_much_is_missing() {
        assert_eq!(Excerpt::of("naïve", 3), Excerpt { text: "na".into(), cut_bytes: 4 });
        assert_eq!(Excerpt::of("naïve", 6), Excerpt { text: "naïve".into(), cut_bytes: 0 });
        let shown = bounded(json!({"a": ["x".repeat(10), 7]}), 4);
        assert_eq!(shown, json!({"a": ["xxxx\n[... 6 bytes cut]", 7]}));
    }

    #[test]
    fn control_sequences_are_removed() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected);
        check("a\tb\nc – é", "a\tb\nc – é");
        check("\u{1b}[31;1mred\u{1b}[0m", "red");
        check("\u{1b}]0;title\u{7}after", "after");
        check("user\u{202e}txt.exe\u{0}", "usertxt.exe");
        assert_eq!(line(" a\n\tb\r\n c \u{1b}[1md", 5), "a b c...");
    }

    #[test]
    fn embedded_json_ends_no_element_and_stays_the_same_json() {
        let hostile = json!({"</script><script>alert(1)</script>": "<!--\u{2028}&amp;]]>"});
        let embedded = json_for_html(&hostile.to_string());
        assert!(!embedded.contains(['<', '>', '&', '\u{2028}']), "{embedded}");
        assert_eq!(serde_json::from_str::<Value>(&embedded).unwrap(), hostile);
        assert_eq!(escape_html("<a b='c' d=\"&\">"), "&lt;a b=&#39;c&#39; d=&quot;&amp;&quot;&gt;");
    }
}
