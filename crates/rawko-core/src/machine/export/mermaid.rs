//! A Mermaid `stateDiagram-v2`, as GitHub and most documentation tools draw it.

use super::super::table::{INITIAL, STATES};
use super::arrows;

/// The diagram, ending in a line break. The labels of an arrow are in the order of the table.
#[must_use]
pub fn mermaid() -> String {
    let mut lines = vec!["stateDiagram-v2".to_owned()];
    for row in &STATES {
        lines.push(format!("    {}: {}", row.state, row.state));
        lines.push(format!("    {}: {}", row.state, row.description.replace(';', ",")));
    }
    lines.push(format!("    [*] --> {INITIAL}"));
    for arrow in arrows() {
        lines.push(format!("    {} --> {}: {}", arrow.from, arrow.to, arrow.labels.join("<br/>")));
    }
    for row in STATES.iter().filter(|row| row.state.is_final()) {
        lines.push(format!("    {} --> [*]", row.state));
    }
    lines.push(String::new());
    lines.join("\n")
}
