//! What a request has to bring: a word that only the user and the user's clients know.

use rawko_core::text::hex;
use subtle::ConstantTimeEq as _;

/// The shortest token that a user may choose, in bytes.
const SHORTEST: usize = 16;

/// A token. Its text is not printed.
#[derive(Clone)]
pub struct McpToken(String);

/// Why a text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpTokenError {
    /// It could be guessed.
    Short,
    /// A header cannot hold it.
    Form,
    /// The system gave no random bytes.
    NoRandomness,
}

impl std::fmt::Display for McpTokenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Short => write!(f, "it is shorter than {SHORTEST} characters"),
            Self::Form => f.write_str("it has other characters than visible ones of ASCII"),
            Self::NoRandomness => f.write_str("the system gives no random bytes"),
        }
    }
}

impl std::error::Error for McpTokenError {}

impl McpToken {
    /// The token of the user's choice.
    ///
    /// # Errors
    /// If it is too short, or no header can hold it.
    pub fn new(text: &str) -> Result<Self, McpTokenError> {
        match text.trim() {
            text if !text.bytes().all(|byte| byte.is_ascii_graphic()) => Err(McpTokenError::Form),
            text if text.len() < SHORTEST => Err(McpTokenError::Short),
            text => Ok(Self(text.to_owned())),
        }
    }

    /// A new one.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn generate() -> Result<Self, McpTokenError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| McpTokenError::NoRandomness)?;
        Ok(Self(hex(&bytes)))
    }

    /// Its text, for the user's eyes.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it is this one. Takes as long for any text of the same length.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        given.ct_eq(self.0.as_bytes()).into()
    }
}

impl std::fmt::Debug for McpToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("McpToken([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_is_not_printed() {
        assert_eq!(McpToken::new("short").unwrap_err(), McpTokenError::Short);
        assert_eq!(McpToken::new("a token with spaces").unwrap_err(), McpTokenError::Form);
        let token = McpToken::new(" 0123456789abcdef\n").unwrap();
        assert!(token.is(b"0123456789abcdef") && !token.is(b"0123456789abcdeF") && !token.is(b""));
        assert!(!format!("{token:?}").contains("0123"));
        let (one, other) = (McpToken::generate().unwrap(), McpToken::generate().unwrap());
        assert!(one.reveal().len() == 64 && !one.is(other.reveal().as_bytes()));
    }
}
