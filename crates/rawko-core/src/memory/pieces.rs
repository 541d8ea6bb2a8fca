//! Expressions that are so simple that they need no engine: texts with any run of characters between them, and alternatives of these.
//!
//! Most patterns are of this kind (`auth|login`, `implement.*auth`, `fix * test`), there may be thousands of them, and
//! compiling one costs a hundred times what looking for its texts does. It matches exactly what the expression matches:
//! the tests compare the two.

use super::words::fold;

/// Alternatives, each of texts that must occur one after the other, with case made equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pieces {
    alternatives: Vec<Vec<String>>,
}

impl Pieces {
    /// `None` where the expression is not of this kind. Characters beyond ASCII have relatives by case that are not one to one.
    pub(super) fn of(expression: &str) -> Option<Self> {
        let alternatives: Option<Vec<Vec<String>>> = expression
            .split('|')
            .map(|alternative| {
                let pieces = alternative.split(".*");
                pieces.map(|piece| is_plain(piece).then(|| fold(piece))).collect()
            })
            .collect();
        alternatives.map(|alternatives| Self { alternatives })
    }

    /// Where it matches first in a line with case made equal, and up to where, in bytes.
    pub(super) fn find(&self, folded: &str) -> Option<(usize, usize)> {
        let places = self.alternatives.iter().filter_map(|pieces| find(pieces, folded));
        // Of those that begin at the same place the first one wins, as in an expression.
        places.min_by_key(|(start, _)| *start)
    }
}

fn find(pieces: &[String], folded: &str) -> Option<(usize, usize)> {
    let (first, rest) = pieces.split_first()?;
    let start = folded.find(first.as_str())?;
    let mut at = start + first.len();
    for piece in rest {
        at += folded[at..].find(piece.as_str())? + piece.len();
    }
    // `.*` takes as much as it can.
    let end = match rest.last() {
        Some(last) => folded.rfind(last.as_str()).map_or(at, |found| at.max(found + last.len())),
        None => at,
    };
    Some((start, end))
}

fn is_plain(text: &str) -> bool {
    text.is_ascii() && !text.contains(['\\', '[', ']', '(', ')', '{', '}', '+', '*', '?', '^', '$', '.', '|'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_simplest_are() {
        for simple in ["auth|login", "implement.*auth", "a b|c.*d.*", "", "-/#&~"] {
            assert!(Pieces::of(simple).is_some(), "{simple}");
        }
        for other in ["a.b", "a?", "(a)", "naïve", "a+", r"\d", "a.{2}b", "a*", "a.*?b", "^a", "a{"] {
            assert!(Pieces::of(other).is_none(), "{other}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn they_mean_what_the_expression_means(expression in "([abkS -]|\\.\\*|\\|){0,8}", text in "[abkKsSéſ\u{212a} -]{0,12}") {
            let Some(pieces) = Pieces::of(&expression) else { return Ok(()) };
            let regex = regex::RegexBuilder::new(&expression).case_insensitive(true).build().unwrap();
            let folded = fold(&text);
            let chars = |end: usize, text: &str| text[..end].chars().count();
            let by_pieces = pieces.find(&folded).map(|(start, end)| (chars(start, &folded), chars(end, &folded)));
            let by_regex = regex.find(&text).map(|found| (chars(found.start(), &text), chars(found.end(), &text)));
            let start = |found: Option<(usize, usize)>| found.map(|(start, _)| start);
            prop_assert_eq!(start(by_pieces), start(by_regex), "{} {}", expression, text);
            // Of two alternatives that begin alike (`.*-|.*s`) the engine makes one, and then takes the longer match.
            if !expression.contains('|') {
                prop_assert_eq!(by_pieces, by_regex, "{} {}", expression, text);
            }
            prop_assert_eq!(pieces.find("").is_some(), regex.is_match(""));
        }
    }
}
