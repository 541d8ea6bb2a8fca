//! Writes line numbers in front of lines, like `cat -n`, and recognises them in text that a model copied together with
//! them.

use std::fmt::Write as _;

/// What models write between number and line: what [`push_line`] writes, the same as an escape, and the arrow of other
/// tools.
const SEPARATORS: [&str; 3] = ["\t", r"\t", "→"];

/// Appends `line` with its number and a line break.
pub(crate) fn push_line(shown: &mut String, number: usize, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(shown, "{number:>6}\t{line}");
}

/// `text` without the numbers in front of its lines; `None` if no line has one.
pub(crate) fn without_numbers(text: &str) -> Option<String> {
    let mut last = None;
    let plain: Vec<&str> = text
        .split('\n')
        .map(|line| match numbered(line) {
            Some((number, rest)) => {
                last = Some(number);
                rest
            }
            None => {
                // Only the number may be left of a blank line.
                let alone = line.trim().parse::<usize>().ok();
                let follows = alone.is_some() && alone == last.and_then(|last| last.checked_add(1));
                last = if follows { alone } else { last };
                if follows { "" } else { line }
            }
        })
        .collect();
    last.map(|_| plain.join("\n"))
}

/// The number in front of a line, and the line itself.
fn numbered(line: &str) -> Option<(usize, &str)> {
    let padded = line.trim_start_matches(' ');
    let end = padded.find(|c: char| !c.is_ascii_digit())?;
    let rest = SEPARATORS.iter().find_map(|separator| padded[end..].strip_prefix(separator))?;
    Some((padded[..end].parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(without_numbers(text).as_deref(), expected, "{text:?}");
    }

    #[test]
    fn numbers_are_recognised_as_they_are_written() {
        let mut shown = String::new();
        push_line(&mut shown, 9, "a");
        push_line(&mut shown, 10, "");
        push_line(&mut shown, 11, "\tb\tc");
        assert_eq!(shown, "     9\ta\n    10\t\n    11\t\tb\tc\n");
        check(&shown, Some("a\n\n\tb\tc\n"));
    }

    #[test]
    fn numbers_on_some_lines_and_in_other_forms() {
        check("9\ta\n\n11\tc", Some("a\n\nc"));
        check("     9→a\n    10→b", Some("a\nb"));
        check(r"     9\ta\tb", Some(r"a\tb"));
        check("a\n    10\tb", Some("a\nb"));
        check("     9\ta\r\n    10\tb\r\n", Some("a\r\nb\r\n"));
        check("     9\ta\n    10\n    11\tc", Some("a\n\nc"));
        check("     9\ta\n    42\n", Some("a\n    42\n"));
        check("a\tb\n", None);
        check("\tb\n+1\tc\n-1\td\n7\n", None);
    }
}
