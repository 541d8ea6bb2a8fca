//! What is searched of a memory, worked out once when its file is read: the stems of its words, and what its patterns need.

use serde::{Deserialize, Serialize};

use super::header::Header;
use super::literal::required_literals;
use super::pattern::{Pattern, Reading};
use super::words::{is_stop_word, stem, words};

/// Most bytes of a body whose words count. What is longer is a document, not a memory.
const MAX_BODY: usize = 4 * 1024;
/// Before each set of texts of which a pattern needs one, and between the texts of a set. No stem and no such text has a control character.
const SET: char = '\t';
const OR: char = '\r';

/// A line for the title and one for each pattern, and the body: the stems of content words, each stem once in its line. The line of a pattern
/// that is not natural language ends with the texts that must occur for it to match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms(Box<str>, Box<str>);

/// One line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    stems: &'a str,
    /// The sets; `None` where stems alone decide.
    sets: Option<&'a str>,
}

impl Terms {
    /// Of a memory's front matter and body.
    #[must_use]
    pub fn of(header: &Header, body: &str) -> Self {
        let mut text = String::new();
        push(&header.title, &mut text);
        for pattern in &header.when_to_use {
            text.push('\n');
            let cut = Pattern::cut(pattern);
            match Pattern::reading_of(pattern) {
                Reading::Words => push(cut, &mut text),
                Reading::Prefix => {
                    push(cut, &mut text);
                    for word in words(cut) {
                        text.push(SET);
                        text.push_str(&word);
                    }
                }
                Reading::Regex | Reading::Substring | Reading::Glob => {
                    push(&without_escapes(cut), &mut text);
                    let sets = required_literals(&Pattern::expression_of(pattern).unwrap_or_default());
                    if sets.is_empty() {
                        text.push(SET);
                    }
                    for set in sets {
                        text.push(SET);
                        text.push_str(&set.join(&OR.to_string()));
                    }
                }
            }
        }
        let mut of_body = String::new();
        push(&body[..body.floor_char_boundary(MAX_BODY)], &mut of_body);
        Self(text.into(), of_body.into())
    }

    /// In the order title, patterns, body.
    pub(super) fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        let lines = self.0.split('\n').map(|line| match line.split_once(SET) {
            Some((stems, sets)) => Field { stems, sets: Some(sets) },
            None => Field { stems: line, sets: None },
        });
        lines.chain(std::iter::once(Field { stems: &self.1, sets: None }))
    }

    /// The stems of the title.
    pub(super) fn title(&self) -> &str {
        self.fields().next().map_or("", |field| field.stems)
    }
}

impl<'a> Field<'a> {
    /// As bytes, because hundreds of thousands of short ones are looked at.
    pub(super) fn stems(self) -> impl Iterator<Item = &'a [u8]> {
        self.stems.as_bytes().split(|byte| *byte == b' ').filter(|stem| !stem.is_empty())
    }

    /// Whether a pattern may match where these texts occur; `None` where its stems decide that.
    pub(super) fn may_match(self, occurs: impl Fn(&str) -> bool) -> Option<bool> {
        self.sets.map(|sets| sets.split(SET).all(|set| set.split(OR).any(&occurs)))
    }
}

/// Appends the stems of a text's content words to `line`.
fn push(text: &str, line: &mut String) {
    let begin = line.len();
    for word in words(text).filter(|word| !is_stop_word(word)) {
        let stem = stem(&word);
        if !line[begin..].split(' ').any(|known| known == stem) {
            if line.len() > begin {
                line.push(' ');
            }
            line.push_str(&stem);
        }
    }
}

/// A regular expression without what its backslashes make of letters: `\bfoo\d` is about `foo`.
fn without_escapes(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            chars.next();
            text.push(' ');
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_field_is_a_line_of_stems() {
        let front = json!({"title": "Tokens and the token's signature", "whenToUse": ["signing a token", r"jwt\b|\d+"]});
        let header = Header::read(&front).0.unwrap();
        let terms = Terms::of(&header, "The key rotates.\n\nRotate the keys!");
        let stems: Vec<&str> = terms.fields().map(|field| field.stems).collect();
        assert_eq!(stems, ["token signatur", "sign token", "jwt", "key rotat"]);
        assert_eq!(Terms::of(&header, "").fields().count(), 4);
    }

    #[test]
    fn a_pattern_has_what_it_needs() {
        let check = |pattern: &str, text: &str, expected: Option<bool>| {
            let header = Header::read(&json!({"title": "t", "whenToUse": pattern})).0.unwrap();
            let terms = Terms::of(&header, "");
            let field = terms.fields().nth(1).unwrap();
            assert_eq!(field.may_match(|literal| text.contains(literal)), expected, "{pattern}");
        };
        check("signing a token", "token", None);
        check("rate-lim", "the rate limit", Some(true));
        check("rate-lim", "the rate", Some(false));
        check("(login|sign.?out).*now", "sign out now", Some(true));
        check("(login|sign.?out).*now", "sign out", Some(false));
        check(r"\d+", "anything", Some(true));
    }
}
