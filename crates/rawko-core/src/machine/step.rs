//! The machine: a state, a context, limits, and the interpreter of the table.
//!
//! It is a pure function folded over events: the same events at the same times give the same bytes, whether they
//! come from a live run, a journal or a simulation. It does no I/O, never sleeps, and has no transition besides the
//! rows of [`table::TABLE`](super::table::TABLE).

use serde::{Deserialize, Serialize};

use super::action::ActionInput;
use super::effect::MachineEffect;
use super::event::MachineEvent;
use super::state::{Context, Limits, State};
use super::table::{self, Row, TABLE, Trigger};
use crate::error::ErrorCode;
use crate::time::Timestamp;

/// The message of an obstacle's error once the user has resumed the task.
const ANEW: &str = "(The user has taken the task up again since: this should be gone.)";

/// The state machine, between two events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    limits: Limits,
    state: State,
    context: Context,
}

/// The result of applying one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The effects to perform, in this order.
    pub effects: Vec<MachineEffect>,
    /// Whether no row applied to the event. Then nothing changed, and there are no effects.
    pub ignored: bool,
}

impl Machine {
    /// A machine that waits for a task.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, state: table::INITIAL, context: Context::default() }
    }

    /// A machine that waits for a task, after so many iterations of earlier tasks.
    #[must_use]
    pub fn after(limits: Limits, iteration_count: u32) -> Self {
        let context = Context { iteration_count, ..Context::default() };
        Self { context, ..Self::new(limits) }
    }

    /// Goes on in `state` after an end that a limit, a provider or an obstacle made, between two events. Failures in a row
    /// are forgotten, and the last error, unless it names the obstacle: then it says that it should be gone. The history stays. A fold over the events depends on it, as on [`Self::set_limits`].
    pub fn take_up(&mut self, state: State) {
        self.state = state;
        self.context.limited = false;
        self.context.consecutive_failures = 0;
        let obstacle = self.context.last_error.take().filter(|last| last.error.code == ErrorCode::Blocked);
        self.context.last_error = obstacle.map(|mut last| {
            last.error.message = format!("{} {ANEW}", last.error.message);
            last
        });
    }

    /// The current state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The current context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Replaces the limits, between two events, when the configuration is reloaded. A fold over the events depends on
    /// them, so a journal of events must also record this call.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Replaces the agents; see [`set_limits`](Self::set_limits). A running agent keeps running.
    pub fn set_agents(&mut self, agents: Vec<String>) {
        self.limits.agents = agents;
    }

    /// Applies `event`, which happened at `at`. Never panics, and its cost does not grow with the history.
    #[must_use = "the effects must be performed"]
    pub fn apply(&mut self, at: Timestamp, event: &MachineEvent) -> Step {
        let mut effects = Vec::new();
        let Some(row) = self.enabled(Trigger::Event(event.kind()), event) else {
            return Step { effects, ignored: true };
        };
        self.take(row, at, event, &mut effects);
        // Terminates: `always` rows only lead out of `error_handling`, never into it.
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
        let leaving = ActionInput { at, event, state: *state, limits };
        for action in row.actions {
            action.apply(&leaving, context, effects);
        }
        let Some(target) = row.target else { return };
        *state = target;
        let entering = ActionInput { state: target, ..leaving };
        for action in table::entry(target) {
            action.apply(&entering, context, effects);
        }
    }
}
