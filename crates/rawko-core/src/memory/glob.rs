//! Globs over a text: `*` any run of characters, `?` one character. Unanchored, as `spec/memory.md` decides it.

/// The regular expression that means the same, over one line.
pub(super) fn to_regex(glob: &str) -> String {
    let mut regex = String::with_capacity(glob.len() + 8);
    for c in glob.chars() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            _ => regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    regex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_star_and_question_mark_mean_something() {
        assert_eq!(to_regex("add *auth?.rs"), r"add .*auth.\.rs");
        assert_eq!(to_regex("{a}"), r"\{a\}");
    }
}
