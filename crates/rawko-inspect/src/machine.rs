//! The state machine as it is drawn: the states and transitions of the machine's own table, each state at its place.

use rawko_core::machine::State;
use rawko_core::machine::table::{STATES, TABLE, Trigger};
use serde::Serialize;

/// The drawing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineView {
    /// Width of the drawing.
    pub width: u32,
    /// Height of the drawing.
    pub height: u32,
    /// The states.
    pub states: Vec<StateView>,
    /// The transitions; those between the same two states are one.
    pub transitions: Vec<TransitionView>,
}

/// A state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateView {
    /// Its name.
    pub name: State,
    /// What it means.
    pub description: &'static str,
    /// Whether nothing leaves it.
    pub is_final: bool,
    /// Its centre, from the left.
    pub x: u32,
    /// Its centre, from the top.
    pub y: u32,
}

/// The transitions from one state to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TransitionView {
    /// The state that is left.
    pub from: State,
    /// The state that is entered.
    pub to: State,
    /// The events that lead there.
    pub events: Vec<&'static str>,
    /// How far the arrow bends, to the right of its direction.
    pub bend: i32,
}

const WIDTH: u32 = 400;
const HEIGHT: u32 = 420;

impl MachineView {
    /// The machine.
    #[must_use]
    pub fn new() -> Self {
        let states = STATES.iter().map(|row| {
            let (x, y) = place(row.state);
            StateView { name: row.state, description: row.description, is_final: row.state.is_final(), x, y }
        });
        Self { width: WIDTH, height: HEIGHT, states: states.collect(), transitions: transitions() }
    }
}

impl Default for MachineView {
    fn default() -> Self {
        Self::new()
    }
}

/// The way of a run goes down in the middle, errors are at the right, the user's interventions at the left.
fn place(state: State) -> (u32, u32) {
    match state {
        State::Idle => (200, 30),
        State::Selecting => (200, 115),
        State::Executing => (200, 205),
        State::Evaluating => (200, 295),
        State::Complete => (200, 385),
        State::ErrorHandling => (338, 160),
        State::Failed => (338, 385),
        State::Cancelled => (62, 385),
    }
}

fn bend(from: State, to: State) -> i32 {
    match (from, to) {
        (State::Evaluating, State::Selecting) => -86,
        (State::Evaluating, State::Executing) => -22,
        (State::Selecting, State::Complete) => -118,
        (State::Selecting, State::ErrorHandling) => -10,
        (State::ErrorHandling, State::Selecting) => -26,
        (State::Selecting, State::Cancelled) => 34,
        (State::Executing, State::Cancelled) => 20,
        (State::Selecting, State::Idle) => -66,
        (State::Executing, State::Idle) => -112,
        (_, State::Idle) => -146,
        (State::Executing, State::Failed) => -12,
        _ => 0,
    }
}

fn transitions() -> Vec<TransitionView> {
    let mut transitions: Vec<TransitionView> = Vec::new();
    for row in TABLE {
        let Some(to) = row.target else { continue };
        let event = match row.trigger {
            Trigger::Event(kind) => kind.as_str(),
            Trigger::Always => "always",
        };
        for from in row.from.iter().copied() {
            match transitions.iter_mut().find(|known| (known.from, known.to) == (from, to)) {
                Some(known) if known.events.contains(&event) => {}
                Some(known) => known.events.push(event),
                None => {
                    transitions.push(TransitionView { from, to, events: vec![event], bend: bend(from, to) });
                }
            }
        }
    }
    transitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transition_of_the_table_is_drawn_and_no_state_covers_another() {
        let machine = MachineView::new();
        assert_eq!(machine.states.len(), State::ALL.len());
        for row in TABLE {
            for from in row.from {
                let Some(to) = row.target else { continue };
                assert!(machine.transitions.iter().any(|known| (known.from, known.to) == (*from, to)));
            }
        }
        for (at, state) in machine.states.iter().enumerate() {
            assert!(state.x >= 60 && state.x + 60 <= machine.width && state.y + 20 <= machine.height);
            for other in &machine.states[at + 1..] {
                let apart = state.x.abs_diff(other.x) >= 120 || state.y.abs_diff(other.y) >= 40;
                assert!(apart, "{state:?} {other:?}");
            }
        }
    }
}
