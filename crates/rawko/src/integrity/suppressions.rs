//! Comments that have a checker pass over what it would complain of: `# type: ignore`, `// eslint-disable`.
//!
//! New code may suppress what the project's style suppresses. Only where the checker complained of a file before the run,
//! and a new comment silences it, the comment did the work.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::Regex;

use super::kinds::{self, Conventions};

/// `now` without the comments of this kind; `None` where it has no more of them than `first`.
pub(super) fn removed(path: &str, first: &[u8], now: &[u8]) -> Option<Vec<u8>> {
    static TABLE: OnceLock<Vec<(Vec<String>, Regex)>> = OnceLock::new();
    let table = TABLE.get_or_init(|| kinds::expressions(&Conventions::get().suppressions));
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let (first, now) = (std::str::from_utf8(first).ok()?, std::str::from_utf8(now).ok()?);
    let own = table.iter().filter(|(endings, _)| endings.iter().any(|known| known == ending));
    let mut text = Cow::Borrowed(now);
    for (_, regex) in own {
        if regex.find_iter(now).count() > regex.find_iter(first).count() {
            // What the file had before stays.
            let had: Vec<&str> = regex.find_iter(first).map(|found| found.as_str()).collect();
            let replaced = regex.replace_all(&text, |found: &regex::Captures<'_>| {
                if had.contains(&&found[0]) { found[0].to_owned() } else { String::new() }
            });
            text = Cow::Owned(replaced.into_owned());
        }
    }
    (text != now).then(|| text.into_owned().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, first: &str, now: &str, expected: Option<&str>) {
        let got = removed(path, first.as_bytes(), now.as_bytes());
        assert_eq!(got.map(|text| String::from_utf8(text).unwrap()).as_deref(), expected, "{path}: {now}");
    }

    #[test]
    fn new_suppressions_are_taken_out() {
        check("a.py", "x = 1\n", "# mypy: ignore-errors\nx = 1\n", Some("\nx = 1\n"));
        check("a.py", "x = 1\n", "x = 1  # type: ignore[assignment]\n", Some("x = 1  \n"));
        check("a.ts", "f();\n", "// @ts-nocheck\nf();\n", Some("\nf();\n"));
        check("a.js", "f();\n", "/* eslint-disable no-undef */ f();\n", Some(" f();\n"));
        check("a.rs", "fn a() {}\n", "#![allow(dead_code)]\nfn a() {}\n", Some("\nfn a() {}\n"));
        check("a.go", "f()\n", "f() //nolint:errcheck\n", Some("f() \n"));
    }

    #[test]
    fn what_was_there_and_other_comments_stay() {
        check("a.py", "x = 1  # noqa\n", "y = 2\nx = 1  # noqa\n", None);
        check("a.py", "x = 1\n", "x = 1  # types are ignored here\n", None);
        check("a.txt", "x\n", "x  # noqa\n", None);
    }
}
