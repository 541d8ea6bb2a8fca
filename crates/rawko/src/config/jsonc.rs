//! JSON as people write it into files for programs that allow that: with comments, commas at the ends of lists and a byte
//! order mark.

use serde_json::Value;

/// Parses it.
///
/// # Errors
/// If it is no such JSON. Lines and columns are those of the text.
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let text = text.trim_start_matches('\u{feff}');
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&plain(text)))
}

/// The text with spaces in place of comments and of commas before the end of a list.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    // Where the last comma is, as long as nothing but space follows it.
    let mut comma = None;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '"' => string(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            other => other.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        let is_comment = next == '/' && length > 1;
        if is_comment {
            plain.extend(part.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            match next {
                ',' => {
                    comma = Some(plain.len()).filter(|_| !plain.trim_end().ends_with(['[', '{', ',', ':']));
                }
                ']' | '}' => {
                    if let Some(at) = comma.take() {
                        plain.replace_range(at..=at, " ");
                    }
                }
                c if c.is_whitespace() => {}
                _ => comma = None,
            }
            plain.push_str(part);
        }
        rest = after;
    }
    plain
}

/// The length of the string at the beginning.
fn string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<Value>) {
        assert_eq!(parse(text).ok(), expected, "{text}");
    }

    #[test]
    fn comments_and_last_commas_are_passed_over() {
        check("// first\n{\"a\": 1, /* one */ \"b\": [1, 2,],}\n// last", Some(json!({"a": 1, "b": [1, 2]})));
        check("\u{feff}{\"a\": \"é\" // é\n}", Some(json!({"a": "é"})));
        check("{\"a\": 1, // one\n /* , */ }", Some(json!({"a": 1})));
    }

    #[test]
    fn strings_stay_as_they_are() {
        check(
            r#"{"url": "https://a/b", "c": "/* \" // */", "d": ",]",}"#,
            Some(json!({"url": "https://a/b", "c": "/* \" // */", "d": ",]"})),
        );
        check(r#"{"a": "\\", /* " */ "b": 1}"#, Some(json!({"a": "\\", "b": 1})));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for text in ["{\"a\": 1,, }", "{\"a\" 1}", "{/* open", "[,]", "{\"a\": 1 / 2}"] {
            check(text, None);
        }
        assert_eq!(parse("// one\n/* two\n */ {\n x").unwrap_err().line(), 4);
    }
}
