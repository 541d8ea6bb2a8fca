//! Whether two texts that have most of their words in common say opposite things all the same.
//!
//! Two signs of it, both by words: one denies something and the other nothing, or each has a number or a name that the other lacks. Where it
//! is in doubt they are opposed: a memory too many costs a line.

use std::collections::BTreeSet;

use super::words::fold;

/// English words that deny.
const DENIALS: [&str; 8] = ["avoid", "cannot", "never", "no", "none", "nor", "not", "without"];

/// Whether two texts, each of title and body, are opposed.
pub(super) fn are_opposed(one: (&str, &str), other: (&str, &str)) -> bool {
    let (ours, theirs) = (Signs::of(one), Signs::of(other));
    ours.denies != theirs.denies
        || (!ours.values.is_subset(&theirs.values) && !theirs.values.is_subset(&ours.values))
}

struct Signs {
    denies: bool,
    /// Numbers and names.
    values: BTreeSet<String>,
}

impl Signs {
    fn of((title, body): (&str, &str)) -> Self {
        let mut signs = Self { denies: false, values: BTreeSet::new() };
        for text in [title, body] {
            let mut begins = true;
            for token in text.split_whitespace() {
                let word = token.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
                let folded = fold(word).replace('’', "'");
                signs.denies |= folded.ends_with("n't") || DENIALS.contains(&folded.as_str());
                // Paths are evidence, which differs from run to run.
                let has_sign = |c: char| c.is_ascii_digit() || matches!(c, '_' | ':');
                let is_name =
                    word.contains(has_sign) || word.chars().skip(usize::from(begins)).any(char::is_uppercase);
                if is_name && !token.contains('/') {
                    signs.values.insert(folded);
                }
                begins = token.ends_with(['.', ':', '!', '?']);
            }
        }
        signs
    }
}

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
        check("Do not use floats for money.", "Avoid floats for money.", false);
        check("The server listens on port 7070.", "Port 8080 is where the server listens.", true);
        check("The server listens on port 7070.", "Port 7070 is where the server listens.", false);
        check("The server listens on port 7070.", "The server listens on 7070 and 8080.", false);
        check("Set PORT_A before the tests.", "Set PORT_B before the tests.", true);
        check("It is kept in Redis.", "It is kept in Postgres.", true);
        check("It is kept in Redis.", "It is kept in a Redis.", false);
        check("Never use floats, use integers.", "Use integers and no floats.", false);
        // Evidence differs from run to run: paths are no values.
        check("Seen in src/a1.rs.", "Seen in src/b2.rs.", false);
    }

    proptest! {
        #[test]
        fn no_text_opposes_itself(title in "\\PC{0,20}", body in "([Nn]o|not|7070|Redis|JWT|a_b|it|und|[.,;:]|\\PC{0,4}| ){0,20}") {
            prop_assert!(!are_opposed((&title, &body), (&title, &body)));
        }
    }
}
