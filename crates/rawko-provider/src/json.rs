//! JSON with half characters.
//!
//! JSON escapes a character beyond the basic plane by two surrogates. Programs that cut text by UTF-16 units write one of
//! them without the other, which is no text: an emoji at the end of an output that was cut, or in two events of a stream.
//! Strict parsers refuse the whole for it. Here a half becomes U+FFFD, and two halves in consecutive parts become one
//! character again.

use std::borrow::Cow;

use serde_json::Value;

/// The first surrogate, and the first of those that come second in a pair.
const FIRST: u32 = 0xD800;
const SECOND: u32 = 0xDC00;
/// One after the last surrogate.
const END: u32 = 0xE000;
/// Represents the first surrogate in parts that may be joined, and so on: these characters are not used otherwise.
const STAND_IN: u32 = 0x10_F000;

/// The value of a text that is whole.
///
/// # Errors
/// If it is no JSON, but for half characters.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
        .or_else(|error| mended(text, |_| '\u{FFFD}').map_or(Err(error), |text| serde_json::from_str(&text)))
}

/// The value of a text that may hold half a character at the beginning or the end of a string, whose other half is in
/// another one. [`Halves`] joins them.
pub(crate) fn parse_part(text: &str) -> Result<Value, serde_json::Error> {
    let stand_in = |half| char::from_u32(STAND_IN + half - FIRST).unwrap_or('\u{FFFD}');
    serde_json::from_str(text)
        .or_else(|error| mended(text, stand_in).map_or(Err(error), |text| serde_json::from_str(&text)))
}

/// The text with something else for each half character; `None` if it has none.
fn mended(text: &str, instead: impl Fn(u32) -> char) -> Option<String> {
    let mut mended = String::new();
    let (mut rest, mut has_half) = (text, false);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let length = match (half(escape), escape.get(6..).and_then(half)) {
            (Some(FIRST..SECOND), Some(SECOND..END)) => 12,
            (Some(alone), _) => {
                has_half = true;
                mended.push(instead(alone));
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            // The character after the backslash may be one, too.
            (None, _) => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (escape, after) = escape.split_at(length);
        mended.push_str(escape);
        rest = after;
    }
    mended.push_str(rest);
    has_half.then_some(mended)
}

/// The surrogate that an escape represents, if it is one.
fn half(escape: &str) -> Option<u32> {
    let unit = u32::from_str_radix(escape.strip_prefix("\\u")?.get(..4)?, 16).ok()?;
    (FIRST..END).contains(&unit).then_some(unit)
}

/// The half character that a text of several parts has ended with so far.
#[derive(Debug, Default)]
pub(crate) struct Halves(Option<char>);

impl Halves {
    /// The next part, as far as its characters are whole.
    pub(crate) fn joined<'a>(&mut self, part: &'a str) -> Cow<'a, str> {
        if part.is_empty() || (self.0.is_none() && !part.chars().any(|c| unit(c).is_some())) {
            return Cow::Borrowed(part);
        }
        let mut joined = String::new();
        for next in part.chars() {
            let first = self.0.take();
            match (first.and_then(unit), unit(next)) {
                (Some(first), Some(second @ SECOND..END)) => {
                    let whole = 0x1_0000 + ((first - FIRST) << 10) + (second - SECOND);
                    joined.push(char::from_u32(whole).unwrap_or('\u{FFFD}'));
                }
                (first, second) => {
                    joined.extend(first.map(|_| '\u{FFFD}'));
                    match second {
                        Some(FIRST..SECOND) => self.0 = Some(next),
                        Some(_) => joined.push('\u{FFFD}'),
                        None => joined.push(next),
                    }
                }
            }
        }
        Cow::Owned(joined)
    }

    /// The bytes of what waits for its other half.
    pub(crate) fn len(&self) -> usize {
        self.0.map_or(0, char::len_utf8)
    }

    /// What is left at the end.
    pub(crate) fn rest(&mut self) -> &'static str {
        if self.0.take().is_some() { "\u{FFFD}" } else { "" }
    }
}

/// The surrogate that a character represents.
fn unit(c: char) -> Option<u32> {
    let unit = u32::from(c).checked_sub(STAND_IN)? + FIRST;
    (unit < END).then_some(unit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let found = parse(&format!("\"{text}\""));
        assert_eq!(found.ok(), expected.map(|text| json!(text)), "{text}");
    }

    #[test]
    fn half_a_character_is_one_that_cannot_be_shown() {
        check(r"ok \ud83d\ude00 \n", Some("ok 😀 \n"));
        check(r"cut \ud83d", Some("cut \u{FFFD}"));
        check(r"\ude00 \ud83d\ud83d\ude00\\ud83d", Some("\u{FFFD} \u{FFFD}😀\\ud83d"));
        check(r"é\ud83dé", Some("é\u{FFFD}é"));
        check(r"\ud83", None);
        check("\\", None);
        assert!(parse(r#"{"a":"\ud83d"#).is_err(), "it is cut off");
    }

    #[track_caller]
    fn check_parts(parts: &[&str], expected: &str) {
        let mut halves = Halves::default();
        let mut text = String::new();
        for part in parts {
            let part = parse_part(&format!("\"{part}\"")).unwrap();
            text.push_str(&halves.joined(part.as_str().unwrap()));
        }
        text.push_str(halves.rest());
        assert_eq!(text, expected, "{parts:?}");
    }

    #[test]
    fn halves_in_consecutive_parts_are_one_character() {
        check_parts(&["a", "b😀"], "ab😀");
        check_parts(&[r"ok \ud83d", r"\ude00 fine"], "ok 😀 fine");
        check_parts(&[r"\ud83d", "", r"\ude00"], "😀");
        check_parts(&[r"\ud83d", "x"], "\u{FFFD}x");
        check_parts(&[r"\ud83d", r"\ud83d", r"\ude00\ud83d"], "\u{FFFD}😀\u{FFFD}");
        check_parts(&[r"\ude00", "x"], "\u{FFFD}x");
    }
}
