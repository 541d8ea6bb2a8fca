//! Finds patterns that their author most likely did not mean. Such a pattern keeps its reading, and is reported.
//!
//! A pattern that can never match, one that matches every text, and a sentence that one character makes an expression.
//! The search costs more than matching does, so it runs only on request.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind, Look};

use super::reading::Reading;

/// Words from which on a pattern is a sentence.
const SENTENCE: usize = 3;

/// Whether what `matches` does so whatever the text is.
pub(super) fn is_everything(matches: impl Fn(&str) -> bool) -> bool {
    matches("") || ('a'..='z').all(|c| matches(c.encode_utf8(&mut [0; 4])))
}

/// Whether no text of one line matches the whole of `expression`.
pub(super) fn is_nothing(expression: &str) -> bool {
    let hir = ParserBuilder::new().nest_limit(50).build().parse(expression);
    hir.is_ok_and(|hir| is_never(&hir))
}

/// What is doubtful about a pattern that is compiled to `expression` and `matches` texts.
pub(super) fn doubt(
    text: &str,
    reading: Reading,
    expression: &str,
    matches: impl Fn(&str) -> bool,
) -> Option<String> {
    let mend = "say in words when it is of use";
    if matches("") {
        return Some(format!("matches every text, because it matches an empty one; {mend}"));
    }
    if matches("q") && ('a'..='z').all(|c| matches(c.encode_utf8(&mut [0; 4]))) {
        return Some(format!("matches every text, because any character will do; {mend}"));
    }
    match reading {
        Reading::Glob => question(text),
        Reading::Regex => never(text, expression).or_else(|| sentence(text)),
        Reading::Substring | Reading::Prefix | Reading::Words => None,
    }
}

/// "Why does the build fail?" is no glob.
fn question(text: &str) -> Option<String> {
    let asked = text.trim_end_matches('?');
    let is_sentence = asked.split_whitespace().count() >= SENTENCE && !asked.contains(['*', '?']);
    is_sentence.then(|| {
        format!(
            "ends with `?`, which is any one character here, and must occur word for word; write `{}`",
            asked.trim_end()
        )
    })
}

fn never(text: &str, expression: &str) -> Option<String> {
    // Nothing else can do it, and reading an expression costs more than looking.
    if !expression.contains(['$', '^', '\\']) {
        return None;
    }
    let can_never = |expression: &str| {
        let hir = ParserBuilder::new().nest_limit(50).build().parse(expression).ok()?;
        Some(match hir.kind() {
            HirKind::Alternation(parts) => parts.iter().any(is_never),
            _ => is_never(&hir),
        })
    };
    if !can_never(expression)? {
        return None;
    }
    let escaped = escaped(text);
    Some(if can_never(&escaped) == Some(false) {
        format!(
            "can never match, or a part of it cannot: `$` is the end of the text and `^` its beginning; for the characters themselves \
             write `{escaped}`"
        )
    } else {
        "can never match, or a part of it cannot".to_owned()
    })
}

/// With `$` and `^` as themselves, but for those in a class (`[^a]`).
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 4);
    let (mut is_escaped, mut in_class) = (false, false);
    for c in text.chars() {
        if !is_escaped {
            in_class = c == '[' || (in_class && c != ']');
        }
        if matches!(c, '$' | '^') && !is_escaped && !in_class {
            escaped.push('\\');
        }
        is_escaped = c == '\\' && !is_escaped;
        escaped.push(c);
    }
    escaped
}

/// "When adding a login (OAuth)" is no expression.
fn sentence(text: &str) -> Option<String> {
    let is_expression = text.contains(['|', '\\', '[', '{', '^', '$', '*', '?']) || text.contains(".+");
    let repeats =
        text.contains(")+") || text.char_indices().any(|(at, c)| c == '+' && !text[..at].ends_with(' '));
    if is_expression || repeats || text.split_whitespace().count() < SENTENCE {
        return None;
    }
    let sign = if text.contains('(') { "( )" } else { "+" };
    let plain = text.replace(['(', ')', '+'], " ");
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(format!(
        "is a regular expression because of `{sign}`, and must occur word for word; write `{plain}`"
    ))
}

/// Whether no text of one line matches.
fn is_never(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) | HirKind::Look(_) => false,
        HirKind::Class(_) => hir.properties().minimum_len().is_none(),
        HirKind::Repetition(repetition) => repetition.min > 0 && is_never(&repetition.sub),
        HirKind::Capture(capture) => is_never(&capture.sub),
        HirKind::Alternation(parts) => parts.iter().all(is_never),
        HirKind::Concat(parts) => {
            let takes = |part: &Hir| part.properties().minimum_len().is_some_and(|least| least > 0);
            parts.iter().any(is_never)
                || parts.iter().enumerate().any(|(at, part)| {
                    (is_at(part, is_end) && parts[at + 1..].iter().any(takes))
                        || (is_at(part, is_start) && parts[..at].iter().any(takes))
                })
        }
    }
}

/// Whether whatever matches `hir` touches the end (or the beginning) of the text.
fn is_at(hir: &Hir, edge: fn(Look) -> bool) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => false,
        HirKind::Look(look) => edge(*look),
        HirKind::Repetition(repetition) => repetition.min > 0 && is_at(&repetition.sub, edge),
        HirKind::Capture(capture) => is_at(&capture.sub, edge),
        HirKind::Alternation(parts) => parts.iter().all(|part| is_at(part, edge)),
        HirKind::Concat(parts) => parts.iter().any(|part| is_at(part, edge)),
    }
}

/// Patterns are matched against one line.
fn is_end(look: Look) -> bool {
    matches!(look, Look::End | Look::EndLF | Look::EndCRLF)
}

fn is_start(look: Look) -> bool {
    matches!(look, Look::Start | Look::StartLF | Look::StartCRLF)
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Pattern;
    use super::super::query::Query;
    use proptest::prelude::*;

    #[track_caller]
    fn check(pattern: &str, part: Option<&str>) {
        let read = Pattern::read(pattern);
        let problem = read.problem();
        // Of alternatives one that can match is enough.
        let says_so = |problem: &String| {
            problem.starts_with("matches every text")
                || (problem.starts_with("can never") && !pattern.contains('|'))
        };
        assert_eq!(read.tells_nothing(), problem.as_ref().is_some_and(says_so), "{pattern}");
        match part {
            Some(part) => assert!(
                problem.as_ref().is_some_and(|problem| problem.contains(part)),
                "{pattern}: {problem:?}"
            ),
            None => assert_eq!(problem, None, "{pattern}"),
        }
    }

    #[test]
    fn a_doubtful_pattern_is_reported() {
        check(
            "costs $5",
            Some(
                r"can never match, or a part of it cannot: `$` is the end of the text and `^` its beginning; for the characters themselves write `costs \$5`",
            ),
        );
        check("auth|costs $5", Some(r"write `auth|costs \$5`"));
        check("(a$)b", Some("can never match"));
        check("a^b", Some(r"`a\^b`"));
        check(r"[^\s\S]", Some("can never match, or a part of it cannot"));
        check(r"$[^a]", Some(r"write `\$[^a]`"));
        for everything in ["*", "?", ".*", "**", ".+", "$|x", "^", "(auth)?", "[a-z]", r"\w+"] {
            check(everything, Some("matches every text"));
        }
        check("Why does the build fail?", Some("write `Why does the build fail`"));
        check("when adding a login (OAuth)", Some("write `when adding a login OAuth`"));
        check("a login + a logout", Some("write `a login a logout`"));
    }

    #[test]
    fn a_plain_pattern_is_not_reported() {
        for pattern in [
            "auth|login",
            "^fix the build$",
            "(OAuth)",
            "C++",
            "rese?",
            "pass*reset",
            "log(in|out) of users",
            "cost.{0,3}of",
            r"costs \$5",
            "x|",
            "what is (really )?new here",
            "auth.+login",
            "a{2}$",
            "(^|x)y",
            "it takes a+ b",
        ] {
            check(pattern, None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn what_can_never_match_never_does(pattern in "[ab$^()|.*+?]{1,8}", text in "[ab ]{0,6}") {
            let read = Pattern::read(&pattern);
            // A statement about a part holds for the whole if there is only one part.
            let is_never = !pattern.contains('|') && read.problem().is_some_and(|problem| problem.starts_with("can never"));
            let query = Query::new(&text, "a", None);
            prop_assert!(!(is_never && read.matches(&query).is_some()), "{}", pattern);
        }
    }
}
