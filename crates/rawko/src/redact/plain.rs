//! A text as people see it: without escape sequences and characters that show nothing.
//!
//! `grep --color` puts sequences into the middle of a secret, and a terminal or an export takes them out again. So
//! secrets are looked for in this form too.

use std::ops::Range;

use rawko_core::text::harmless;

/// The longest sequence that sets a title or similar, and the longest that sets a colour, in characters. A terminal is
/// protected from the same ones.
const LONGEST_STRING: usize = 4_096;
const LONGEST_CONTROL: usize = 64;

/// A text as it is seen, and where each of its characters is in the text itself.
pub(super) struct VisibleText {
    pub(super) text: String,
    /// From this byte on, so many bytes were left out before.
    left_out: Vec<(usize, usize)>,
}

impl VisibleText {
    /// `None` if all of `text` is seen.
    pub(super) fn of(text: &str) -> Option<Self> {
        if text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
            return None;
        }
        // All that is not seen begins with a character that is not harmless.
        if harmless(text).len() == text.len() {
            return None;
        }
        let mut plain = Self { text: String::with_capacity(text.len()), left_out: Vec::new() };
        let mut rest = text;
        let mut bytes = 0;
        while let Some(c) = rest.chars().next() {
            let unseen = unseen(c, &rest[c.len_utf8()..]);
            if unseen == 0 {
                plain.text.push(c);
                rest = &rest[c.len_utf8()..];
            } else {
                bytes += unseen;
                plain.left_out.push((plain.text.len(), bytes));
                rest = &rest[unseen..];
            }
        }
        (bytes > 0).then_some(plain)
    }

    /// Where in the text itself a part of what is seen is.
    pub(super) fn place(&self, part: &Range<usize>) -> Range<usize> {
        let moved = |at: usize| {
            let before = self.left_out.partition_point(|(from, _)| *from <= at);
            at + before.checked_sub(1).map_or(0, |last| self.left_out[last].1)
        };
        moved(part.start)..part.end.checked_sub(1).map_or(0, |last| moved(last) + 1)
    }
}

/// How many bytes show nothing from `c` on, which comes before `rest`.
fn unseen(c: char, rest: &str) -> usize {
    let escaped = |kind: char| match kind {
        '[' => control(&rest[1..]) + 2,
        ']' | 'P' | 'X' | '^' | '_' => string(&rest[1..]) + 2,
        ' '..='/' => {
            let end = rest.find(|c| !matches!(c, ' '..='/')).unwrap_or(rest.len());
            1 + end + usize::from(rest[end..].starts_with(|c| matches!(c, '0'..='~')))
        }
        '0'..='~' => 2,
        _ => 1,
    };
    match c {
        '\n' | '\t' | ' '..='~' => 0,
        '\u{1b}' => rest.chars().next().map_or(1, escaped),
        '\u{9b}' => c.len_utf8() + control(rest),
        '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => c.len_utf8() + string(rest),
        _ if harmless(c.encode_utf8(&mut [0; 4])).is_empty() => c.len_utf8(),
        _ => 0,
    }
}

/// The length of the rest of a control sequence.
fn control(rest: &str) -> usize {
    let end = rest.bytes().take(LONGEST_CONTROL).take_while(|byte| matches!(byte, b' '..=b'?')).count();
    end + usize::from(rest[end..].starts_with(|c| matches!(c, '@'..='~')))
}

/// The length of the rest of a string sequence with its end.
fn string(rest: &str) -> usize {
    for (at, c) in rest.char_indices().take(LONGEST_STRING) {
        match c {
            '\u{7}' | '\u{9c}' => return at + c.len_utf8(),
            '\u{1b}' if rest[at..].starts_with("\u{1b}\\") => return at + 2,
            '\n' => return at,
            _ => {}
        }
    }
    rest.char_indices().nth(LONGEST_STRING).map_or(rest.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let plain = VisibleText::of(text);
        assert_eq!(plain.as_ref().map_or(text, |plain| &plain.text), expected, "{text:?}");
    }

    #[test]
    fn sequences_and_what_has_no_width_are_left_out() {
        check("a\tb\n", "a\tb\n");
        check("Zürich", "Zürich");
        check("\u{1b}[01;31m\u{1b}[Kred\u{1b}[m\u{1b}[K!", "red!");
        check("\u{9b}1mb\u{1b}(Bc\u{1b}]0;title\u{7}d\u{1b}]8;;x\u{1b}\\e", "bcde");
        check("a\u{200b}b\r\n\u{1b}", "ab\n");
        check("\u{1b}]never closed\nline", "\nline");
    }

    proptest! {
        #[test]
        fn places_lead_to_the_same_characters(text in "(a|é|\n|\u{1b}\\[1m|\u{1b}\\]x\u{7}|\u{200b}|\u{1b}){0,12}") {
            if let Some(plain) = VisibleText::of(&text) {
                for (at, c) in plain.text.char_indices() {
                    let place = plain.place(&(at..at + c.len_utf8()));
                    prop_assert_eq!(text[place].to_owned(), c.to_string());
                }
            }
        }
    }
}
