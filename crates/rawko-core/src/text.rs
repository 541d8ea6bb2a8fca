//! Bounding text at character boundaries, with a note of what was cut.

/// Appended to a text that was cut off.
pub const ELLIPSIS: &str = "...";

/// Replaces a secret in a text.
pub const REDACTED: &str = "[redacted]";

/// The first `max` Unicode scalar values of `text`, followed by [`ELLIPSIS`] if anything was cut.
///
/// ```
/// assert_eq!(rawko_core::text::truncate("naïve", 3), "naï...");
/// assert_eq!(rawko_core::text::truncate("naïve", 5), "naïve");
/// ```
#[must_use]
pub fn truncate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((end, _)) => {
            let mut cut = String::with_capacity(end + ELLIPSIS.len());
            cut.push_str(&text[..end]);
            cut.push_str(ELLIPSIS);
            cut
        }
    }
}

/// Keeps the head and the tail of `text` if it is longer than `max_bytes`, with a note between them of how much is
/// missing. Both cuts fall on character boundaries; the result may exceed `max_bytes` by the length of the note.
#[must_use]
pub fn keep_ends(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let half = max_bytes / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    let missing = tail - head;
    format!("{}\n[... {missing} bytes cut ...]\n{}", &text[..head], &text[tail..])
}

/// `text` without characters that control, hide or reorder the text around them: control and direction characters,
/// unusual line separators, characters without width (except the joiners that scripts and emoji need), and variation
/// selectors, in which text can be hidden.
#[must_use]
pub fn harmless(text: &str) -> String {
    let is_harmless = |c: &char| {
        matches!(c, '\n' | '\t')
            || !(c.is_control()
                || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}')
                || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}')
                || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'))
    };
    text.chars().filter(is_harmless).collect()
}

/// A word as a shell reads it back, quoted if needed.
#[must_use]
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// `text` without its digits: lines that differ in figures alone are alike.
#[must_use]
pub fn without_digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// `bytes` in lower-case hexadecimal, two digits each.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|half| DIGITS[usize::from(half)]).collect()
}

/// Whether a name can be a folder and a part of a git branch's name on every system: at most `longest` ASCII letters, digits,
/// `-`, `_` and `.`.
#[must_use]
pub fn is_plain_name(name: &str, longest: usize) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= longest
        && name.chars().all(is_plain)
        && !name.contains("..")
        && !name.ends_with(['.', '-'])
        && !name.ends_with(".lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        for (word, expected) in [
            ("--format=%h", "--format=%h"),
            ("a b", "'a b'"),
            ("", "''"),
            ("it's", r"'it'\''s'"),
            ("$(x)", "'$(x)'"),
        ] {
            assert_eq!(shell_word(word), expected);
        }
    }
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, max: usize, expected: &str) {
        assert_eq!(truncate(text, max), expected);
    }

    #[test]
    fn truncation_counts_scalar_values() {
        check("", 0, "");
        check("abc", 3, "abc");
        check("abcd", 3, "abc...");
        check("日本語", 2, "日本...");
        check("é", 0, "...");
    }

    proptest! {
        #[test]
        fn cuts_never_split_a_character(text in "\\PC{0,80}", max in 0usize..100) {
            let cut = truncate(&text, max);
            prop_assert!(cut.chars().count() <= max + ELLIPSIS.len());
            let kept = keep_ends(&text, max);
            prop_assert!(kept.len() <= max + 48);
        }
    }

    #[test]
    fn hexadecimal_has_two_digits_for_each_byte() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
        assert_eq!(hex(&[]), "");
    }
}
