//! Whether two memories say the same: what is not worth writing again.
//!
//! A judgement by words. It looks at title and body; `Same` is what nobody needs twice, `Different` leaves both.

use std::collections::BTreeSet;

use super::words::stems;

/// How alike two memories are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// About different things, or saying different things about one.
    Different,
    /// Saying nearly the same in other words.
    Near,
    /// The same title.
    Same,
}

/// Share of words that two bodies have in common, from which on they say nearly the same.
const NEAR_BODY: f64 = 0.7;
/// The same for titles, whose few words tell less.
const NEAR_TITLE: f64 = 0.8;

/// How alike two memories are: (title, body) each.
#[must_use]
pub fn likeness(one: (&str, &str), other: (&str, &str)) -> Likeness {
    let titles = (stems(one.0), stems(other.0));
    if !titles.0.is_empty() && titles.0 == titles.1 {
        return Likeness::Same;
    }
    let title = overlap(&titles.0, &titles.1);
    let body = overlap(&stems(one.1), &stems(other.1));
    if body >= NEAR_BODY || (title >= NEAR_TITLE && body >= NEAR_BODY / 2.0) {
        Likeness::Near
    } else {
        Likeness::Different
    }
}

/// Jaccard's index: common words over all words.
#[allow(clippy::cast_precision_loss, reason = "numbers of words")]
fn overlap(one: &BTreeSet<String>, other: &BTreeSet<String>) -> f64 {
    let common = one.intersection(other).count();
    let all = one.len() + other.len() - common;
    if all == 0 { 0.0 } else { common as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_in_other_words_is_found() {
        let check = |one, other, expected| assert_eq!(likeness(one, other), expected);
        let jwt = ("Project uses JWT authentication", "Tokens are signed with RS256 and live for an hour.");
        check(jwt, ("The project used JWT authentication", "Something else"), Likeness::Same);
        check(jwt, ("JWT", "Signed tokens (RS256) live an hour"), Likeness::Near);
        check(
            jwt,
            ("Project uses SAML authentication", "Assertions come from the company's server."),
            Likeness::Different,
        );
        check(("", ""), ("", ""), Likeness::Different);
    }
}
