//! A text as agents see it, and the secret that each placeholder hides.
//!
//! A known secret is shown as `[redacted]`. A token that is known by its shape is shown with what it is and the beginning
//! of its digest, `[redacted:github-token:5e0c81fa]`: the same token has the same placeholder in every file, every run
//! and after a resume, with nothing stored. Such tokens are random, so four bytes of a digest do not give them away. A
//! known secret may be a password that can be guessed, and has no digest.
//!
//! A token that a run has seen is looked for from then on as it is, whatever is beside it. This is kept in memory
//! alone: a run that is resumed recognises the token again where it is by itself.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{OnceLock, PoisonError};

use rawko_provider::REDACTED;
use regex::Regex;
use sha2::{Digest as _, Sha256};

use super::Redactor;
use super::forms::at_cuts;
use super::plain::VisibleText;
use super::shapes;

/// The most tokens that a run remembers, and the fewest characters of one: a shorter one could be a word.
const REMEMBERED: usize = 200;
const SHORTEST_TOKEN: usize = 16;

/// A secret in a text, and what is shown in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SecretMatch {
    pub(super) range: Range<usize>,
    pub(super) placeholder: String,
}

/// A text as agents are shown it.
pub(super) struct Masked<'a> {
    pub(super) shown: String,
    pub(super) marks: Vec<Mark<'a>>,
    pub(super) real: &'a str,
}

/// A placeholder in [`Masked::shown`], and the secret that it represents.
pub(super) struct Mark<'a> {
    pub(super) range: Range<usize>,
    pub(super) secret: &'a str,
    /// Where the secret is in the text itself.
    pub(super) real: Range<usize>,
}

impl<'a> Masked<'a> {
    fn new(real: &'a str, found: &[SecretMatch]) -> Self {
        let mut shown = String::with_capacity(real.len());
        let mut marks = Vec::with_capacity(found.len());
        let mut from = 0;
        for SecretMatch { range, placeholder } in found {
            shown.push_str(&real[from..range.start]);
            let start = shown.len();
            shown.push_str(placeholder);
            marks.push(Mark { range: start..shown.len(), secret: &real[range.clone()], real: range.clone() });
            from = range.end;
        }
        shown.push_str(&real[from..]);
        Self { shown, marks, real }
    }

    /// What a part of the shown text really is; `None` if the part begins or ends inside a placeholder.
    pub(super) fn real(&self, part: Range<usize>) -> Option<&'a str> {
        self.real.get(self.real_range(part)?)
    }

    /// Where in the text itself a part of the shown text is.
    pub(super) fn real_range(&self, part: Range<usize>) -> Option<Range<usize>> {
        let place = |at: usize| {
            let mut moved = at;
            for mark in &self.marks {
                if mark.range.end <= at {
                    moved = moved - mark.range.len() + mark.real.len();
                } else if mark.range.start < at {
                    return None;
                } else {
                    break;
                }
            }
            // Lengths before `at` only: the sum stays in the text.
            Some(moved)
        };
        Some(place(part.start)?..place(part.end)?)
    }
}

impl Redactor {
    /// `text` as agents are shown it: without known secrets, and without tokens that are known by their shape.
    pub(super) fn masked<'a>(&self, text: &'a str) -> Masked<'a> {
        let views = Views::of(text);
        let mut found = self.known_places(&views);
        if !self.shows_tokens {
            let tokens = tokens(&views);
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.add(text, &tokens);
            found.extend(tokens);
            found.extend(seen.places(&views));
        }
        Masked::new(text, &in_order(found))
    }

    /// [`Self::masked`] as a run does it that has seen nothing before.
    pub(super) fn masked_afresh<'a>(&self, text: &'a str) -> Masked<'a> {
        let views = Views::of(text);
        let mut found = self.known_places(&views);
        if !self.shows_tokens {
            found.extend(tokens(&views));
        }
        Masked::new(text, &in_order(found))
    }

    /// Masks what a tool, a command or a file says.
    pub(super) fn mask(&self, text: &mut String) {
        let Masked { shown, marks, .. } = self.masked(text);
        if !marks.is_empty() {
            *text = shown;
        }
    }

    /// The known secrets in `text` and the tokens that the run has seen, in order. None overlaps another.
    pub(super) fn known_in(&self, text: &str) -> Vec<SecretMatch> {
        let mut found = self.known_places(&Views::of(text));
        found.extend(self.seen_in(text));
        in_order(found)
    }

    /// The tokens in `text` that the run has seen.
    pub(super) fn seen_in(&self, text: &str) -> Vec<SecretMatch> {
        if self.shows_tokens {
            return Vec::new();
        }
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).places(&Views::of(text))
    }

    /// The tokens that the run has seen.
    pub(super) fn seen_tokens(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.placeholders.keys().cloned().collect()
    }

    fn known_places(&self, views: &Views<'_>) -> Vec<SecretMatch> {
        let places = |text: &str| {
            let mut places = at_cuts(&self.secrets, text);
            if self.may_hold_secret(text) {
                places.extend(self.secrets.iter().flat_map(|secret| secret.places(text)));
            }
            places.extend(self.providers.iter().flat_map(|provider| provider.secrets_in(text)));
            places.into_iter().map(|range| (range, REDACTED.to_owned())).collect()
        };
        views.find(places)
    }
}

/// A text, and what people see of it if that is something else.
struct Views<'a> {
    text: &'a str,
    plain: Option<VisibleText>,
}

impl<'a> Views<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, plain: VisibleText::of(text) }
    }

    /// What `places` finds in both, by its place in the text.
    fn find(&self, places: impl Fn(&str) -> Vec<(Range<usize>, String)>) -> Vec<SecretMatch> {
        let mut all = places(self.text);
        if let Some(plain) = &self.plain {
            all.extend(places(&plain.text).into_iter().map(|(range, shown)| (plain.place(&range), shown)));
        }
        all.into_iter().map(|(range, placeholder)| SecretMatch { range, placeholder }).collect()
    }
}

/// The tokens that a run has seen, each with its placeholder.
#[derive(Default)]
pub(super) struct SeenTokens {
    placeholders: BTreeMap<String, String>,
    /// Finds them.
    pattern: Option<Regex>,
}

impl SeenTokens {
    fn add(&mut self, text: &str, tokens: &[SecretMatch]) {
        let before = self.placeholders.len();
        for SecretMatch { range, placeholder } in tokens {
            let token = &text[range.clone()];
            if token.len() >= SHORTEST_TOKEN && self.placeholders.len() < REMEMBERED {
                self.placeholders.entry(token.to_owned()).or_insert_with(|| placeholder.clone());
            }
        }
        if self.placeholders.len() > before {
            let mut tokens: Vec<&String> = self.placeholders.keys().collect();
            tokens.sort_by_key(|token| std::cmp::Reverse(token.len()));
            let tokens: Vec<String> = tokens.into_iter().map(|token| regex::escape(token)).collect();
            self.pattern = Regex::new(&tokens.join("|")).ok();
        }
    }

    fn places(&self, views: &Views<'_>) -> Vec<SecretMatch> {
        let Some(pattern) = &self.pattern else { return Vec::new() };
        views.find(|text| {
            let found = pattern.find_iter(text);
            let shown = |token: &str| self.placeholders.get(token).cloned().unwrap_or_default();
            found.map(|token| (token.range(), shown(token.as_str()))).collect()
        })
    }
}

/// The tokens in a text that are known by their shape.
fn tokens(views: &Views<'_>) -> Vec<SecretMatch> {
    views.find(|text| {
        let tokens = shapes::tokens(text).into_iter();
        tokens.map(|token| (token.range.clone(), placeholder(token.kind, &text[token.range]))).collect()
    })
}

/// In order and without overlaps: what overlaps is masked as one, and as a known secret if one is in it.
fn in_order(mut all: Vec<SecretMatch>) -> Vec<SecretMatch> {
    all.sort_by_key(|found| (found.range.start, std::cmp::Reverse(found.range.end)));
    let mut apart: Vec<SecretMatch> = Vec::with_capacity(all.len());
    for found in all {
        match apart.last_mut().filter(|last| found.range.start < last.range.end) {
            Some(last) => {
                last.range.end = last.range.end.max(found.range.end);
                if found.placeholder == REDACTED {
                    last.placeholder = found.placeholder;
                }
            }
            None => apart.push(found),
        }
    }
    apart
}

fn placeholder(kind: &str, token: &str) -> String {
    let digest = hex::encode(&Sha256::digest(token.as_bytes())[..4]);
    format!("[redacted:{kind}:{digest}]")
}

/// The placeholders in a text that an agent wrote.
pub(super) fn placeholders(text: &str) -> impl Iterator<Item = Range<usize>> {
    static FORM: OnceLock<Option<Regex>> = OnceLock::new();
    let form = FORM.get_or_init(|| Regex::new(r"\[redacted(?::[a-z-]+:[0-9a-f]{8})?\]").ok());
    form.iter().flat_map(move |form| form.find_iter(text)).map(|found| found.range())
}
