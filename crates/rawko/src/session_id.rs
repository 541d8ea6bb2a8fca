//! Ids of sessions: they sort by time, and a person can read them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use rawko_core::Timestamp;
use rawko_core::text::truncate;

use crate::error::Error;

/// Letters and digits that are not easily mistaken for one another.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A new id, e.g. `20261122-094512-417-x7f2k`: the instant in UTC, then five random characters.
pub(crate) fn new(at: Timestamp) -> String {
    // The standard library's hasher is seeded by the operating system: random enough to keep two ids of the same
    // millisecond apart, and creating the directory fails if they are not.
    let mut random = RandomState::new().build_hasher().finish();
    let digits: String = at.to_rfc3339().chars().filter(char::is_ascii_digit).collect();
    let (date, rest) = digits.split_at(8);
    let (time, milli) = rest.split_at(6);
    let mut id = format!("{date}-{time}-{milli}-");
    for _ in 0..5 {
        id.push(char::from(ALPHABET[(random % 32) as usize]));
        random /= 32;
    }
    id
}

/// A new id for [`RawkoBuilder::session_id`](crate::RawkoBuilder::session_id).
#[must_use]
pub fn new_session_id() -> String {
    new(crate::clock::now())
}

/// The id of a new session: the one that the program gives, if it gives one.
pub(crate) fn given_or_new(given: Option<&str>) -> Result<String, Error> {
    match given {
        None => Ok(new_session_id()),
        Some(id) if is_id(id) => Ok(id.to_owned()),
        Some(id) => Err(Error::Setup {
            message: format!("`{}` cannot be the id of a session", truncate(id, 60)),
            hint: "take one of rawko::new_session_id()".to_owned(),
        }),
    }
}

/// Whether `text` has the form of an id.
pub(crate) fn is_id(text: &str) -> bool {
    let parts: Vec<&[u8]> = text.split('-').map(str::as_bytes).collect();
    let [date, time, milli, random] = parts.as_slice() else { return false };
    [(date, 8), (time, 6), (milli, 3)]
        .iter()
        .all(|(part, digits)| part.len() == *digits && part.iter().all(u8::is_ascii_digit))
        && random.len() == 5
        && random.iter().all(|byte| ALPHABET.contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_differ() {
        let (early, late) = (new(Timestamp(1_769_160_600_123)), new(Timestamp(1_769_160_600_124)));
        assert!(early.starts_with("20260123-093000-123-") && early < late);
        assert_eq!(early.len(), 25);
        assert!(is_id(&early));
        for other in ["", "my-backup", "20260123-093000-123", "20260123-093000-123-x7f2k-copy", "garbage"] {
            assert!(!is_id(other), "{other}");
        }
        assert_eq!(given_or_new(Some(&early)).unwrap(), early);
        assert!(is_id(&given_or_new(None).unwrap()));
        assert!(given_or_new(Some("../outside")).unwrap_err().to_string().contains("`../outside`"));
        let many: std::collections::BTreeSet<String> = (0..100).map(|_| new(Timestamp(0))).collect();
        assert!(many.len() > 95);
    }
}
