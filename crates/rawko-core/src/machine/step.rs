//! The machine: a state, a context, limits, and the table's interpreter.
//!
//! It is a pure function folded over events: the same events at the same times give the same bytes, whether they
//! come from a live run, a journal or a simulation. It sleeps for nothing, asks nobody, and knows no transition
//! that is not a row of [`table::TABLE`](super::table::TABLE).

use serde::{Deserialize, Serialize};

use super::action::Scene;
use super::effect::MachineEffect;
use super::event::MachineEvent;
use super::state::{Context, Limits, State};
use super::table::{self, Row, TABLE, Trigger};
use crate::time::Timestamp;

/// A machine at rest between two events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    limits: Limits,
    state: State,
    context: Context,
}

/// What one event led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// What is to be done, in this order.
    pub effects: Vec<MachineEffect>,
    /// Whether no row was there for the event; nothing changed then, and nothing is to be done.
    pub ignored: bool,
}

impl Machine {
    /// A machine that waits for a task.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, state: table::INITIAL, context: Context::default() }
    }

    /// Where it is.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// What it remembers.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// What bounds it.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Other limits from now on: a reload of the configuration, between two events. They are part of what a fold
    /// over the events depends on, so whoever journals events journals this too.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Other agents from now on; see [`set_limits`](Self::set_limits). An agent that is at work stays at work.
    pub fn set_agents(&mut self, agents: Vec<String>) {
        self.limits.agents = agents;
    }

    /// Applies what happened at `at`. Never panics, and takes time that does not grow with the history.
    #[must_use = "the effects must be performed"]
    pub fn apply(&mut self, at: Timestamp, event: &MachineEvent) -> Step {
        let mut effects = Vec::new();
        let Some(row) = self.enabled(Trigger::Event(event.kind()), event) else {
            return Step { effects, ignored: true };
        };
        self.take(row, at, event, &mut effects);
        // Ends: `always` rows lead out of `error_handling` only, and never into it.
        while let Some(row) = self.enabled(Trigger::Always, event) {
            self.take(row, at, event, &mut effects);
        }
        Step { effects, ignored: false }
    }

    fn enabled(&self, trigger: Trigger, event: &MachineEvent) -> Option<&'static Row> {
        TABLE.iter().find(|row| {
            row.trigger == trigger
                && row.leaves(self.state)
                && row.guard.is_none_or(|guard| guard.holds(&self.context, &self.limits, event))
        })
    }

    fn take(&mut self, row: &Row, at: Timestamp, event: &MachineEvent, effects: &mut Vec<MachineEffect>) {
        let Self { limits, state, context } = self;
        let leaving = Scene { at, event, state: *state, limits };
        for action in row.actions {
            action.perform(&leaving, context, effects);
        }
        let Some(target) = row.target else { return };
        *state = target;
        let entering = Scene { state: target, ..leaving };
        for action in table::entry(target) {
            action.perform(&entering, context, effects);
        }
    }
}
