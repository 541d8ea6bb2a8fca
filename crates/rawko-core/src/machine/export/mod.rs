//! Diagrams and descriptions of the machine, generated from the transition table.
//!
//! Nothing here decides anything: if an export is wrong, the table is wrong or a printer lost a row.
//! `tests/machine_xstate.rs` runs the XState config against the machine itself.

mod dot;
mod mermaid;
mod xstate;

pub use dot::dot;
pub use mermaid::mermaid;
pub use xstate::xstate;

use super::state::State;
use super::table::{Row, STATES, TABLE, Trigger};

/// The transitions from one state to another, drawn as one arrow; labels in the order of the table.
struct Arrow {
    from: State,
    to: State,
    labels: Vec<String>,
}

/// The arrows, by the state they leave. Rows between the same two states share one arrow, to keep the diagram
/// readable; a row without a target has none.
fn arrows() -> Vec<Arrow> {
    let mut arrows: Vec<Arrow> = Vec::new();
    for state in STATES.iter().map(|row| row.state) {
        for row in rows_from(state) {
            let Some(to) = row.target else { continue };
            let label = label(row);
            match arrows.iter_mut().find(|arrow| arrow.from == state && arrow.to == to) {
                Some(arrow) => arrow.labels.push(label),
                None => arrows.push(Arrow { from: state, to, labels: vec![label] }),
            }
        }
    }
    arrows
}

fn rows_from(state: State) -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(move |row| row.leaves(state))
}

fn label(row: &Row) -> String {
    let trigger = match row.trigger {
        Trigger::Event(kind) => kind.as_str(),
        Trigger::Always => "always",
    };
    match row.guard {
        Some(guard) => format!("{trigger} [{}]", guard.name()),
        None => trigger.to_owned(),
    }
}
