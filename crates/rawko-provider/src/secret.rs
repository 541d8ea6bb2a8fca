//! API keys: stored, sent, and never shown.
//!
//! Owns the only type that may hold a key. It cannot be printed, serialized or compared.

use std::fmt;
use std::ops::Range;

pub use rawko_core::text::REDACTED;

use crate::placeholder::is_worth_hiding;

/// A key. Prints as `[redacted]`; only code that sends it should read it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Stores the key, without the white space that files and shells leave around it.
    #[must_use]
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().to_owned())
    }

    /// The key itself, for the one place that sends it: a header, or the environment of a provider's own program. Never for
    /// a log, an error or an argument of a program.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Where the secret is in `text`; nowhere if it is not [worth hiding](is_worth_hiding).
    #[must_use]
    pub fn found_in(&self, text: &str) -> Vec<Range<usize>> {
        if is_worth_hiding(&self.0) { self.found_always(text) } else { Vec::new() }
    }

    /// Where the secret is in `text`, whatever it is: for passwords, which may be short.
    pub(crate) fn found_always(&self, text: &str) -> Vec<Range<usize>> {
        // An empty pattern would match between any two characters.
        let found = text.match_indices(&self.0).filter(|(_, found)| !found.is_empty());
        found.map(|(at, found)| at..at + found.len()).collect()
    }
}

/// `text` with [`REDACTED`] in these places, which do not overlap.
#[must_use]
pub fn without(text: &str, places: &[Range<usize>]) -> String {
    let mut text = text.to_owned();
    for place in places.iter().rev() {
        text.replace_range(place.clone(), REDACTED);
    }
    text
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_never_shown() {
        let secret = Secret::new("  sk-canary-9f31c0d7\n");
        assert_eq!(format!("{secret} {secret:?}"), "[redacted] [redacted]");
        assert_eq!(secret.expose(), "sk-canary-9f31c0d7");
        let text = "bad key sk-canary-9f31c0d7.";
        assert_eq!(without(text, &secret.found_in(text)), "bad key [redacted].");
        assert!(Secret::new("test").found_in("the tester tests").is_empty());
        assert_eq!(without("no test", &Secret::new("test").found_always("no test")), "no [redacted]");
        assert!(Secret::new("").found_always("no test").is_empty());
    }
}
