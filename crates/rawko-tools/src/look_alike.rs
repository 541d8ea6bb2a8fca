//! Finds a text in a file that has it with other characters that look the same: curly quotes where the text has straight
//! ones, an accent that is a character of its own, a space that does not break.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::canonical_combining_class;

/// Where `content` has `wanted`, but for such characters. Nothing where it is no text.
pub(crate) fn look_alikes(content: &[u8], wanted: &str) -> Vec<Range<usize>> {
    let Ok(text) = std::str::from_utf8(content) else { return Vec::new() };
    let plain = Skeleton::of(text);
    let wanted = Skeleton::of(wanted).text;
    if wanted.is_empty() {
        return Vec::new();
    }
    let found = memmem::find_iter(plain.text.as_bytes(), wanted.as_bytes());
    found.filter_map(|start| Some(plain.place(start)?..plain.place(start + wanted.len())?)).collect()
}

/// A text in which characters that look the same are the same.
struct Skeleton {
    text: String,
    /// Where a character and its accents begin in it, and where they begin in the original.
    starts: Vec<(usize, usize)>,
}

impl Skeleton {
    fn of(original: &str) -> Self {
        let (mut text, mut starts) = (String::with_capacity(original.len()), Vec::new());
        let mut rest = original;
        while let Some(first) = rest.chars().next() {
            let accents = rest[first.len_utf8()..].find(|c| canonical_combining_class(c) == 0);
            let length = accents.map_or(rest.len(), |end| first.len_utf8() + end);
            let (letter, after) = rest.split_at(length);
            starts.push((text.len(), original.len() - rest.len()));
            if letter == "\r" && after.starts_with('\n') {
                // Models write line breaks as `\n`.
            } else if letter.is_ascii() {
                text.push_str(letter);
            } else {
                text.extend(letter.nfc().map(plain));
            }
            rest = after;
        }
        starts.push((text.len(), original.len()));
        Self { text, starts }
    }

    /// Where the original has what begins here.
    fn place(&self, at: usize) -> Option<usize> {
        let found = self.starts.partition_point(|(here, _)| *here < at);
        self.starts.get(found).filter(|(here, _)| *here == at).map(|(_, there)| *there)
    }
}

fn plain(c: char) -> char {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{201A}' | '\u{201B}' => '\'',
        '\u{201C}' | '\u{201D}' | '\u{201E}' | '\u{201F}' => '"',
        '\u{A0}' | '\u{2007}' | '\u{202F}' => ' ',
        other => other,
    }
}

/// The lines of the text around a place, without the last line break.
pub(crate) fn lines_at<'a>(content: &'a [u8], place: &Range<usize>) -> Cow<'a, str> {
    let from = memchr::memrchr(b'\n', &content[..place.start]).map_or(0, |at| at + 1);
    let end = place.end.max(place.start + 1) - 1;
    let to = memchr::memchr(b'\n', &content[end..]).map_or(content.len(), |at| end + at);
    String::from_utf8_lossy(&content[from..to])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, wanted: &str, expected: &[&str]) {
        let found = look_alikes(content.as_bytes(), wanted);
        let found: Vec<&str> = found.into_iter().map(|place| &content[place]).collect();
        assert_eq!(found, expected, "{wanted:?} in {content:?}");
    }

    #[test]
    fn what_looks_the_same_is_found_as_it_is_in_the_file() {
        check("say “hi” now", "\"hi\"", &["“hi”"]);
        check("say \"hi\" now", "“hi”", &["\"hi\""]);
        check("it’s\r\nhis", "it's\nhis", &["it’s\r\nhis"]);
        check("un cafe\u{301} noir", "café", &["cafe\u{301}"]);
        check("un café noir", "cafe\u{301} noir", &["café noir"]);
        check("10\u{a0}km", "10 km", &["10\u{a0}km"]);
        check("‘a’ ‘a’", "'a'", &["‘a’", "‘a’"]);
    }

    #[test]
    fn what_looks_different_is_not() {
        check("a – b", "a - b", &[]);
        check("café", "cafe", &[]);
        // Not the letter without its accent.
        check("cafe\u{301}", "cafe", &[]);
        check("“", "", &[]);
        assert!(look_alikes(b"\xe9 \"a\"", "“a”").is_empty());
    }

    #[test]
    fn the_line_is_shown_whole() {
        let content = "one\nsay “hi” now\nthree\n";
        let place = look_alikes(content.as_bytes(), "\"hi\"").remove(0);
        assert_eq!(lines_at(content.as_bytes(), &place), "say “hi” now");
        assert_eq!(lines_at(b"abc", &(0..3)), "abc");
    }
}
