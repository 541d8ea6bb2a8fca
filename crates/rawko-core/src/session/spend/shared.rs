//! What a fork shares with the session that it comes from (`docs/sessions.md#fork-a-session`).
//!
//! A model call is charged once, to the session that made it. A fork's first events were another session's, and so were
//! the calls among them: once the last of them has been applied, what was used until then is set aside. The limits still
//! hold for the whole run, shared part included, and executions keep their numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallTotal, Spend};
use crate::session::ledger::Ledger;
use crate::time::Timestamp;
use crate::usage::Usage;

/// What the shared part of a fork did and used. It belongs to the other session and is not in the fork's own figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedSpend {
    /// Executions begun.
    pub iterations: u32,
    /// Tokens of the model calls.
    pub usage: Usage,
    /// Cost of the model calls in US dollars; absent where a model's price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// What counts for the present task already, before its session is carried on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SoFar {
    /// Executions of earlier tasks: those of the present one have higher numbers.
    pub earlier_iterations: u32,
    /// Executions that the task has begun, those that a fork shares included.
    pub iterations: u32,
    /// Tokens of the task's own model calls.
    pub usage: Usage,
    /// Cost of these calls in US dollars; absent where a model's price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What a fork shares, which counts towards the limits too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedSpend>,
    /// How long processes have carried the task, in milliseconds.
    pub elapsed_ms: u64,
}

/// The part of a run that is shared, and when the session's own part begins.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SharedPart {
    /// Shared events that are still to come.
    events_left: u64,
    /// Executions begun before the last shared event. An execution that it begins is the fork's own work.
    iterations: u32,
    /// What its model calls used.
    pub(super) used: CallTotal,
    /// When the first event after it happened; before that, the first one of all.
    own_since: Option<Timestamp>,
}

impl SharedPart {
    /// Of a run whose first `events` are shared.
    pub(super) fn of(events: u64) -> Self {
        Self { events_left: events, ..Self::default() }
    }
}

impl Spend {
    /// An event is about to be applied; the task has begun so many executions.
    pub(in crate::session) fn before_event(&mut self, at: Timestamp, own_iterations: u32) {
        self.shared.own_since.get_or_insert(at);
        if self.shared.events_left == 1 {
            self.shared.iterations = own_iterations;
        }
    }

    /// An event has been applied: with the last one that is shared, what was used until now is set aside.
    pub(in crate::session) fn after_event(&mut self) {
        self.shared.events_left = match self.shared.events_left {
            0 => return,
            1 => {
                self.shared.used = std::mem::take(&mut self.own);
                self.shared.own_since = None;
                0
            }
            more => more - 1,
        };
    }

    /// Shared events that are still to come.
    pub(in crate::session) fn shared_events_left(&self) -> u64 {
        self.shared.events_left
    }

    /// Whether everything until now is shared.
    pub(in crate::session) fn is_shared(&self) -> bool {
        self.shared.events_left > 0
    }

    /// What the session's own model calls have used in this task.
    pub(in crate::session) fn own_calls(&self) -> CallTotal {
        if self.is_shared() { CallTotal::default() } else { self.own }
    }

    /// No process carried the run for so long: no part of its time. A session's own part that begins only now has not been
    /// paused: what a fork waited after its shared events was before it.
    pub(in crate::session) fn paused(&mut self, ms: u64, now: Timestamp) {
        self.paused_ms = self.paused_ms.saturating_add(ms);
        self.agents_paused(ms);
        if let Some(since) = self.shared.own_since.as_mut().filter(|since| **since != now) {
            since.0 = since.0.saturating_add(ms);
        }
    }

    /// How long the session itself has run, without pauses, in milliseconds.
    pub(in crate::session) fn own_duration(&self, at: Timestamp) -> u64 {
        self.shared.own_since.map_or(0, |since| at.since(since))
    }
}

impl Ledger {
    /// What is shared, if anything was done or used in it.
    pub(in crate::session) fn shared_part(&self) -> Option<SharedSpend> {
        let Spend { own, shared, .. } = &self.spend;
        let (iterations, used) = if self.spend.is_shared() {
            (self.task.own_iterations(), *own)
        } else {
            (shared.iterations, shared.used)
        };
        let shared = SharedSpend { iterations, usage: used.usage, cost_usd: used.cost_usd() };
        (shared.iterations > 0 || shared.usage != Usage::default()).then_some(shared)
    }

    /// What counts for the present task until now.
    pub(in crate::session) fn so_far(&self) -> SoFar {
        let own = self.spend.own_calls();
        SoFar {
            earlier_iterations: self.task.earlier_iterations(),
            iterations: self.task.own_iterations(),
            usage: own.usage,
            cost_usd: own.cost_usd(),
            shared: self.shared_part(),
            elapsed_ms: self.elapsed_ms(),
        }
    }
}
