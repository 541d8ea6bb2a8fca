//! Words of a text, reduced to their stems, and how much two texts have in common.
//!
//! A rough comparison, good enough to prefer one agent's `whenToUse` over another's; a ruling based on it is never
//! certain. Only English endings are known; other languages match by whole words.

use std::collections::{BTreeMap, BTreeSet};

/// Stop words.
const EMPTY: &[&str] = &[
    "about", "after", "all", "and", "any", "are", "been", "but", "can", "for", "from", "has", "have", "into",
    "its", "not", "one", "only", "out", "over", "some", "than", "that", "the", "their", "them", "then",
    "there", "they", "this", "was", "what", "when", "where", "which", "who", "will", "with", "you", "use",
    "used", "work",
];

/// Endings to remove, the longest first; at least three letters remain.
const ENDINGS: &[&str] = &[
    "ations", "ation", "ments", "ment", "ings", "ing", "ions", "ion", "ers", "ies", "er", "ed", "es", "s",
    "e", "y",
];

/// The stems of `text`.
pub(super) fn stems(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    words
        .filter(|word| word.chars().count() >= 3 && !EMPTY.contains(&word.as_str()))
        .map(|word| stem(&word))
        .collect()
}

fn stem(word: &str) -> String {
    let cut =
        ENDINGS.iter().find_map(|ending| word.strip_suffix(ending).filter(|rest| rest.chars().count() >= 3));
    cut.unwrap_or(word).to_owned()
}

/// The name of the text that has most in common with `state`. A stem counts more if fewer of the texts have it.
/// `None` if no text has anything in common with it, or two have the most.
pub(super) fn nearest<'a>(state: &str, texts: &[(&'a str, String)]) -> Option<&'a str> {
    let state = stems(state);
    let stemmed: Vec<(&str, BTreeSet<String>)> =
        texts.iter().map(|(name, text)| (*name, stems(text))).collect();
    let mut spread: BTreeMap<&String, u32> = BTreeMap::new();
    for stem in stemmed.iter().flat_map(|(_, stems)| stems) {
        *spread.entry(stem).or_default() += 1;
    }
    let score = |stems: &BTreeSet<String>| -> f64 {
        stems
            .intersection(&state)
            .filter_map(|stem| spread.get(stem))
            .map(|count| 1.0 / f64::from(*count))
            .sum()
    };
    let mut scored: Vec<(f64, &str)> = stemmed.iter().map(|(name, stems)| (score(stems), *name)).collect();
    scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    match scored.as_slice() {
        [(best, name)] if *best > 0.0 => Some(name),
        [(best, name), (second, _), ..] if best > second => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(state: &str, expected: Option<&str>) {
        let texts = [
            ("database", "SQL schema changes, migrations and slow queries".to_owned()),
            ("frontend", "CSS, layout and components".to_owned()),
            ("backend", "Services, endpoints, slow jobs".to_owned()),
        ];
        assert_eq!(nearest(state, &texts), expected, "{state}");
    }

    #[test]
    fn what_only_one_text_has_counts_most() {
        check("write a migration for the orders", Some("database"));
        check("the layout of two component pages", Some("frontend"));
        check("a slow endpoint", Some("backend"));
        check("something slow", None);
        check("", None);
    }

    #[test]
    fn endings_do_not_matter() {
        let check = |one: &str, other: &str| assert_eq!(stems(one), stems(other));
        check("migrations", "migration");
        check("testing tests tested tester", "test");
        check("planning", "planning");
        assert!(stems("of it is").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_has_stems(text in "\\PC{0,80}") {
            for stem in stems(&text) {
                prop_assert!(!stem.is_empty());
            }
        }
    }
}
