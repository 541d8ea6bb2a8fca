//! What hooks have said about a task, and how often a Stop hook has sent its run back.

use super::ledger::Ledger;
use super::reaction::Reaction;
use crate::hook::{HookEvent, HookReply};
use crate::machine::{Decision, MachineEvent, State};
use crate::note::DecisionPoint;

/// How often Stop hooks may send one run back.
pub(super) const MAX_RETURNS: u32 = 3;
/// The tool whose changes a hook's are like: it does not say which files it writes.
const HOOK: &str = "hook";

/// The record of a task's hooks.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct HookRecord {
    /// The hooks of the task's beginning were asked.
    pub(super) has_begun: bool,
    /// What they said for agents.
    pub(super) context: Vec<String>,
    /// How often a Stop hook has sent the run back.
    pub(super) returns: u32,
    /// The execution after which the Stop hooks let the run end.
    passed: Option<u32>,
}

impl Ledger {
    /// Whether hooks of this event are asked.
    pub(super) fn has_hooks(&self, event: HookEvent) -> bool {
        self.setup.hooks.contains(&event)
    }

    /// Records what hooks have said, besides a refusal.
    pub(super) fn heard_hooks(&mut self, reply: &HookReply, reaction: &mut Reaction) {
        for warning in &reply.warnings {
            reaction.warn(warning.as_str());
        }
        if reply.may_have_changed {
            self.tree.changing(HOOK);
        }
    }

    /// Whether the run would end as complete with `event`, and its Stop hooks are still to be asked.
    pub(super) fn stop_hooks_are_due(&self, event: &MachineEvent) -> bool {
        if !self.has_hooks(HookEvent::Stop)
            || self.task.state().is_final()
            || self.task.hooks.passed == Some(self.task.iteration())
            || completion(event).is_none()
        {
            return false;
        }
        let then = self.task.after(self.now, event);
        then.state() == State::Complete && !then.context().limited
    }

    /// The Stop hooks let the run end now.
    pub(super) fn stop_hooks_passed(&mut self) {
        self.task.hooks.passed = Some(self.task.iteration());
    }

    /// Who takes up the work that a Stop hook sent back: the last agent that does not judge that of others. `None` if no agent
    /// can, or no iteration is left.
    pub(super) fn goes_back(&self, point: DecisionPoint, reason: &str) -> Option<Decision> {
        if self.task.iteration() >= self.task.limits().max_iterations {
            return None;
        }
        let may_work = |name: &&str| self.setup.agents.contains_key(*name) && self.bar(name).is_none();
        let history = &self.task.context().history;
        let recent = || history.iter().rev().map(|entry| entry.agent.as_str()).filter(may_work);
        let judges = |name: &&str| self.setup.agents.get(*name).is_some_and(|agent| agent.config.judges());
        let mode = recent().find(|name| !judges(name)).or_else(|| recent().next())?;
        let reason = format!("A Stop hook of the user sent the work back: {reason}");
        let is_current = self.task.context().current_mode == mode;
        Some(match point {
            DecisionPoint::Evaluate if is_current => Decision::Continue { reason },
            DecisionPoint::Evaluate | DecisionPoint::Select => {
                Decision::SelectMode { mode: mode.to_owned(), reason }
            }
        })
    }
}

/// The COMPLETE that `event` is, and where it was decided.
pub(super) fn completion(event: &MachineEvent) -> Option<(DecisionPoint, &Decision)> {
    let (point, decision) = match event {
        MachineEvent::AgentSelected { decision } => (DecisionPoint::Select, decision),
        MachineEvent::ArbiterDecision { decision } => (DecisionPoint::Evaluate, decision),
        _ => return None,
    };
    matches!(decision, Decision::Complete { .. }).then_some((point, decision))
}
