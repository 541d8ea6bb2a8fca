//! Removes control codes from text that comes from models, tools, files and servers.
//!
//! Escape sequences could recolor, overwrite, retitle or reorder what a person sees. They are removed even if a sequence
//! is split over several pieces of a stream. Line breaks, tabs and all printable characters stay.

use std::borrow::Cow;

/// Maximum characters of a string sequence (title, clipboard, …) that are dropped. One that is never closed must not hide
/// the rest of a session.
const LONGEST_STRING: u32 = 4_096;
/// The same for a control sequence; real ones have a dozen characters.
const LONGEST_CONTROL: u32 = 64;

/// A filter for one stream of text.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sanitizer {
    within: Within,
}

/// The sequence that the text so far has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate character, e.g. the choice of a character set.
    Intermediate,
    /// In a control sequence (CSI).
    Control { read: u32 },
    /// In a string (OSC, DCS, SOS, PM, APC).
    String { read: u32 },
    /// After an ESC in a string, which may be the first half of its terminator.
    StringEscape { read: u32 },
}

impl Sanitizer {
    /// Appends the printable part of `piece` to `out`.
    pub(crate) fn push(&mut self, piece: &str, out: &mut String) {
        for c in piece.chars() {
            self.within = self.step(c, out);
        }
    }

    fn step(self, c: char, out: &mut String) -> Within {
        match self.within {
            Within::Text => text(c, out),
            Within::Escape => match c {
                '[' => Within::Control { read: 0 },
                ']' | 'P' | 'X' | '^' | '_' => Within::String { read: 0 },
                ' '..='/' => Within::Intermediate,
                '0'..='~' => Within::Text,
                // ESC was alone: what follows is ordinary text.
                _ => text(c, out),
            },
            Within::Intermediate => match c {
                ' '..='/' => Within::Intermediate,
                '0'..='~' => Within::Text,
                _ => text(c, out),
            },
            Within::Control { read } => match c {
                '@'..='~' => Within::Text,
                ' '..='?' if read < LONGEST_CONTROL => Within::Control { read: read + 1 },
                _ => text(c, out),
            },
            Within::String { read } => string(c, read, out),
            Within::StringEscape { read } => match c {
                '\\' => Within::Text,
                _ => string(c, read, out),
            },
        }
    }
}

fn string(c: char, read: u32, out: &mut String) -> Within {
    match c {
        '\u{7}' | '\u{9c}' => Within::Text,
        '\u{1b}' => Within::StringEscape { read },
        // No sequence that is worth swallowing runs over a line break.
        '\n' => text(c, out),
        _ if read < LONGEST_STRING => Within::String { read: read + 1 },
        _ => text(c, out),
    }
}

fn text(c: char, out: &mut String) -> Within {
    match c {
        '\u{1b}' => return Within::Escape,
        '\u{9b}' => return Within::Control { read: 0 },
        '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => return Within::String { read: 0 },
        '\u{2028}' | '\u{2029}' => out.push('\n'),
        _ if is_harmless(c) => out.push(c),
        _ => {}
    }
    Within::Text
}

/// Whether a terminal shows `c` as itself, where it stands.
fn is_harmless(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        // Marks, embeddings, overrides and isolates that reorder the text around them; and invisible tags.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        // Line breaks that only some terminals take for one.
        '\u{2028}' | '\u{2029}' => false,
        '\u{feff}' | '\u{e0000}'..='\u{e007f}' => false,
        _ => !c.is_control(),
    }
}

/// `text` as a whole, made harmless.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    Sanitizer::default().push(text, &mut out);
    Cow::Owned(out)
}

/// `text` with every character that could act on a terminal written as an escape: for what a program will read, where to
/// leave something out would be to hide it.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_harmless(c) { c.to_string() } else { c.escape_unicode().to_string() };
    Cow::Owned(text.chars().map(shown).collect())
}

/// The same on one line: line breaks and tabs become blanks.
pub(crate) fn escaped_line(text: &str) -> String {
    escaped(text.trim()).replace(['\n', '\t'], " ")
}

/// `text` made harmless and put on one line: line breaks and tabs become blanks.
pub(crate) fn clean_line(text: &str) -> String {
    let words: Vec<&str> = text.split(['\n', '\t', '\r', '\u{2028}', '\u{2029}']).collect();
    let joined = words.join(" ");
    clean(joined.trim()).into_owned()
}

/// JSON text in which every character that could act on a terminal is written as an escape. The value stays the same,
/// because such characters occur in JSON inside strings alone.
pub(crate) fn escape_json(json: String) -> String {
    if json.chars().all(|c| is_harmless(c) || c == '\r') {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 32);
    for c in json.chars() {
        if is_harmless(c) {
            out.push(c);
        } else {
            let mut units = [0_u16; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(clean(text), expected);
    }

    #[test]
    fn sequences_go_and_text_stays() {
        check("plain\ttext\nnext – 日本 👩‍💻", "plain\ttext\nnext – 日本 👩‍💻");
        check("\u{1b}[31;1mred\u{1b}[0m", "red");
        check("\u{1b}]0;title\u{7}after", "after");
        check("\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link");
        check("\u{1b}]52;c;ZWNobyBoaQ==\u{7}x", "x");
        check("\u{1b}Pq#0\u{1b}\\x", "x");
        check("\u{9b}31mred\u{9d}0;t\u{9c}after", "redafter");
        check("a\u{1b}(0b", "ab");
        check("over\rwrite\u{8}\u{8}\u{7f}\u{0}", "overwrite");
        check("user\u{202e}txt.exe\u{2066}\u{200f}", "usertxt.exe");
        check("\u{1b}\nnext", "\nnext");
        check("a\u{2028}b", "a\nb");
        check("\u{1b}]0;never closed\nthe next line", "\nthe next line");
    }

    #[test]
    fn what_a_program_reads_is_not_hidden() {
        let command = "touch a \u{1b}]0; touch b ; : \u{7}\u{9d}\r\u{202e}\n日\t";
        let shown = "touch a \\u{1b}]0; touch b ; : \\u{7}\\u{9d}\\u{d}\\u{202e}\n日\t";
        assert_eq!(escaped(command), shown);
        assert_eq!(escaped_line(command), shown.replace('\n', " ").trim());
    }

    #[test]
    fn a_sequence_that_never_ends_does_not_hide_the_rest() {
        let endless = format!("\u{1b}]0;{}end", "x".repeat(10_000));
        assert!(clean(&endless).ends_with("xend"));
        let endless = format!("\u{1b}[{}end", "1;".repeat(10_000));
        assert!(clean(&endless).ends_with("end"));
    }

    #[test]
    fn one_line_stays_one_line() {
        assert_eq!(clean_line(" a\n\tb\r\nc\u{2028}d "), "a  b  c d");
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({"a": "\u{9b}31m\u{202e}\u{1b}\u{e0041}é\u{7f}"});
        let shown = escape_json(value.to_string());
        assert!(shown.chars().all(is_harmless), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    /// Text with many of the characters that matter here.
    fn hostile() -> impl Strategy<Value = String> {
        let special = "\u{1b}\u{9b}\u{9d}\u{90}\u{9c}\u{7}\\[]P;0m?\n\t\r\u{202e}\u{2028}\u{feff}a(";
        let special: Vec<char> = special.chars().collect();
        let any = prop_oneof![prop::sample::select(special), any::<char>()];
        prop::collection::vec(any, 0..60).prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #[test]
        fn nothing_harmful_passes(text in hostile()) {
            prop_assert!(clean(&text).chars().all(is_harmless));
        }

        #[test]
        fn how_it_is_split_does_not_matter(pieces in prop::collection::vec(hostile(), 0..6)) {
            let mut sanitizer = Sanitizer::default();
            let mut out = String::new();
            for piece in &pieces {
                sanitizer.push(piece, &mut out);
            }
            let mut whole = String::new();
            Sanitizer::default().push(&pieces.concat(), &mut whole);
            prop_assert_eq!(out, whole);
        }

        #[test]
        fn harmless_text_is_left_alone(text in "[\\PC\n\t]{0,60}") {
            let text: String = text.chars().filter(|c| is_harmless(*c)).collect();
            let shown = clean(&text);
            prop_assert_eq!(shown.as_ref(), text.as_str());
        }

        #[test]
        fn json_of_anything_keeps_its_value(text in hostile()) {
            let shown = escape_json(serde_json::Value::from(text.clone()).to_string());
            prop_assert!(shown.chars().all(is_harmless));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
