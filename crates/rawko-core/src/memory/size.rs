//! Whether a regular expression is plainly too large, without compiling it as far as the limit.
//!
//! Owns a bound from below: what is refused here, the compiler refuses too, after a hundred times the work. What is not
//! refused may still be too large.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

/// Bytes that the compiler counts for a state, at least.
const STATE: u64 = 24;

/// Whether compiling it takes more than `limit` bytes for certain.
pub(super) fn is_surely_larger(expression: &str, limit: usize) -> bool {
    // Nothing else makes much of few characters that can be known without compiling.
    if !expression.contains('{') {
        return false;
    }
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    let parsed = ParserBuilder::new().nest_limit(50).build().parse(expression);
    parsed.is_ok_and(|hir| states(&hir).saturating_mul(STATE) > limit)
}

/// Fewer states than these it has not.
fn states(hir: &Hir) -> u64 {
    match hir.kind() {
        HirKind::Empty => 0,
        HirKind::Literal(literal) => u64::try_from(literal.0.len()).unwrap_or(u64::MAX),
        HirKind::Class(_) | HirKind::Look(_) => 1,
        HirKind::Capture(capture) => states(&capture.sub),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(0).max(repetition.min);
            states(&repetition.sub).saturating_mul(u64::from(times))
        }
        HirKind::Concat(parts) => parts.iter().map(states).fold(0, u64::saturating_add),
        // Alternatives may share what they have in common.
        HirKind::Alternation(parts) => parts.iter().map(states).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::RegexBuilder;

    const LIMIT: usize = 16 * 1024;

    fn is_refused(expression: &str, limit: usize) -> bool {
        let built = RegexBuilder::new(expression).case_insensitive(true).size_limit(limit).build();
        matches!(built, Err(regex::Error::CompiledTooBig(_)))
    }

    #[test]
    fn what_multiplies_is_seen() {
        for (expression, is_large) in [
            ("(((x{1,99}){1,99}){1,99}){1,99}", true),
            ("((a{99}){99}){99}", true),
            ("(?:abcd{0,900}){0,900}", true),
            ("x{30000}", true),
            ("a{3}", false),
            (".{0,5}", false),
            ("(a{9}){9}|(b{9}){9}", false),
            ("(", false),
            ("a{", false),
        ] {
            assert_eq!(is_surely_larger(expression, 512 * 1024), is_large, "{expression}");
            assert!(!is_large || is_refused(expression, 512 * 1024), "{expression}");
        }
    }

    proptest! {
        #[test]
        fn what_is_refused_here_is_refused_there(
            expression in "(\\(|\\)|a|kK|ſ|\\||\\?|\\[x-z\\]|\\^|\\{0,40\\}|\\{99\\}|\\{7,\\}){1,9}",
        ) {
            if is_surely_larger(&expression, LIMIT) {
                prop_assert!(is_refused(&expression, LIMIT), "{}", expression);
            }
        }
    }
}
