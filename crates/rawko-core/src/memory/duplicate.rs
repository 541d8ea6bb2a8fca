//! Whether a new memory repeats a known one, or contradicts it.
//!
//! It compares words and understands nothing. In doubt it keeps both: a memory too many costs a line, one that was
//! taken for a duplicate is lost. So nothing is a duplicate that is of another kind, denies what the other says, or
//! names another number in the same place.

use std::collections::BTreeSet;

use super::contrast::are_opposed;
use super::header::Kind;
use super::words::stems;

/// What a memory says.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    /// A fact, or what not to do.
    pub kind: Kind,
    /// Its title.
    pub title: &'a str,
    /// Its text.
    pub body: &'a str,
}

/// How alike a new memory is to a known one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// About different things.
    Different,
    /// About the same thing, and contradicting it.
    Contrary,
    /// Saying nearly the same under another title.
    Near,
    /// Saying nearly the same under the same title.
    Same,
}

impl Likeness {
    /// Whether the new memory need not be written.
    #[must_use]
    pub fn is_duplicate(self) -> bool {
        match self {
            Self::Near | Self::Same => true,
            Self::Different | Self::Contrary => false,
        }
    }
}

/// Share of words that two bodies have in common, from which on they say nearly the same.
const NEAR_BODY: f64 = 0.7;
/// The same where the titles say the same already: what is left is how it is worded.
const NEAR_BODY_OF_ONE_TITLE: f64 = 0.5;
/// The same for titles, whose few words say less.
const NEAR_TITLE: f64 = 0.8;
/// Share of a new body's words that the known memory has, from which on it adds nothing.
const COVERED: f64 = 0.75;

/// How alike `new` is to `known`. It matters which is which: what adds nothing to the known one is a duplicate, but not the other way round.
#[must_use]
pub fn likeness(new: Said<'_>, known: Said<'_>) -> Likeness {
    let titles = (stems(new.title), stems(known.title));
    let bodies = (stems(new.body), stems(known.body));
    let is_same_title = !titles.0.is_empty() && titles.0 == titles.1;
    let is_like_titled = is_same_title || overlap(&titles.0, &titles.1) >= NEAR_TITLE;
    let body = overlap(&bodies.0, &bodies.1);
    let says_the_same = body >= NEAR_BODY
        || (is_like_titled
            && (body >= NEAR_BODY_OF_ONE_TITLE || is_covered(&bodies.0, &[&bodies.1, &titles.1])));
    if !says_the_same {
        return if is_same_title { Likeness::Contrary } else { Likeness::Different };
    }
    if new.kind != known.kind || are_opposed((new.title, new.body), (known.title, known.body)) {
        Likeness::Contrary
    } else if is_same_title {
        Likeness::Same
    } else {
        Likeness::Near
    }
}

/// Jaccard's index: common words over all words.
#[allow(clippy::cast_precision_loss, reason = "numbers of words")]
fn overlap(one: &BTreeSet<String>, other: &BTreeSet<String>) -> f64 {
    let common = one.intersection(other).count();
    let all = one.len() + other.len() - common;
    if all == 0 { 0.0 } else { common as f64 / all as f64 }
}

/// Whether nearly all of `words` are in one of the others.
#[allow(clippy::cast_precision_loss, reason = "numbers of words")]
fn is_covered(words: &BTreeSet<String>, others: &[&BTreeSet<String>]) -> bool {
    let known = words.iter().filter(|word| others.iter().any(|other| other.contains(*word))).count();
    known as f64 >= words.len() as f64 * COVERED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(new: (&str, &str), known: (&str, &str), expected: Likeness) {
        let said = |(title, body)| Said { kind: Kind::Fact, title, body };
        assert_eq!(likeness(said(new), said(known)), expected, "{new:?} {known:?}");
    }

    const JWT: (&str, &str) =
        ("Project uses JWT authentication", "Tokens are signed with RS256 and live for an hour.");
    const PORT: (&str, &str) = (
        "The integration tests need a free port",
        "The integration tests start a server on port 7070. Seen when `cargo test` failed with EADDRINUSE. Stop the demo before.",
    );

    #[test]
    fn the_same_in_other_words_is_a_duplicate() {
        use Likeness::{Near, Same};
        check(JWT, JWT, Same);
        check(("The project used JWT authentication", "Signed tokens, which live an hour"), JWT, Same);
        check(("JWT", "Signed tokens (RS256) live an hour"), JWT, Near);
        check((PORT.0, ""), PORT, Same);
        // As an extractor says it the second time.
        check(
            (
                "Integration tests need a free port",
                "The server of the integration tests listens on port 7070; `cargo test` failed with EADDRINUSE while the demo ran, so \
                 stop the demo.",
            ),
            PORT,
            Same,
        );
        check(
            ("", "All amounts are integers of cents."),
            ("Money", "All amounts are integers of cents."),
            Near,
        );
        check(
            ("Money is in cents", "Use integers of cents and never floats."),
            ("Money is in cents", "Never use floats; use integers of cents."),
            Same,
        );
    }

    #[test]
    fn what_says_otherwise_is_none() {
        use Likeness::{Contrary, Different};
        check(
            ("Project uses SAML authentication", "Assertions come from the company's server."),
            JWT,
            Different,
        );
        check((JWT.0, "Sessions are kept in the database, and a cookie names them."), JWT, Contrary);
        // Other numbers and names in the same place.
        check(
            (
                PORT.0,
                "The integration tests start a server on port 8080. Seen when `cargo test` failed with EADDRINUSE. Stop the demo before.",
            ),
            PORT,
            Contrary,
        );
        check(
            ("Node", "Build with Node 18, not with older ones."),
            ("Node", "Build with Node 20, not with older ones."),
            Contrary,
        );
        check(
            ("Sessions are kept in Redis", "They live for an hour behind the gateway."),
            ("Sessions are kept in Postgres", "They live for an hour behind the gateway."),
            Contrary,
        );
        check((JWT.0, "Tokens are signed with `HS256` and live for an hour."), JWT, Contrary);
        // What the one denies.
        let parallel = ("Tests in parallel", "The tests can be run in parallel.");
        check((parallel.0, "The tests cannot be run in parallel."), parallel, Contrary);
        check((parallel.0, "The tests can no longer be run in parallel."), parallel, Contrary);
        check(parallel, (parallel.0, "The tests can't be run in parallel."), Contrary);
        check(
            ("Cache", "The cache is safe to share."),
            ("Cache", "The cache is not safe to share."),
            Contrary,
        );
        check(
            ("Der Cache", "Der Cache darf nicht geteilt werden."),
            ("Der Cache", "Der Cache darf geteilt werden."),
            Contrary,
        );
        let network = "The integration tests need the network. Do not start them on a plane.";
        check(("Network", &network.replace("the network", "no network")), ("Network", network), Contrary);
        check(("", ""), ("", ""), Different);
    }

    #[test]
    fn another_kind_is_another_memory() {
        let fact = Said { kind: Kind::Fact, title: JWT.0, body: JWT.1 };
        assert_eq!(likeness(Said { kind: Kind::Avoid, ..fact }, fact), Likeness::Contrary);
        assert_eq!(likeness(fact, Said { kind: Kind::Avoid, ..fact }), Likeness::Contrary);
    }

    #[test]
    fn a_memory_with_more_than_the_known_one_is_written() {
        let known = ("Deploying", "Deploy with the script.");
        let more = "Deploy with the script. It asks for a token from the vault, uploads both archives and waits for the health check.";
        check(("Deploying", more), known, Likeness::Contrary);
        check(known, ("Deploying", more), Likeness::Same);
    }
}
