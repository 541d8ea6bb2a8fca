//! A Graphviz digraph.

use super::super::table::{INITIAL, STATES};
use super::arrows;

/// The graph, ending in a line break.
#[must_use]
pub fn dot() -> String {
    let mut lines = vec![
        "digraph rawko {".to_owned(),
        "    rankdir=TB;".to_owned(),
        "    node [shape=box, style=rounded];".to_owned(),
        "    start [shape=point, label=\"\"];".to_owned(),
    ];
    for row in &STATES {
        let more = if row.state.is_final() { ", peripheries=2" } else { "" };
        lines.push(format!("    {} [tooltip={}{more}];", row.state, quote(row.description)));
    }
    lines.push(format!("    start -> {INITIAL};"));
    for arrow in arrows() {
        let label = quote(&arrow.labels.join("\n"));
        lines.push(format!("    {} -> {} [label={label}];", arrow.from, arrow.to));
    }
    lines.push("}".to_owned());
    lines.push(String::new());
    lines.join("\n")
}

/// A quoted DOT string: quotes and backslashes escaped, line breaks as `\n`.
fn quote(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted() {
        assert_eq!(quote("a \"b\" \\ c\nd"), r#""a \"b\" \\ c\nd""#);
    }
}
