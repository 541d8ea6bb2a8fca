//! Names of objects.

use object_store::path::Path;

use super::error::StoreError;

/// The longest key, and the longest of its parts, in bytes.
const MAX_KEY: usize = 900;
const MAX_PART: usize = 200;

/// A key whose parts are plain names: the same text in every kind of store.
pub(super) fn checked_key(key: &str) -> Result<Path, StoreError> {
    let is_key = key.len() <= MAX_KEY && key.split('/').all(is_part);
    let parsed = is_key.then(|| Path::parse(key).ok()).flatten();
    parsed.ok_or_else(|| {
        let why = "it has parts of letters, digits, `-`, `_`, `=` and `.` that begin with a letter or digit, as in tasks/one";
        bad("key", key, why)
    })
}

/// A part of a key.
pub(super) fn checked_part<'a>(what: &'static str, part: &'a str) -> Result<&'a str, StoreError> {
    let why = "use letters, digits, `-`, `_`, `=` and `.`, as in fix-parser";
    if is_part(part) { Ok(part) } else { Err(bad(what, part, why)) }
}

fn is_part(part: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '=' | '.');
    part.starts_with(|c: char| c.is_ascii_alphanumeric())
        && part.len() <= MAX_PART
        && part.chars().all(is_plain)
}

/// The SHA-256 of a blob.
pub(super) fn checked_hash(hash: &str) -> Result<(), StoreError> {
    let is_hex = |c: u8| c.is_ascii_digit() || matches!(c, b'a'..=b'f');
    let is_hash = hash.len() == 64 && hash.bytes().all(is_hex);
    if is_hash {
        Ok(())
    } else {
        Err(bad("hash of a blob", hash, "it has 64 hexadecimal digits in lower case"))
    }
}

fn bad(what: &'static str, given: &str, why: &'static str) -> StoreError {
    let given: String = given.chars().take(200).collect();
    StoreError::Name { what, given: given.escape_debug().to_string(), why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_nowhere_else() {
        for key in ["tasks/one/result-1", "a", "a.b/c=d_e"] {
            assert_eq!(checked_key(key).unwrap().as_ref(), key);
        }
        let long = "x".repeat(MAX_PART + 1);
        for key in [
            "", "/", "/a", "a/", "a//b", "..", "a/../b", "./a", "a/.b", "a b", "a#1", "a%2e", "ä", "a\0",
            &long,
        ] {
            assert!(checked_key(key).is_err(), "{key}");
        }
        assert!(checked_hash(&"a".repeat(64)).is_ok());
        assert!(checked_hash(&"A".repeat(64)).is_err() && checked_hash("../a").is_err());
    }
}
