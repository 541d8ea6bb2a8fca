//! API keys: stored, sent, and never shown.
//!
//! Owns the only type that may hold a key. It cannot be printed, serialized or compared.

use std::fmt;

pub use rawko_core::text::REDACTED;

use crate::placeholder::is_worth_hiding;

/// A key. Prints as `[redacted]`; only this crate can read it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Stores the key, without the white space that files and shells leave around it.
    #[must_use]
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().to_owned())
    }

    /// The key itself, for its header.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of the secret replaced by [`REDACTED`]; unchanged if the secret is not
    /// [worth hiding](is_worth_hiding).
    pub(crate) fn redact(&self, text: &str) -> String {
        if is_worth_hiding(&self.0) { self.redact_always(text) } else { text.to_owned() }
    }

    /// `text` with every occurrence of the secret replaced, whatever it is: for passwords, which may be short.
    pub(crate) fn redact_always(&self, text: &str) -> String {
        // An empty pattern would match between any two characters.
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, REDACTED) }
    }
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
        assert_eq!(secret.redact("bad key sk-canary-9f31c0d7."), "bad key [redacted].");
        assert_eq!(Secret::new("test").redact("the tester tests"), "the tester tests");
        assert_eq!(Secret::new("test").redact_always("no test"), "no [redacted]");
        assert_eq!(Secret::new("").redact_always("no test"), "no test");
    }
}
