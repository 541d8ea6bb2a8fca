//! Shows where two values of one field differ.

use rawko::journal::FieldDifference;
use serde_json::Value;

use super::{Paint, clean};

/// Lines of each side that are shown.
const LINES: usize = 12;
/// Lines shown before the first difference.
const BEFORE: usize = 2;
/// Characters of a line that are shown.
const CHARS: usize = 240;
/// Of those, characters before the first difference.
const LEAD: usize = 60;

/// A field and its two values: `-` was recorded, `+` follows today.
pub(crate) fn field_difference(found: &FieldDifference, paint: Paint) -> String {
    let (was, is) = (text_of(&found.recorded), text_of(&found.derived));
    let (was, is): (Vec<&str>, Vec<&str>) = (was.lines().collect(), is.lines().collect());
    let same_start = was.iter().zip(&is).take_while(|(a, b)| a == b).count();
    let (was_rest, is_rest) =
        (was.get(same_start..).unwrap_or_default(), is.get(same_start..).unwrap_or_default());
    let same_end = was_rest.iter().rev().zip(is_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let was_only = was_rest.get(..was_rest.len() - same_end).unwrap_or_default();
    let is_only = is_rest.get(..is_rest.len() - same_end).unwrap_or_default();
    let mut text = paint.strong(&clean(&found.field));
    if same_start > 0 {
        text.push_str(&paint.faint(&format!(" (line {})", same_start + 1)));
    }
    text.push('\n');
    for line in was.iter().take(same_start).skip(same_start.saturating_sub(BEFORE)) {
        text.push_str(&format!("    {}\n", paint.faint(&clean(&window(line, 0)))));
    }
    // Of two long lines, the part around their first difference is shown.
    let lead = match (was_only.first(), is_only.first()) {
        (Some(a), Some(b)) => a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count(),
        _ => 0,
    };
    text.push_str(&side(was_only, "-", lead, |line| paint.bad(line)));
    text.push_str(&side(is_only, "+", lead, |line| paint.good(line)));
    text
}

fn side(lines: &[&str], mark: &str, lead: usize, paint: impl Fn(&str) -> String) -> String {
    let mut text = String::new();
    for (at, line) in lines.iter().take(LINES).enumerate() {
        let from = if at == 0 { lead.saturating_sub(LEAD) } else { 0 };
        text.push_str(&format!("  {}\n", paint(&format!("{mark} {}", clean(&window(line, from))))));
    }
    match lines.len().saturating_sub(LINES) {
        0 => {}
        left => text.push_str(&format!("  {mark} … {left} more lines\n")),
    }
    text
}

/// The part of a line from this character on, with marks where it was cut.
fn window(line: &str, from: usize) -> String {
    let count = line.chars().count();
    if count <= CHARS {
        return line.to_owned();
    }
    let shown: String = line.chars().skip(from).take(CHARS).collect();
    let before = if from > 0 { "…" } else { "" };
    let after = if from + CHARS < count { "…" } else { "" };
    format!("{before}{shown}{after}")
}

/// A text as it is, anything else as indented JSON.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "(nothing)".to_owned(),
        Value::String(text) if text.is_empty() => "(an empty text)".to_owned(),
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(was: Value, is: Value, expected: &str) {
        let found = FieldDifference { field: "f".into(), recorded: was, derived: is };
        assert_eq!(field_difference(&found, Paint::new(false)), expected);
    }

    #[test]
    fn only_what_differs_is_shown() {
        check(json!("a"), json!("b"), "f\n  - a\n  + b\n");
        check(json!(null), json!(3), "f\n  - (nothing)\n  + 3\n");
        check(json!("1\n2\n3\n4\n5"), json!("1\n2\n3\nx\n5"), "f (line 4)\n    2\n    3\n  - 4\n  + x\n");
        check(json!("1\n2"), json!("1\n2\n3"), "f (line 3)\n    1\n    2\n  + 3\n");
        check(json!("same\nsame"), json!("same"), "f (line 2)\n    same\n  - same\n");
    }

    #[test]
    fn long_texts_are_cut_around_the_first_difference() {
        let (was, is) = (format!("{}a{}", "x".repeat(500), "y".repeat(500)), "x".repeat(500));
        let found = FieldDifference { field: "f".into(), recorded: json!(was), derived: json!(is) };
        let text = field_difference(&found, Paint::new(false));
        assert!(text.contains("  - …xxx") && text.contains("xay") && text.contains("y…\n"), "{text}");
        let many = |word: &str| json!((0..50).map(|n| format!("{word}{n}\n")).collect::<String>());
        let found = FieldDifference { field: "f".into(), recorded: many("a"), derived: many("b") };
        let text = field_difference(&found, Paint::new(false));
        assert!(text.contains("  - … 38 more lines") && text.lines().count() == 27, "{text}");
    }

    #[test]
    fn no_control_code_reaches_the_terminal() {
        check(json!("a\u{1b}[2J"), json!("b"), "f\n  - a\n  + b\n");
    }
}
