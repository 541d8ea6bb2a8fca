//! Tool call ids in the form that a server accepts.
//!
//! A conversation may contain ids of several servers, because the fallback chain moves it from one to the next. The form
//! of an id depends only on the id itself, so that a call and its result always agree, and a request begins with the same
//! bytes as the one before it.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

/// Which ids a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdForm {
    /// Any id that a server issued. `LiteLLM` keeps Gemini's thought signature in the id and reads it back
    /// (<https://github.com/BerriAI/litellm/pull/16895>).
    Any,
    /// At most 40 characters, as `OpenAI` wants them over Chat Completions (<https://github.com/vercel/ai/issues/5171>).
    Short,
    /// At most 64 characters, as `OpenAI` wants them over Responses (`FunctionCallItemParam` in
    /// <https://github.com/openresponses/openresponses/blob/main/schema/items.tsp>).
    Medium,
    /// Nine characters of `[a-zA-Z0-9]`, as Mistral wants them
    /// (<https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/validator.py>).
    Nine,
}

/// The characters of replacement ids. With nine of 62 characters, the probability that two of a thousand ids collide is
/// less than one in ten billion.
const ALPHABET: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

impl IdForm {
    /// `id` itself if the server accepts it, otherwise a replacement made from it.
    pub(crate) fn of(self, id: &str) -> Cow<'_, str> {
        match self {
            Self::Any => Cow::Borrowed(id),
            Self::Short if id.len() <= 40 => Cow::Borrowed(id),
            Self::Medium if id.len() <= 64 => Cow::Borrowed(id),
            Self::Nine if id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()) => Cow::Borrowed(id),
            Self::Short | Self::Medium => Cow::Owned(format!("call_{}", digest(id, 22))),
            Self::Nine => Cow::Owned(digest(id, 9)),
        }
    }
}

/// The first `length` characters of a hash of `id`.
pub(crate) fn digest(id: &str, length: usize) -> String {
    let hash = Sha256::digest(id.as_bytes());
    let mut number = hash.iter().take(16).fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    let mut text = String::with_capacity(length);
    for _ in 0..length {
        text.extend(ALPHABET.get((number % 62) as usize).map(|c| char::from(*c)));
        number /= 62;
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[track_caller]
    fn check(form: IdForm, id: &str, expected: &str) {
        assert_eq!(form.of(id), expected, "{id}");
    }

    #[test]
    fn accepted_ids_stay_and_others_are_always_replaced_alike() {
        check(IdForm::Nine, "aB3dE6gH9", "aB3dE6gH9");
        // Fixed values: an upgrade in the middle of a session must not change requests.
        check(IdForm::Nine, "toolu_01A09q90qw90lq917835lq9", "EdyWPUcD4");
        check(IdForm::Nine, "call_0_0", "6TSbrl6C5");
        check(IdForm::Short, "functions.Read:0", "functions.Read:0");
        check(IdForm::Any, &"x".repeat(41), &"x".repeat(41));
        check(IdForm::Short, &"x".repeat(41), "call_ZxK5BYcKF9mIKK1bIZtcv1");
        check(IdForm::Medium, &"x".repeat(64), &"x".repeat(64));
        assert_eq!(IdForm::Medium.of(&"x".repeat(65)).len(), 27);
    }

    #[test]
    fn thousands_of_ids_stay_apart() {
        for form in [IdForm::Nine, IdForm::Short] {
            let ids = (0..20_000).map(|n| form.of(&format!("toolu_{n}_{}", "x".repeat(40))).into_owned());
            let ids: BTreeSet<String> = ids.collect();
            assert_eq!(ids.len(), 20_000);
            assert!(ids.iter().all(|id| id.len() == if form == IdForm::Nine { 9 } else { 27 }));
        }
    }
}
