//! Whether a text holds something of the form of a key or token. Such a text becomes no memory, because memories are
//! committed.

use std::sync::LazyLock;

use regex::Regex;

/// Forms of well-known keys, with what comes before them in texts.
static FORMS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        r"-----BEGIN [A-Z ]*PRIVATE KEY",
        r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"\b(?:hf|npm|pypi)[_-][A-Za-z0-9_-]{24,}",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.",
        r"://[^/\s:@]+:[^/\s:@]{4,}@",
    ];
    Regex::new(&forms.join("|")).ok()
});

/// Fewest characters of a word that is taken for a key because a person would not write it.
const RANDOM: usize = 32;

/// Whether the text holds something of the form of a key or token.
#[must_use]
pub fn holds_token(text: &str) -> bool {
    FORMS.as_ref().is_some_and(|forms| forms.is_match(text))
        || text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '+' | '=')).any(is_random)
}

/// Letters of both cases and digits in one long word. A digest in hexadecimal is none, nor is a long name.
fn is_random(word: &str) -> bool {
    let count = |is: fn(&char) -> bool| word.chars().filter(is).count();
    let digits = count(char::is_ascii_digit);
    word.len() >= RANDOM
        && digits >= 3
        && count(char::is_ascii_uppercase) >= 3
        && count(char::is_ascii_lowercase) >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_the_form_of_a_key_is_found() {
        let check = |text: &str, expected: bool| assert_eq!(holds_token(text), expected, "{text}");
        check(&format!("Use sk-ant-{} for it", "a1".repeat(12)), true);
        check(&format!("token ghp_{}", "aB3".repeat(12)), true);
        check(&format!("AKIA{}", "A1B2".repeat(4)), true);
        check("-----BEGIN RSA PRIVATE KEY-----", true);
        check("postgres://app:hunter22@db/app", true);
        check(&format!("the key is {}", "aB3xZ9".repeat(6)), true);
        check("commit 3f786850e387550fdab836ed7e6dc881de23001b", false);
        check("see crates/rawko-core/src/memory/evidence.rs and http://localhost:8080/x", false);
        check("sk-learn is a library; ask-me-anything-about-this-long-topic", false);
        check("AVeryLongNameOfATestThatSomebodyWroteOnce", false);
    }
}
