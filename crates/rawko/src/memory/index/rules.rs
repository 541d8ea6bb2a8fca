//! By which rules an index was made: it holds stems and pieces of patterns, and with other rules would silently find too little.
//!
//! Owns a number that changes whenever the layout or the rules do. It is found by trying the rules on samples, so that nobody has to remember
//! it; what no sample shows is told by [`RULES`], raised by hand, and by the version of rawko.

use std::sync::OnceLock;

use rawko_core::memory::words::{stem, stop_words, words};
use rawko_core::memory::{Header, Pattern, reference_key, referred_keys, required_literals, tag_key, weight};

use super::layout::{Space, hash, short};

/// To be raised with a change of the rules or of the layout that no sample shows.
const RULES: u32 = 2;

/// Words whose stems tell one stemmer from another.
const WORDS: [&str; 40] = [
    "authentication",
    "authenticated",
    "authority",
    "caches",
    "caching",
    "classes",
    "databases",
    "dependencies",
    "easily",
    "failures",
    "generically",
    "happiness",
    "implementing",
    "indices",
    "limiting",
    "migrations",
    "node.js",
    "operational",
    "parsing",
    "queries",
    "relational",
    "running",
    "sending",
    "skies",
    "testing's",
    "universities",
    "validators",
    "x86_64",
    "İnput",
    "naïve",
    "straße",
    "Datenbankmigrationen",
    "Prüfungen",
    "Schnittstellen",
    "Zuverlässigkeit",
    "Änderungen",
    "aktualisieren",
    "freundlich",
    "認証",
    "кэширование",
];

/// Patterns of every reading.
const PATTERNS: [&str; 24] = [
    "auth",
    "rate-lim",
    "when adding a login provider",
    "Bei Änderungen an der Datenbank",
    "oauth | sso",
    "auth|login|security",
    "implement.*auth",
    "C++|g++",
    "pay*module",
    "rese?",
    "**",
    "(OAuth|SSO).{0,5}flow",
    "(?i)İnput",
    "naïve.+café",
    r"\bfix(es|ed)?\b",
    r"costs \$5",
    "[xyz]|sending",
    "(?:abc){2,}x*",
    "^fix the build$",
    "a(b",
    "a{1",
    ".{2}",
    "|",
    " auth ",
];

/// What there is to a memory, with much of it wrong.
const HEADER: &str = r#"{"title": " A title\nand more ", "whenToUse": ["auth", {"pattern": " x|y "}, 7, ""], "importance": "High",
    "kind": "avoid", "discoveredAt": "2026-01-23", "expiresAt": "2026-01-23T09:30:00+02:00", "discoveredBy": "developer", "tags": "a, b",
    "supersedes": ["a.md", 3], "conflictsWith": "T", "paths": ["src/**"], "files": [{"path": "a", "sha256": "00"}], "records": [1, 2], "mine": 1}"#;

/// The number of these rules and this layout.
pub(super) fn edition() -> u32 {
    static EDITION: OnceLock<u32> = OnceLock::new();
    *EDITION.get_or_init(|| number(&samples()))
}

fn number(samples: &[String]) -> u32 {
    samples.iter().fold(0, |number, sample| {
        short(hash(Space::Key, format!("{number} {} {sample}", sample.len()).as_bytes()))
    })
}

/// What the rules make of the samples.
fn samples() -> Vec<String> {
    let mut all = vec![format!("{RULES} {}", env!("CARGO_PKG_VERSION"))];
    all.extend(stop_words().map(str::to_owned));
    all.extend(WORDS.iter().flat_map(|text| words(text)).map(|word| format!("{word} {}", stem(&word))));
    all.extend(PATTERNS.iter().map(|pattern| {
        let expression = Pattern::expression_of(pattern);
        let required = expression.as_deref().map(required_literals);
        format!(
            "{:?} {:?} {expression:?} {required:?} {}",
            Pattern::reading_of(pattern),
            Pattern::content_stems(pattern),
            Pattern::is_simple(pattern)
        )
    }));
    let front: serde_json::Value = serde_json::from_str(HEADER).unwrap_or_default();
    all.push(format!("{:?}", Header::read(&front)));
    all.push(format!(
        "{:?} {} {}",
        referred_keys("a/B c.md", "A title"),
        reference_key("A.md"),
        tag_key("A b")
    ));
    all.push([(5, 1), (20, 1), (100_000, 7)].map(|(all, spread)| weight(all, spread).to_string()).join(" "));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_each_time_and_another_with_any_other_rule() {
        let samples = samples();
        assert_eq!(number(&samples), edition());
        for at in 0..samples.len() {
            let mut other = samples.clone();
            other[at].push('x');
            assert_ne!(number(&other), edition(), "{}", samples[at]);
            other.remove(at);
            assert_ne!(number(&other), edition(), "{}", samples[at]);
        }
    }

    #[test]
    fn the_samples_show_what_they_are_for() {
        let samples = samples();
        let has = |part: &str| assert!(samples.iter().any(|sample| sample.contains(part)), "{part}");
        for part in [
            "authentication authent",
            "Words Some({",
            "Regex",
            "Glob",
            "Prefix",
            "[\"oauth\", \"sso\"]",
            "Avoid",
        ] {
            has(part);
        }
        assert!(samples.iter().any(|sample| sample == "der") && samples.iter().any(|sample| sample == "the"));
    }
}
