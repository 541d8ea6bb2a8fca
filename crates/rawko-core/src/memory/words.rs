//! Words of a text and their stems: the only place that says when two words are the same.
//!
//! A word is a run of letters, digits and combining marks; a Han character is a word of its own, since there are no
//! blanks between those. Case and `ß`/`ss` make no difference. Words are compared as words, never as parts of each
//! other: "to" is not in "too". Stems are Snowball's: the English one, or the German one for words that are plainly
//! German. A text is not normalised: a letter written as letter and mark differs from the same letter in one piece.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

use super::stop_words::{ENGLISH, GERMAN};

static ENGLISH_STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));
static GERMAN_STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::German));

/// Sorted.
static STOP_WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let mut all: Vec<&str> = ENGLISH.split_whitespace().chain(GERMAN.split_whitespace()).collect();
    all.sort_unstable();
    all
});

/// Longest word that is stemmed, in bytes. A longer one is no word of a language.
const LONGEST: usize = 64;

/// `text` with case made equal, for comparisons of characters: one character for one, as regular expressions do it.
#[must_use]
pub fn fold(text: &str) -> String {
    text.chars().map(fold_char).collect()
}

/// One character with its case made equal.
#[must_use]
pub fn fold_char(c: char) -> char {
    match c {
        'A'..='Z' => c.to_ascii_lowercase(),
        '\0'..='\u{7f}' => c,
        // The two characters beyond ASCII that case folding takes for an ASCII letter, and the final sigma.
        'ſ' => 's',
        '\u{212a}' => 'k',
        'ς' => 'σ',
        _ => c.to_lowercase().next().unwrap_or(c),
    }
}

/// The words of `text`, in order, with case made equal.
pub fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(is_word_char)?;
        let from = &rest[start..];
        let end = match from.chars().next() {
            Some(c) if is_han(c) => c.len_utf8(),
            _ => from.find(|c| !is_word_char(c) || is_han(c)).unwrap_or(from.len()),
        };
        rest = &from[end..];
        Some(from[..end].to_lowercase().replace('ß', "ss"))
    })
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&c)
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

/// Whether a word (as [`words`] gives it) says nothing of a subject.
#[must_use]
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// The stem of a word (as [`words`] gives it).
#[must_use]
pub fn stem(word: &str) -> String {
    if word.len() > LONGEST || !word.chars().any(char::is_alphabetic) {
        return word.to_owned();
    }
    // The one German plural whose singular is an English word too: Migration, Migrationen.
    if let Some(singular) = word.strip_suffix("ionen") {
        return ENGLISH_STEMMER.stem(&format!("{singular}ion")).into_owned();
    }
    let stemmer = if looks_german(word) { &GERMAN_STEMMER } else { &ENGLISH_STEMMER };
    stemmer.stem(word).into_owned()
}

/// Umlauts, and endings that English does not have. It must depend on the word alone: the same word has one stem
/// in every text.
fn looks_german(word: &str) -> bool {
    const ENDINGS: [&str; 9] =
        ["ungen", "heit", "heiten", "keit", "keiten", "schaft", "schaften", "ieren", "lich"];
    word.contains(['ä', 'ö', 'ü'])
        || ENDINGS.iter().any(|ending| word.len() > ending.len() + 2 && word.ends_with(ending))
        || (word.len() > 6 && word.ends_with("ung"))
}

/// The stems of the words in `text` that are no stop words.
#[must_use]
pub fn stems(text: &str) -> BTreeSet<String> {
    words(text).filter(|word| !is_stop_word(word)).map(|word| stem(&word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        let check =
            |text: &str, expected: &[&str]| assert_eq!(words(text).collect::<Vec<_>>(), expected, "{text}");
        check("Add OAuth2 to src/auth_flow.rs!", &["add", "oauth2", "to", "src", "auth", "flow", "rs"]);
        check("Straße STRASSE", &["strasse", "strasse"]);
        check("naïve cafe\u{301}", &["naïve", "cafe\u{301}"]);
        check("認証 API", &["認", "証", "api"]);
        check("Тест テスト", &["тест", "テスト"]);
        check(" .,– ", &[]);
    }

    #[track_caller]
    fn same(one: &str, other: &str, expected: bool) {
        assert_eq!(
            stems(one) == stems(other),
            expected,
            "{one} {other}: {:?} {:?}",
            stems(one),
            stems(other)
        );
    }

    #[test]
    fn endings_do_not_matter() {
        same("migrations", "Migration", true);
        same("authenticate", "authentication", true);
        same("testing", "tests", true);
        same("Migrationen", "Migration", true);
        same("Änderungen", "Änderung", true);
        same("Datenbankverbindungen", "Datenbankverbindung", true);
        same("too", "toe", false);
        same("number", "numb", false);
        same("server", "serve", false);
        same("404", "405", false);
    }

    #[test]
    fn stop_words_are_left_out() {
        assert!(
            stems("when to use it, and if you don't").is_empty(),
            "{:?}",
            stems("when to use it, and if you don't")
        );
        assert!(stems("wenn man das nicht mit der").is_empty());
        assert_eq!(stems("to too"), BTreeSet::new());
    }

    proptest! {
        #[test]
        fn any_text_has_words(text in "\\PC{0,60}") {
            for word in words(&text) {
                prop_assert!(!word.is_empty() && !stem(&word).is_empty(), "{word:?}");
            }
        }

        #[test]
        fn folding_keeps_the_number_of_characters(text in "\\PC{0,60}") {
            prop_assert_eq!(fold(&text).chars().count(), text.chars().count());
        }
    }
}
