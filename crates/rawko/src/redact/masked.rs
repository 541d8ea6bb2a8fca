//! A text as agents are shown it, and what stands behind each placeholder.
//!
//! A known secret is shown as `[redacted]`. A token that is known by its shape is shown with what it is and the beginning
//! of its digest, `[redacted:github-token:5e0c81fa]`: the same token has the same placeholder in every file, every run
//! and after a resume, with nothing stored. Such tokens are random, so four bytes of a digest lead nobody to them. A
//! known secret may be a password that can be guessed, and has no digest.

use std::ops::Range;
use std::sync::OnceLock;

use rawko_provider::REDACTED;
use regex::Regex;
use sha2::{Digest as _, Sha256};

use super::Redactor;
use super::shapes;

/// A secret in a text, and what is shown in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) range: Range<usize>,
    pub(super) placeholder: String,
}

/// A text as agents are shown it.
pub(super) struct Masked<'a> {
    pub(super) shown: String,
    pub(super) marks: Vec<Mark<'a>>,
    real: &'a str,
}

/// A placeholder in [`Masked::shown`], and the secret that it stands for.
pub(super) struct Mark<'a> {
    pub(super) range: Range<usize>,
    pub(super) secret: &'a str,
    /// Where the secret is in the text itself.
    real: Range<usize>,
}

impl<'a> Masked<'a> {
    fn new(real: &'a str, found: &[Found]) -> Self {
        let mut shown = String::with_capacity(real.len());
        let mut marks = Vec::with_capacity(found.len());
        let mut from = 0;
        for Found { range, placeholder } in found {
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
        self.real.get(place(part.start)?..place(part.end)?)
    }
}

impl Redactor {
    /// `text` as agents are shown it: without known secrets, and without tokens that are known by their shape.
    pub(super) fn masked<'a>(&self, text: &'a str) -> Masked<'a> {
        let mut found = self.known_in(text);
        if !self.shows_tokens {
            let known = found.clone();
            let is_free = |range: &Range<usize>| {
                !known.iter().any(|known| known.range.start < range.end && range.start < known.range.end)
            };
            let tokens = shapes::tokens(text).into_iter().filter(|token| is_free(&token.range));
            found.extend(tokens.map(|token| Found {
                placeholder: placeholder(token.kind, &text[token.range.clone()]),
                range: token.range,
            }));
            found.sort_by_key(|found| found.range.start);
        }
        Masked::new(text, &found)
    }

    /// Masks what a tool, a command or a file says.
    pub(super) fn mask(&self, text: &mut String) {
        let Masked { shown, marks, .. } = self.masked(text);
        if !marks.is_empty() {
            *text = shown;
        }
    }

    /// The known secrets in `text`, in order. None overlaps another; of two, the longer one counts.
    pub(super) fn known_in(&self, text: &str) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        for secret in &self.secrets {
            if text.contains(secret.text.as_str()) {
                let places = |part: &str| {
                    let places = part.match_indices(secret.text.as_str());
                    places.map(|(at, _)| at..at + secret.text.len()).collect()
                };
                add(&mut found, text, places);
            }
        }
        for provider in &self.providers {
            add(&mut found, text, |part| provider.secrets_in(part));
        }
        found
    }
}

/// Adds what `places` finds between what is found already.
fn add(found: &mut Vec<Found>, text: &str, places: impl Fn(&str) -> Vec<Range<usize>>) {
    let mut all = Vec::new();
    let mut from = 0;
    let ends = found.iter().map(|found| found.range.clone()).chain(std::iter::once(text.len()..text.len()));
    for range in ends {
        all.extend(places(&text[from..range.start]).into_iter().map(|place| Found {
            range: from + place.start..from + place.end,
            placeholder: REDACTED.to_owned(),
        }));
        from = range.end;
    }
    if !all.is_empty() {
        found.append(&mut all);
        found.sort_by_key(|found| found.range.start);
    }
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
