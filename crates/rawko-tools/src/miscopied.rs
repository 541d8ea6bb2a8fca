//! Detects two mistakes that models make when they copy text from a file: they also copy the line numbers, or they write
//! escapes as in JSON, such as `\n` for a line break. If undoing them makes the text match, the error message says so.
//! The text is not corrected, because rawko does not know what the model meant.

use memchr::memmem;

use crate::line_numbers::without_numbers;

/// Compared bytes after which the search for a text with escapes stops.
const MOST_COMPARED: usize = 20_000_000;

/// What has to be undone in a text so that it occurs in the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Miscopied {
    numbers: bool,
    escapes: Vec<Escape>,
    /// Where the corrected text occurs in the file.
    pub(crate) places: Vec<usize>,
}

/// An escape that was written instead of the character it represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    Break,
    Tab,
    Quote,
    Apostrophe,
    Backslash,
}

impl Escape {
    const ALL: [Self; 5] = [Self::Break, Self::Tab, Self::Quote, Self::Apostrophe, Self::Backslash];

    /// The two bytes that were written.
    fn written(self) -> &'static str {
        match self {
            Self::Break => r"\n",
            Self::Tab => r"\t",
            Self::Quote => r#"\""#,
            Self::Apostrophe => r"\'",
            Self::Backslash => r"\\",
        }
    }

    /// The character that it represents; a line break may be CRLF in the file.
    fn meant(self) -> &'static str {
        match self {
            Self::Break => "\n",
            Self::Tab => "\t",
            Self::Quote => "\"",
            Self::Apostrophe => "'",
            Self::Backslash => r"\",
        }
    }

    /// A description for the error message.
    fn in_words(self) -> &'static str {
        match self {
            Self::Break => "`\\n` (a backslash and an n) where the file has a line break",
            Self::Tab => "`\\t` (a backslash and a t) where the file has a tab",
            Self::Quote => "`\\\"` (a backslash and a quote) where the file has `\"` alone",
            Self::Apostrophe => "`\\'` (a backslash and an apostrophe) where the file has `'` alone",
            Self::Backslash => "`\\\\` (two backslashes) where the file has one",
        }
    }
}

/// The mistakes to undo in `wanted` so that `content` has it; `None` if that does not help.
pub(crate) fn miscopied(content: &[u8], wanted: &str) -> Option<Miscopied> {
    let found = |text: &str, numbers: bool| {
        let (places, escapes) = find(content, text.as_bytes());
        let helps = !places.is_empty() && (numbers || !escapes.is_empty());
        helps.then_some(Miscopied { numbers, escapes, places })
    };
    let plain = without_numbers(wanted);
    if let Some(found) = plain.and_then(|plain| found(&plain, true)).or_else(|| found(wanted, false)) {
        return Some(found);
    }
    // The line breaks between the numbered lines may be escapes too.
    let broken = wanted.replace(Escape::Break.written(), Escape::Break.meant());
    let mut both = found(&without_numbers(&broken)?, true)?;
    both.escapes.insert(0, Escape::Break);
    Some(both)
}

impl Miscopied {
    /// Explains what is wrong with `old_string` and how to correct it, and warns if `new` has the same mistake.
    pub(crate) fn advice(&self, lines: &str, new: &str) -> String {
        let escapes: Vec<&str> = self.escapes.iter().map(|escape| escape.in_words()).collect();
        let mut text = String::new();
        if self.numbers {
            text.push_str(
                "Its lines begin with the line numbers that Read shows, which are not in the file. ",
            );
        }
        if !escapes.is_empty() {
            text.push_str(&format!("It has {}. ", escapes.join(", and ")));
        }
        let without = match (self.numbers, escapes.is_empty()) {
            (true, true) => "Without the numbers",
            (false, _) => "With the characters themselves",
            (true, false) => "Without the numbers and with the characters themselves",
        };
        text.push_str(&format!(
            "{without} it matches {lines}: call Edit again with the text as it is in the file."
        ));
        if self.numbers && without_numbers(new).is_some() {
            text.push_str(
                " new_string has line numbers too: leave them out, or they are written into the file.",
            );
        }
        if self.escapes.iter().any(|escape| new.contains(escape.written())) {
            text.push_str(" new_string has such escapes too: they would be written as they are.");
        }
        text
    }
}

/// Where `content` has `wanted`, if each escape may also mean its character and each line break may be LF or CRLF. Also
/// returns the escapes that had to be undone.
fn find(content: &[u8], wanted: &[u8]) -> (Vec<usize>, Vec<Escape>) {
    let fixed = wanted.iter().position(|b| matches!(b, b'\\' | b'\n')).unwrap_or(wanted.len());
    let starts: Box<dyn Iterator<Item = usize>> = match &wanted[..fixed] {
        [] => Box::new(0..content.len()),
        beginning => Box::new(memmem::find_iter(content, beginning)),
    };
    let (mut places, mut escapes) = (Vec::new(), Vec::new());
    let (mut compared, mut free_from) = (0, 0);
    for start in starts {
        if start < free_from {
            continue;
        }
        if compared > MOST_COMPARED {
            return (Vec::new(), Vec::new());
        }
        let (end, undone) = agreement(&content[start..], wanted, &mut compared);
        let Some(end) = end else { continue };
        places.push(start);
        free_from = start + end.max(1);
        escapes.extend(undone);
    }
    let undone = Escape::ALL.into_iter().filter(|escape| escapes.contains(escape)).collect();
    (places, undone)
}

/// The length of the match of `wanted` at the beginning of `content`, if any, and the escapes undone for it.
fn agreement(content: &[u8], wanted: &[u8], compared: &mut usize) -> (Option<usize>, Vec<Escape>) {
    let (mut at, mut read) = (0, 0);
    let mut undone = Vec::new();
    while let Some(byte) = wanted.get(read) {
        *compared += 1;
        let (here, rest) = (&content[at..], &wanted[read..]);
        let escape = Escape::ALL.into_iter().find(|escape| rest.starts_with(escape.written().as_bytes()));
        let meant = |escape: &Escape| {
            !here.starts_with(escape.written().as_bytes()) && is_at(here, *escape).is_some()
        };
        if let Some(escape) = escape.filter(meant) {
            undone.push(escape);
            at += is_at(here, escape).unwrap_or_default();
            read += escape.written().len();
        } else if *byte == b'\n' && here.starts_with(b"\r\n") {
            (at, read) = (at + 2, read + 1);
        } else if here.first() == Some(byte) {
            (at, read) = (at + 1, read + 1);
        } else {
            return (None, Vec::new());
        }
    }
    (Some(at), undone)
}

/// The length of the character that `escape` represents, if `content` begins with it.
fn is_at(content: &[u8], escape: Escape) -> Option<usize> {
    if escape == Escape::Break && content.starts_with(b"\r\n") {
        return Some(2);
    }
    content.starts_with(escape.meant().as_bytes()).then_some(escape.meant().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "fn main() {\n\tlet a = \"x\\n\";\n\n    run(a, 'b');\n}\n";

    /// Checks which mistakes are found in `wanted`, and where `content` has it without them.
    #[track_caller]
    fn check(content: &str, wanted: &str, expected: Option<(bool, &[Escape], &[usize])>) {
        let found = miscopied(content.as_bytes(), wanted);
        let found = found.as_ref().map(|it| (it.numbers, it.escapes.as_slice(), it.places.as_slice()));
        assert_eq!(found, expected, "{wanted:?}");
    }

    #[test]
    fn line_numbers() {
        let all = "     1\tfn main() {\n     2\t\tlet a = \"x\\n\";\n     3\t\n     4\t    run(a, 'b');\n     5\t}\n";
        check(FILE, all, Some((true, &[], &[0])));
        // Only some lines, a blank line of which nothing or only the number is left, and CRLF in the file.
        check(FILE, "\tlet a = \"x\\n\";\n\n     4\t    run(a, 'b');", Some((true, &[], &[12])));
        check(FILE, "     2\t\tlet a = \"x\\n\";\n     3\n     4\t    run", Some((true, &[], &[12])));
        check(&FILE.replace('\n', "\r\n"), all, Some((true, &[], &[0])));
        check("1\ta\n2\tb\n", "     1\t1\ta\n     2\t2\tb\n", Some((true, &[], &[0])));
        check("a\nb\na\n", "     1\ta\n", Some((true, &[], &[0, 4])));
        // Not in the file even without the numbers.
        check(FILE, "     1\tfn main() {\n     2\tlet b;\n", None);
        check(FILE, "fn main()  {\n", None);
    }

    #[test]
    fn escapes() {
        use Escape::{Apostrophe, Backslash, Break, Quote, Tab};
        // The line break should not be an escape; the one within the quotes is in the file.
        check(FILE, r#"fn main() {\n\tlet a = "x\n";"#, Some((false, &[Break, Tab], &[0])));
        check(FILE, r#"let a = \"x\\n\";"#, Some((false, &[Quote, Backslash], &[13])));
        check(FILE, r"run(a, \'b\')", Some((false, &[Apostrophe], &[33])));
        check(&FILE.replace('\n', "\r\n"), "fn main() {\n\tlet a = \\\"x", Some((false, &[Quote], &[0])));
        check("a\r\nb\r\n", r"a\nb\n", Some((false, &[Break], &[0])));
        check(FILE, r"}\n\n", None);
        check("a\\nb", r"a\nc", None);
    }

    #[test]
    fn both_at_once() {
        use Escape::{Break, Quote, Tab};
        check(FILE, r#"     1\tfn main() {\n     2\t\tlet a"#, Some((true, &[Break, Tab], &[0])));
        check(FILE, "     2\t\tlet a = \\\"x", Some((true, &[Quote], &[12])));
        check(FILE, "     1\\tfn main() {\n     2\\t\tlet a", Some((true, &[], &[0])));
    }

    #[track_caller]
    fn check_advice(wanted: &str, new: &str, words: &[&str]) {
        let said = miscopied(FILE.as_bytes(), wanted).expect("it is seen").advice("at line 1", new);
        for word in words {
            assert!(said.contains(word), "{word:?} is missing in {said:?}");
        }
        let others = ["new_string has line numbers", "new_string has such escapes"];
        for other in others.iter().filter(|other| !words.contains(other)) {
            assert!(!said.contains(other), "{other:?} is in {said:?}");
        }
    }

    #[test]
    fn it_is_said_what_is_wrong_and_what_to_do() {
        let numbered = "     1\tfn main() {";
        let words =
            ["line numbers that Read shows", "Without the numbers it matches at line 1", "call Edit again"];
        check_advice(numbered, "fn start() {", &words);
        check_advice(numbered, "     1\tfn start() {", &["new_string has line numbers"]);
        let words = [
            r"`\n` (a backslash and an n) where the file has a line break",
            "With the characters themselves",
        ];
        check_advice(r"main() {\n", "x", &words);
        check_advice(r"main() {\n", r"x\n", &["new_string has such escapes"]);
    }

    #[test]
    fn a_search_that_would_take_long_is_given_up() {
        let content = "a".repeat(200_000);
        check(&content, &format!(r"{}\n", "a".repeat(100_000)), None);
    }
}
