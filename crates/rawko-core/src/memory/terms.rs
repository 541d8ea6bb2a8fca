//! The searchable words of a memory, as stems.

use super::header::Header;
use super::pattern::Pattern;
use super::reading::Reading;
use super::words::{is_stop_word, stem, words};

/// Most bytes of a body whose words count. What is longer is a document, not a memory.
const MAX_BODY: usize = 4 * 1024;

/// The stems of content words, each once in its field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    title: Vec<String>,
    patterns: Vec<Vec<String>>,
    body: Vec<String>,
}

impl Terms {
    /// Of a memory's front matter and body.
    #[must_use]
    pub fn of(header: &Header, body: &str) -> Self {
        let of_pattern = |pattern: &String| {
            let cut = Pattern::cut(pattern);
            match Pattern::reading_of(pattern) {
                Reading::Words | Reading::Prefix => stems(cut),
                Reading::Regex | Reading::Substring | Reading::Glob => stems(&without_escapes(cut)),
            }
        };
        Self {
            title: stems(&header.title),
            patterns: header.when_to_use.iter().map(of_pattern).collect(),
            body: stems(&body[..body.floor_char_boundary(MAX_BODY)]),
        }
    }

    /// In the order title, patterns, body.
    pub(super) fn fields(&self) -> impl Iterator<Item = &[String]> {
        [&self.title].into_iter().chain(&self.patterns).chain([&self.body]).map(Vec::as_slice)
    }

    /// Those of the title.
    pub(super) fn title(&self) -> &[String] {
        &self.title
    }
}

/// The stems of a text's content words.
fn stems(text: &str) -> Vec<String> {
    let mut stems: Vec<String> = Vec::new();
    for word in words(text).filter(|word| !is_stop_word(word)) {
        let stem = stem(&word);
        if !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    stems
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
    fn each_field_has_its_stems_once() {
        let front = json!({"title": "Tokens and the token's signature", "whenToUse": ["signing a token", r"jwt\b|\d+"]});
        let header = Header::read(&front).0.unwrap();
        let terms = Terms::of(&header, "The key rotates.\n\nRotate the keys!");
        let fields: Vec<String> = terms.fields().map(|stems| stems.join(" ")).collect();
        assert_eq!(fields, ["token signatur", "sign token", "jwt", "key rotat"]);
        assert_eq!(Terms::of(&header, "").fields().count(), 4);
    }
}
