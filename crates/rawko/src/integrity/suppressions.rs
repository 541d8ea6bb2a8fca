//! Comments that silence a checker: `# type: ignore`, `// eslint-disable`.
//!
//! New code may suppress what the project's style suppresses. A new comment on code that was there is different: there
//! the comment did the work.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use regex::Regex;

use super::kinds::{self, Conventions, Expressions};

/// What a comment for a whole file has.
const WHOLE_FILE: &[&str] = &["nocheck", "mypy:", "ruff:", "flake8:", "#![", "disable-all", "ignore-all"];

/// `now` without those comments of this kind that silence a checker about code of `first`: on a line that was there, or
/// before one, and, where it `complained` of the file, for the whole file. `None` where there is none of them.
pub(super) fn removed(path: &str, first: &[u8], now: &[u8], complained: bool) -> Option<Vec<u8>> {
    static TABLE: OnceLock<Expressions> = OnceLock::new();
    let table = TABLE.get_or_init(|| kinds::expressions(&Conventions::get().suppressions));
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let (first, now) = (std::str::from_utf8(first).ok()?, std::str::from_utf8(now).ok()?);
    let regexes: Vec<&Regex> = table
        .iter()
        .filter(|(endings, _)| endings.iter().any(|it| it == ending))
        .map(|(_, regex)| regex)
        .collect();
    let old: BTreeSet<&str> = first.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines: Vec<&str> = now.split_inclusive('\n').collect();
    let is_code = |line: &str| {
        !line.is_empty()
            && !regexes.iter().any(|regex| regex.find(line).is_some_and(|it| it.len() == line.len()))
    };
    let mut text = String::with_capacity(now.len());
    for (at, line) in lines.iter().enumerate() {
        let comment =
            regexes.iter().find_map(|regex| regex.find(line)).filter(|_| !old.contains(line.trim()));
        let Some(comment) = comment else {
            text.push_str(line);
            continue;
        };
        let rest = format!("{}{}", &line[..comment.start()], &line[comment.end()..]);
        let next = lines.iter().skip(at + 1).map(|line| line.trim()).find(|line| is_code(line));
        let is_for_old_code = match rest.trim() {
            _ if WHOLE_FILE.iter().any(|mark| comment.as_str().contains(mark)) => complained,
            "" if comment.as_str().contains("eslint-disable") && !comment.as_str().contains("line") => {
                complained
            }
            "" => next.is_some_and(|next| old.contains(next)),
            rest => old.contains(rest),
        };
        text.push_str(if is_for_old_code { &rest } else { line });
    }
    (text != now).then(|| text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, first: &str, now: &str, expected: Option<&str>) {
        let got = removed(path, first.as_bytes(), now.as_bytes(), true);
        assert_eq!(got.map(|text| String::from_utf8(text).unwrap()).as_deref(), expected, "{path}: {now}");
    }

    #[test]
    fn new_suppressions_are_taken_out() {
        check("a.py", "x = 1\n", "# mypy: ignore-errors\nx = 1\n", Some("\nx = 1\n"));
        check("a.py", "x = 1\n", "x = 1  # type: ignore[assignment]\n", Some("x = 1  \n"));
        check("a.ts", "f();\n", "// @ts-nocheck\nf();\n", Some("\nf();\n"));
        check("a.ts", "f();\n", "// @ts-ignore\n// @ts-ignore 2\nf();\n", Some("\n\nf();\n"));
        check("a.js", "f();\n", "/* eslint-disable no-undef */ f();\n", Some(" f();\n"));
        check("a.rs", "fn a() {}\n", "#![allow(dead_code)]\nfn a() {}\n", Some("\nfn a() {}\n"));
        check("a.go", "f()\n", "f() //nolint:errcheck\n", Some("f() \n"));
    }

    #[test]
    fn new_code_may_be_passed_over() {
        check("a.py", "x = 1\n", "x = 1\ny = f()  # type: ignore\n", None);
        check("a.ts", "f();\n", "f();\n// @ts-ignore\ng();\n", None);
        check("a.rs", "fn a() {}\n", "fn a() {}\n#[allow(dead_code)]\nfn b() {}\n", None);
        assert_eq!(removed("a.rs", b"fn a() {}\n", b"#![allow(dead_code)]\nfn a() {}\n", false), None);
    }

    #[test]
    fn what_was_there_and_other_comments_stay() {
        check("a.py", "x = 1  # noqa\n", "y = 2\nx = 1  # noqa\n", None);
        check("a.py", "x = 1\n", "x = 1  # types are ignored here\n", None);
        check("a.txt", "x\n", "x  # noqa\n", None);
    }
}
