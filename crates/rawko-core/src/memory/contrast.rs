//! Whether two texts that have most of their words in common say opposite things all the same.
//!
//! Two signs of it, both by words: one denies what the other says without a denial, or they name different numbers or
//! names in the same place. It knows no synonyms and draws no conclusions.

use std::collections::BTreeSet;

use super::words::{fold, is_stop_word, stem, words};

/// Words that deny what follows them.
const DENIALS: [&str; 22] = [
    "avoid", "cannot", "kein", "keine", "keinem", "keinen", "keiner", "never", "nicht", "nie", "niemals",
    "no", "nobody", "none", "nor", "not", "nothing", "ohne", "stop", "stopped", "unless", "without",
];
/// Words after which something else begins, besides punctuation.
const BREAKS: [&str; 10] =
    ["aber", "and", "because", "but", "denn", "if", "instead", "sondern", "und", "when"];

/// Whether two texts, each of title and body, are opposed.
pub(super) fn are_opposed(one: (&str, &str), other: (&str, &str)) -> bool {
    let clauses = |(title, body): (&str, &str)| -> Vec<Clause> {
        clauses(title).chain(clauses(body)).map(|clause| Clause::read(&clause)).collect()
    };
    let (ours, theirs) = (clauses(one), clauses(other));
    is_denied(&ours, &theirs) || is_denied(&theirs, &ours) || has_other_values(&ours, &theirs)
}

/// A part of a sentence.
#[derive(Debug, Default)]
struct Clause {
    /// The stems of its content words.
    stems: BTreeSet<String>,
    /// Those of them that are denied.
    denied: BTreeSet<String>,
    /// Numbers and names, each with the stems of the content words next to it.
    values: Vec<(String, BTreeSet<String>)>,
}

impl Clause {
    fn read(text: &str) -> Self {
        let mut clause = Self::default();
        let tokens: Vec<&str> = text.split_whitespace().collect();
        let capitals_tell = do_capitals_tell(&tokens);
        let mut is_denied = false;
        let mut content: Vec<(String, bool)> = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            let token = token.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
            let folded = fold(token).replace('’', "'");
            if folded.ends_with("n't") || DENIALS.binary_search(&folded.as_str()).is_ok() {
                is_denied = true;
                continue;
            }
            let is_path = token.contains('/');
            let is_name = is_code_name(token) || (capitals_tell && at > 0 && begins_with_capital(token));
            if is_name && token.contains(['_', ':']) {
                content.push((folded.clone(), true));
                clause.stems.insert(folded);
            }
            for word in words(token).filter(|word| !is_stop_word(word)) {
                let stem = stem(&word);
                let is_number = word.chars().any(|c| c.is_ascii_digit());
                content.push((stem.clone(), !is_path && (is_name || is_number)));
                if is_denied {
                    clause.denied.insert(stem.clone());
                }
                clause.stems.insert(stem);
            }
        }
        for (at, (value, _)) in content.iter().enumerate().filter(|(_, (_, is_value))| *is_value) {
            let before = content[..at].iter().rev().find(|(_, is_value)| !is_value);
            let after = content[at + 1..].iter().find(|(_, is_value)| !is_value);
            let next_to_it = before.into_iter().chain(after).map(|(stem, _)| stem.clone()).collect();
            clause.values.push((value.clone(), next_to_it));
        }
        clause
    }
}

/// Clauses end with punctuation and with words after which something else begins.
fn clauses(text: &str) -> impl Iterator<Item = String> {
    let mut all = vec![String::new()];
    for token in text.split_whitespace() {
        let folded = fold(token);
        let is_break = BREAKS.binary_search(&folded.trim_matches(|c: char| !c.is_alphanumeric())).is_ok();
        if is_break {
            all.push(String::new());
            continue;
        }
        if let Some(last) = all.last_mut() {
            last.push_str(token);
            last.push(' ');
        }
        if token.ends_with(['.', ',', ';', ':', '!', '?', ')', '–', '—']) {
            all.push(String::new());
        }
    }
    all.into_iter().filter(|clause| !clause.is_empty())
}

/// Whether something that `ours` deny is said by `theirs`, and denied nowhere in them.
fn is_denied(ours: &[Clause], theirs: &[Clause]) -> bool {
    let denied_by_them = |stem: &String| theirs.iter().any(|clause| clause.denied.contains(stem));
    ours.iter().any(|our| {
        our.denied.iter().filter(|stem| !denied_by_them(stem)).any(|stem| {
            theirs.iter().filter(|their| their.stems.contains(stem)).any(|their| {
                // "Never use floats" denies nothing of "use integers".
                let shared = their.stems.intersection(&our.stems).count();
                shared > 1 || their.stems.len() == 1
            })
        })
    })
}

/// Whether each has a number or name that the other lacks, next to the same word.
fn has_other_values(ours: &[Clause], theirs: &[Clause]) -> bool {
    let own = |of: &[Clause], other: &[Clause]| -> Vec<(String, BTreeSet<String>)> {
        let values = of.iter().flat_map(|clause| &clause.values);
        values
            .filter(|(value, _)| !other.iter().any(|clause| clause.stems.contains(value)))
            .cloned()
            .collect()
    };
    let (ours, theirs) = (own(ours, theirs), own(theirs, ours));
    ours.iter().any(|(_, here)| {
        theirs.iter().any(|(_, there)| !here.is_disjoint(there) || (here.is_empty() && there.is_empty()))
    })
}

/// `PORT_A`, `RS256`, `JWT`, `readConfig`, `mod::name`.
fn is_code_name(token: &str) -> bool {
    let letters = token.chars().filter(|c| c.is_alphabetic());
    let (count, upper) =
        letters.fold((0, 0), |(count, upper), c| (count + 1, upper + usize::from(c.is_uppercase())));
    let has_inner_capital = token.chars().skip(1).any(char::is_uppercase);
    token.contains('_') || token.contains("::") || (count > 1 && upper == count) || has_inner_capital
}

fn begins_with_capital(token: &str) -> bool {
    token.chars().next().is_some_and(char::is_uppercase)
}

/// Whether a capital letter in the middle marks a name: not where most words have one, as in a headline, nor in German.
fn do_capitals_tell(tokens: &[&str]) -> bool {
    let inner = tokens.iter().skip(1);
    let capitals =
        inner.clone().filter(|token| begins_with_capital(token.trim_matches(|c: char| !c.is_alphanumeric())));
    let is_german = tokens.iter().any(|token| {
        GERMAN_SIGNS.binary_search(&fold(token.trim_matches(|c: char| !c.is_alphanumeric())).as_str()).is_ok()
    });
    !is_german && capitals.count() * 2 <= inner.len()
}

/// Words that are in most German sentences and in no English one.
const GERMAN_SIGNS: [&str; 22] = [
    "auf", "aus", "bei", "das", "dem", "den", "der", "ein", "eine", "einen", "für", "im", "ist", "mit",
    "nicht", "sind", "und", "von", "werden", "wird", "zu", "zum",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn denials_and_other_values_oppose() {
        let check = |one: &str, other: &str, expected: bool| {
            assert_eq!(are_opposed(("", one), ("", other)), expected, "{one} / {other}");
            assert_eq!(are_opposed(("", other), ("", one)), expected, "{other} / {one}");
        };
        check("Tests need a port.", "Tests do not need a port.", true);
        check("Tests need a port.", "Tests don’t need a port.", true);
        check("Run the tests with the network.", "Run the tests without the network.", true);
        check("Safe.", "Not safe.", true);
        check("JWT is used for logins.", "JWT is no longer used for logins.", true);
        check("Never use floats, use integers.", "Use integers and no floats.", false);
        check("Do not use floats for money.", "Avoid floats for money.", false);
        check(
            "Amounts are integers of cents; floats are never used.",
            "Amounts are integers of cents.",
            false,
        );
        check("The server listens on port 7070.", "Port 8080 is where the server listens.", true);
        check("The server listens on port 7070.", "Port 7070 is where the server listens.", false);
        check("The server listens on port 7070.", "The server listens on 7070 and 8080.", false);
        check("Set PORT_A before the tests.", "Set PORT_B before the tests.", true);
        check("It is kept in Redis.", "It is kept in Postgres.", true);
        check("It is kept in Redis.", "It is kept in a Redis.", false);
        // Evidence differs from run to run: paths are no values, and German nouns no names.
        check("Seen in src/a1.rs.", "Seen in src/b2.rs.", false);
        check("Die Daten liegen im Speicher.", "Die Daten liegen im Gedächtnis.", false);
        check("Keep The Session Token Safe", "Keep The Login Token Safe", false);
        check("", "Not at all.", false);
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(DENIALS.is_sorted() && BREAKS.is_sorted() && GERMAN_SIGNS.is_sorted());
    }

    proptest! {
        #[test]
        fn no_text_opposes_itself(title in "\\PC{0,20}", body in "([Nn]o|not|7070|Redis|JWT|a_b|it|und|[.,;:]|\\PC{0,4}| ){0,20}") {
            prop_assert!(!are_opposed((&title, &body), (&title, &body)));
        }
    }
}
