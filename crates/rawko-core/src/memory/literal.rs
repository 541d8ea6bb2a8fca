//! The literals that a text must contain for a regular expression to match it.
//!
//! So a search compiles only expressions that can match. The answer is sets of texts, in ASCII and lower case, of each of which one must occur; or none, where no set is worth searching for. It may never leave out a text that
//! matches: the tests compare it with the expressions themselves.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

/// Most alternatives that are followed.
const MAX_ALTERNATIVES: usize = 16;
/// Bytes that a text must have to be worth looking for.
const MIN_BYTES: usize = 2;

/// Sets of texts, with ASCII in lower case: of each set one occurs in every text that `regex` (read without regard to case)
/// matches. None where nothing is known, or the expression is none.
#[must_use]
pub(super) fn required_literals(regex: &str) -> Vec<Vec<String>> {
    let Ok(hir) = ParserBuilder::new().nest_limit(50).build().parse(regex) else { return Vec::new() };
    let mut sets = all_of(&hir);
    for set in &mut sets {
        set.sort();
        set.dedup();
    }
    sets.sort();
    sets.dedup();
    sets.truncate(MAX_ALTERNATIVES);
    sets
}

fn all_of(hir: &Hir) -> Vec<Vec<String>> {
    match hir.kind() {
        HirKind::Literal(literal) => longest_ascii_run(&literal.0).map(|run| vec![run]).into_iter().collect(),
        HirKind::Capture(capture) => all_of(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => all_of(&repetition.sub),
        HirKind::Concat(parts) => parts.iter().flat_map(all_of).collect(),
        HirKind::Alternation(parts) => {
            let mut any = Vec::new();
            for part in parts {
                // Of each alternative the set whose shortest text is longest: it selects most.
                let Some(best) = all_of(part).into_iter().max_by_key(|set| worth(set)) else {
                    return Vec::new();
                };
                any.extend(best);
                if any.len() > MAX_ALTERNATIVES {
                    return Vec::new();
                }
            }
            vec![any]
        }
        HirKind::Empty | HirKind::Class(_) | HirKind::Look(_) | HirKind::Repetition(_) => Vec::new(),
    }
}

/// The shortest text first, then few alternatives.
fn worth(set: &[String]) -> (usize, usize) {
    (set.iter().map(String::len).min().unwrap_or_default(), MAX_ALTERNATIVES.saturating_sub(set.len()))
}

/// Characters beyond ASCII have relatives by case that are not one to one; control characters separate these texts where they are kept.
fn longest_ascii_run(bytes: &[u8]) -> Option<String> {
    let runs = bytes.split(|byte| !byte.is_ascii() || byte.is_ascii_control());
    let longest = runs.max_by_key(|run| run.len()).filter(|run| run.len() >= MIN_BYTES)?;
    String::from_utf8(longest.to_ascii_lowercase()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::words::fold;
    use proptest::prelude::*;

    #[test]
    fn required_literals_are_found() {
        let check =
            |regex: &str, expected: &[&[&str]]| assert_eq!(required_literals(regex), expected, "{regex}");
        check("implement.*auth", &[&["auth"], &["implement"]]);
        check("auth|login|security", &[&["auth", "login", "security"]]);
        check("(OAuth|SSO).{0,5}flow", &[&["flow"], &["oauth", "sso"]]);
        check("(?:abc){2,}x*", &[&["abc"]]);
        check("naïve", &[&["ve"]]);
        check("(?:test)?", &[]);
        check(".*", &[]);
        check("auth|.*", &[]);
        check(r"\d+", &[]);
        check("(", &[]);
    }

    proptest! {
        #[test]
        fn what_matches_holds_one_of_them(
            regex in "[abkKsS|.*+?()éſ]{0,10}",
            text in "[abkKsSéÉſ\u{212a}]{0,10}",
        ) {
            let matches = regex::RegexBuilder::new(&regex).case_insensitive(true).build()
                .is_ok_and(|compiled| compiled.is_match(&text));
            let folded = fold(&text);
            for set in required_literals(&regex).iter().filter(|_| matches) {
                prop_assert!(set.iter().any(|literal| folded.contains(literal)), "{regex} {text} {set:?}");
            }
        }
    }
}
