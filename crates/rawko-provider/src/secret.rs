//! API keys: held, sent, and never shown.
//!
//! Owns the only type in the project that a key may live in. It refuses to print, to serialize and to be compared.

use std::fmt;

/// What stands for a secret wherever it would be shown.
pub const REDACTED: &str = "[redacted]";

/// Shorter secrets are not searched for in texts: replacing every `a` would make them unreadable and hide nothing.
const SHORTEST_SEARCHED: usize = 4;

/// A key. Prints as `[redacted]`; only this crate can read it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes the key, without the white space that files and shells leave around it.
    #[must_use]
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().trim().to_owned())
    }

    /// The key in the environment variable `name`; `None` where it is unset, not Unicode or blank.
    #[must_use]
    pub fn from_env(name: &str) -> Option<Self> {
        let secret = Self::new(std::env::var(name).ok()?);
        (!secret.0.is_empty()).then_some(secret)
    }

    /// The key itself, for the one header it goes into.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of the secret replaced by [`REDACTED`].
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        if self.0.len() < SHORTEST_SEARCHED { text.to_owned() } else { text.replace(&self.0, REDACTED) }
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
        let secret = Secret::new("  sk-canary-123\n");
        assert_eq!(format!("{secret} {secret:?}"), "[redacted] [redacted]");
        assert_eq!(secret.expose(), "sk-canary-123");
        assert_eq!(secret.redact("bad key sk-canary-123."), "bad key [redacted].");
        assert_eq!(Secret::new("ab").redact("abba"), "abba");
    }
}
