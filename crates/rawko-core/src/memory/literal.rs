//! What must occur in a text before a regular expression can match it.
//!
//! An index over thousands of patterns asks this once a pattern, so that only those are compiled whose words are there. The answer is
//! a set of texts of which one must occur, in ASCII and lower case; or nothing, where no such set is worth looking
//! for. It may never leave out a text that matches: `tests` hold that against the expressions themselves.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

/// Most alternatives that are followed.
const MAX_ALTERNATIVES: usize = 16;
/// Bytes that a text must have to be worth looking for.
const MIN_BYTES: usize = 2;

/// Texts of which one occurs, with ASCII in lower case, in every text that `regex` (read without regard to case) matches.
/// `None` where there is no such set, or the expression is none.
#[must_use]
pub fn required_literals(regex: &str) -> Option<Vec<String>> {
    let hir = ParserBuilder::new().nest_limit(50).build().parse(regex).ok()?;
    let mut found = any_of(&hir)?;
    found.sort();
    found.dedup();
    Some(found)
}

fn any_of(hir: &Hir) -> Option<Vec<String>> {
    match hir.kind() {
        HirKind::Literal(literal) => longest_ascii_run(&literal.0).map(|run| vec![run]),
        HirKind::Capture(capture) => any_of(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => any_of(&repetition.sub),
        // Each part must match: the one whose shortest text is longest tells most.
        HirKind::Concat(parts) => parts.iter().filter_map(any_of).max_by_key(|set| worth(set)),
        HirKind::Alternation(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(any_of(part)?);
                if all.len() > MAX_ALTERNATIVES {
                    return None;
                }
            }
            Some(all)
        }
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) | HirKind::Repetition(_) => None,
    }
}

/// The shortest text first, then few alternatives.
fn worth(set: &[String]) -> (usize, usize) {
    (set.iter().map(String::len).min().unwrap_or_default(), MAX_ALTERNATIVES.saturating_sub(set.len()))
}

/// Other characters have relatives by case that are not one to one.
fn longest_ascii_run(bytes: &[u8]) -> Option<String> {
    let runs = bytes.split(|byte| !byte.is_ascii());
    let longest = runs.max_by_key(|run| run.len()).filter(|run| run.len() >= MIN_BYTES)?;
    String::from_utf8(longest.to_ascii_lowercase()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::words::fold;
    use proptest::prelude::*;

    #[test]
    fn the_most_telling_part_is_taken() {
        let check = |regex: &str, expected: Option<&[&str]>| {
            let expected = expected.map(|texts| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>());
            assert_eq!(required_literals(regex), expected, "{regex}");
        };
        check("implement.*auth", Some(&["implement"]));
        check("auth|login|security", Some(&["auth", "login", "security"]));
        check("(OAuth|SSO).{0,5}flow", Some(&["flow"]));
        check("(?:abc){2,}x*", Some(&["abc"]));
        check("naïve", Some(&["ve"]));
        check("(?:test)?", None);
        check(".*", None);
        check("auth|.*", None);
        check(r"\d+", None);
        check("(", None);
    }

    proptest! {
        #[test]
        fn what_matches_holds_one_of_them(
            regex in "[abkKsS|.*+?()éſ]{0,10}",
            text in "[abkKsSéÉſ\u{212a}]{0,10}",
        ) {
            let matches = regex::RegexBuilder::new(&regex).case_insensitive(true).build()
                .is_ok_and(|compiled| compiled.is_match(&text));
            if let (true, Some(literals)) = (matches, required_literals(&regex)) {
                let folded = fold(&text);
                prop_assert!(literals.iter().any(|literal| folded.contains(literal)), "{regex} {text} {literals:?}");
            }
        }
    }
}
