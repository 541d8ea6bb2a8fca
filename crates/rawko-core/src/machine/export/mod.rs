//! The machine drawn and described for others, every line of it from the transition table.
//!
//! Nothing here decides anything: an export that is wrong means that the table is, or that a printer lost a row.
//! `tests/machine_xstate.rs` runs the XState config against the machine itself.

mod dot;
mod mermaid;
mod xstate;

pub use dot::dot;
pub use mermaid::mermaid;
pub use xstate::xstate;

use super::state::State;
use super::table::{Row, STATES, TABLE, Trigger};

/// All arrows from one state to another, in the order of the table.
struct Arrow {
    from: State,
    to: State,
    labels: Vec<String>,
}

/// The arrows, by the state they leave. Rows between the same two states share one arrow, or nobody could read
/// the picture; a row that stays where it is has none.
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
