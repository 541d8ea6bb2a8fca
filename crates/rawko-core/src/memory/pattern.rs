//! One `whenToUse` pattern: how it is read, and whether it matches.
//!
//! Owns `docs/memory.md`'s four readings. Which one a pattern has depends on its characters alone, never on what it is
//! matched against. Regular expressions run in linear time and are refused above a size, so that a memory from a
//! stranger can cost little; what is refused, or is no expression, is looked for as it is written.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};
use serde::Serialize;

use super::doubt::{doubt, is_everything, is_nothing};
use super::glob;
use super::pieces::Pieces;
use super::query::{Line, Part, Query, QueryTerms};
use super::reading::Reading;
use super::words::{fold, is_stop_word, stem, words};
use crate::text::truncate;

/// Most bytes of a compiled expression. `\w+` needs a tenth of it; `(a{99}){99}` does not fit.
const SIZE_LIMIT: usize = 512 * 1024;
/// Most characters of a pattern; what follows them is not read.
const MAX_CHARS: usize = 1_000;
/// Characters of a match that are shown.
const MAX_FOUND: usize = 60;

/// A pattern, read.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    problem: Option<String>,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    Expression(Reading, Regex),
    /// An expression that needs no engine.
    Pieces(Reading, Pieces),
    Substring(String),
    Prefix(Vec<String>),
    /// The stems of its content words.
    Words(BTreeSet<String>),
}

/// A match of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PatternMatch {
    /// The pattern as it is written.
    pub pattern: String,
    /// How it was read.
    pub reading: Reading,
    /// Where it matched first.
    pub part: Part,
    /// What it matched, shortened.
    pub found: String,
    /// Of a natural-language pattern: how many of its content words occur.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<(usize, usize)>,
}

impl Pattern {
    /// Reads a pattern.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let cut = Self::cut(text);
        let too_long = cut.len() < text.trim().len();
        let mut problem =
            too_long.then(|| format!("is longer than {MAX_CHARS} characters; the rest is not read"));
        let form = match Self::reading_of(cut) {
            reading @ (Reading::Regex | Reading::Substring | Reading::Glob) => {
                let (form, found) = expression(cut, reading);
                problem = found.or(problem);
                form
            }
            Reading::Prefix => {
                let words: Vec<String> = words(cut).collect();
                if words.is_empty() {
                    problem = Some("has no word in it and never matches".to_owned());
                }
                Form::Prefix(words)
            }
            Reading::Words => {
                let stems = content(cut);
                if stems.is_empty() {
                    problem = Some("says nothing: all its words are too common to tell anything".to_owned());
                }
                Form::Words(stems)
            }
        };
        Self { text: text.trim().to_owned(), problem, form }
    }

    /// How a pattern is read, without compiling it: never [`Reading::Substring`].
    #[must_use]
    pub fn reading_of(text: &str) -> Reading {
        let text = Self::cut(text);
        let has_syntax =
            text.contains(['|', '\\', '[', '(', '+', '^', '$']) || text.contains(".*") || text.contains(".{");
        if has_syntax {
            Reading::Regex
        } else if text.contains(['*', '?']) {
            Reading::Glob
        } else if text.split_whitespace().nth(1).is_none() {
            Reading::Prefix
        } else {
            Reading::Words
        }
    }

    /// The stems of a natural-language pattern's content words; `None` for one of another reading.
    #[must_use]
    pub fn content_stems(text: &str) -> Option<BTreeSet<String>> {
        (Self::reading_of(text) == Reading::Words).then(|| content(Self::cut(text)))
    }

    /// Whether a pattern is read without compiling an expression.
    #[must_use]
    pub fn is_simple(text: &str) -> bool {
        Self::expression_of(text).is_none_or(|expression| Pieces::of(&expression).is_some())
    }

    /// As much of a pattern as is read.
    #[must_use]
    pub fn cut(text: &str) -> &str {
        let text = text.trim();
        let end = text.char_indices().nth(MAX_CHARS).map_or(text.len(), |(at, _)| at);
        text[..end].trim_end()
    }

    /// The regular expression that is compiled for a pattern, where it is read as one or as a glob: an index looks into it.
    #[must_use]
    pub fn expression_of(text: &str) -> Option<String> {
        let text = Self::cut(text);
        match Self::reading_of(text) {
            Reading::Regex => Some(alternatives(text).unwrap_or_else(|| literal_pluses(text))),
            Reading::Glob => Some(glob::to_regex(text)),
            Reading::Substring | Reading::Prefix | Reading::Words => None,
        }
    }

    /// As it is written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How it is read.
    #[must_use]
    pub fn reading(&self) -> Reading {
        match &self.form {
            Form::Expression(reading, _) | Form::Pieces(reading, _) => *reading,
            Form::Substring(_) => Reading::Substring,
            Form::Prefix(_) => Reading::Prefix,
            Form::Words(_) => Reading::Words,
        }
    }

    /// Whether it distinguishes nothing: it matches every text, or never matches any.
    #[must_use]
    pub fn tells_nothing(&self) -> bool {
        match &self.form {
            Form::Expression(_, regex) => {
                let expression = Self::expression_of(Self::cut(&self.text)).unwrap_or_default();
                is_everything(|text| regex.is_match(text)) || is_nothing(&expression)
            }
            Form::Pieces(_, pieces) => is_everything(|text| pieces.find(&fold(text)).is_some()),
            Form::Substring(_) | Form::Prefix(_) | Form::Words(_) => false,
        }
    }

    /// What the author of a pattern should know.
    #[must_use]
    pub fn problem_of(text: &str) -> Option<String> {
        Self::read(text).problem()
    }

    /// The same in little time: of an expression that would have to be compiled it is found out whether it is one.
    #[must_use]
    pub fn obvious_problem_of(text: &str) -> Option<String> {
        if Self::is_simple(text) {
            return Self::problem_of(text);
        }
        let expression = Self::expression_of(text)?;
        let parsed = regex_syntax::ParserBuilder::new().nest_limit(50).build().parse(&expression);
        parsed.err().map(|error| refusal(&regex::Error::Syntax(error.to_string())))
    }

    /// What its author should know.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let text = Self::cut(&self.text);
        let expression = || Self::expression_of(text).unwrap_or_default();
        self.problem.clone().or_else(|| match &self.form {
            Form::Expression(reading, regex) => {
                doubt(text, *reading, &expression(), |text| regex.is_match(text))
            }
            Form::Pieces(reading, pieces) => {
                doubt(text, *reading, &expression(), |text| pieces.find(&fold(text)).is_some())
            }
            Form::Substring(_) | Form::Prefix(_) | Form::Words(_) => None,
        })
    }

    /// Whether and how it matches the task or the agent's name.
    #[must_use]
    pub fn matches(&self, query: &Query) -> Option<PatternMatch> {
        self.find_in(query.task())
    }

    pub(super) fn find_in(&self, asked: &QueryTerms) -> Option<PatternMatch> {
        let (part, found, words) = match &self.form {
            Form::Expression(_, regex) => first(asked, |line| {
                let found = regex.find(&line.text)?;
                let (start, end) = whole_words(&line.text, found.start(), found.end());
                line.text.get(start..end).map(str::to_owned)
            })?,
            Form::Pieces(_, pieces) => {
                first(asked, |line| pieces.find(&line.folded).map(|(start, end)| original(line, start, end)))?
            }
            Form::Substring(folded) => {
                first(asked, |line| line.folded.contains(folded.as_str()).then(|| self.text.clone()))?
            }
            Form::Prefix(words) => first(asked, |line| phrase(&line.words, words))?,
            Form::Words(stems) => in_words(stems, asked)?,
        };
        Some(PatternMatch {
            pattern: truncate(&self.text, MAX_CHARS),
            reading: self.reading(),
            part,
            found: truncate(&found, MAX_FOUND),
            words,
        })
    }
}

type Found = (Part, String, Option<(usize, usize)>);

fn first(asked: &QueryTerms, find: impl Fn(&Line) -> Option<String>) -> Option<Found> {
    asked.lines.iter().find_map(|line| find(line).map(|found| (line.part, found, None)))
}

/// The words of `wanted` one after the other, the last of them as the beginning of one: `rate-lim` in "rate limiting".
fn phrase(words: &[String], wanted: &[String]) -> Option<String> {
    let (last, before) = wanted.split_last()?;
    words
        .windows(wanted.len())
        .find(|window| window[..before.len()] == *before && window[before.len()].starts_with(last.as_str()))
        .map(|window| window.join(" "))
}

fn in_words(stems: &BTreeSet<String>, asked: &QueryTerms) -> Option<Found> {
    let found: Vec<(Part, &str)> = stems.iter().filter_map(|stem| asked.find_stem(stem)).collect();
    let part = found.iter().map(|(part, _)| *part).min()?;
    let words: Vec<&str> = found.iter().map(|(_, word)| *word).collect();
    (2 * found.len() >= stems.len()).then(|| (part, words.join(", "), Some((found.len(), stems.len()))))
}

fn content(text: &str) -> BTreeSet<String> {
    words(text).filter(|word| !is_stop_word(word)).map(|word| stem(&word)).collect()
}

/// The characters of a line at these places in bytes of its folded form, which has as many characters.
fn original(line: &Line, start: usize, end: usize) -> String {
    let (start, end) = whole_words(&line.folded, start, end);
    let skipped = line.folded.get(..start).unwrap_or_default().chars().count();
    let taken = line.folded.get(start..end).unwrap_or_default().chars().count();
    line.text.chars().skip(skipped).take(taken).collect()
}

/// A range of a text, with all of the words in which it begins and ends.
fn whole_words(text: &str, start: usize, end: usize) -> (usize, usize) {
    if start == end {
        return (start, end);
    }
    let before = text.get(..start).unwrap_or_default();
    let after = text.get(end..).unwrap_or_default();
    let is_inner = |c: char| c.is_alphanumeric();
    let first = text.get(start..end).is_some_and(|found| found.starts_with(is_inner));
    let last = text.get(start..end).is_some_and(|found| found.ends_with(is_inner));
    let start = if first { before.trim_end_matches(is_inner).len() } else { start };
    let end = if last { end + after.len() - after.trim_start_matches(is_inner).len() } else { end };
    (start, end)
}

/// The pattern as an expression, and what its author should know. One that cannot be compiled is looked for as it is written.
fn expression(text: &str, reading: Reading) -> (Form, Option<String>) {
    let expression = Pattern::expression_of(text).unwrap_or_default();
    if let Some(pieces) = Pieces::of(&expression) {
        return (Form::Pieces(reading, pieces), None);
    }
    match compile(&expression) {
        Ok(regex) => (Form::Expression(reading, regex), None),
        Err(error) => (Form::Substring(fold(text)), Some(refusal(&error))),
    }
}

/// The expression that is compiled for `text`: in `docs/memory.md` "auth | login" has blanks around the bar that are not meant, and an empty
/// alternative would match everything. `None` where other syntax may give them a meaning.
fn alternatives(text: &str) -> Option<String> {
    let has_other = |part: &str| part.contains(['\\', '[', '(', '+', '^', '$', '*', '?', '{']);
    if !text.contains('|') || text.split('|').any(|part| has_other(&literal_pluses(part).replace("\\+", "")))
    {
        return None;
    }
    let parts = text.split('|').map(str::trim).filter(|part| !part.is_empty()).map(literal_pluses);
    Some(parts.collect::<Vec<_>>().join("|"))
}

/// The expression with `++` after a letter or digit as itself: `C++`. As a repetition of a repetition it would match every `c`. Who
/// escapes anything (`\x41++`) knows what an expression is.
fn literal_pluses(text: &str) -> String {
    if text.contains('\\') {
        return text.to_owned();
    }
    let mut literal = String::with_capacity(text.len() + 4);
    let mut before = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let pluses = rest.len() - rest.trim_start_matches('+').len();
        if pluses > 1 && before.is_some_and(char::is_alphanumeric) {
            literal.push_str(&"\\+".repeat(pluses));
            (before, rest) = (None, &rest[pluses..]);
            continue;
        }
        literal.push(c);
        before = Some(c);
        rest = &rest[c.len_utf8()..];
    }
    literal
}

fn compile(regex: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(regex)
        .case_insensitive(true)
        .size_limit(SIZE_LIMIT)
        .dfa_size_limit(SIZE_LIMIT)
        .nest_limit(50)
        .build()
}

fn refusal(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => {
            "is too large a regular expression and is looked for as it is written".to_owned()
        }
        other => {
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("is no regular expression ({reason}) and is looked for as it is written")
        }
    }
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
