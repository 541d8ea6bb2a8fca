//! The plan between executions: the machine's, and what an execution has drafted that the machine was not told yet.
//!
//! The machine takes a plan over when an execution completes (`spec/machine.md`). One that breaks, or is called off,
//! must not take its work on the plan with it: what it drafted is shown to arbiter and agents, and the next
//! execution that completes hands it over.

use super::run::Run;
use crate::agent::execution::Execution;
use crate::machine::{AgentResult, MachineEvent, Plan, PlanUpdates, State};

impl Run {
    /// The plan as arbiter and agents should see it.
    pub(super) fn effective_plan(&self) -> Option<&Plan> {
        self.drafted_plan.as_ref().or(self.machine.context().plan.as_ref())
    }

    /// The same with what the agent at work has changed.
    pub(super) fn plan_of_execution(&self) -> Option<Plan> {
        let plan = self.effective_plan().cloned();
        let Some(draft) = self.execution.as_ref().and_then(Execution::plan_so_far) else { return plan };
        let mut merged = plan.unwrap_or_default();
        merged.merge(draft.clone());
        Some(merged)
    }

    /// An execution breaks, or is called off: what it drafted stays.
    pub(super) fn keep_draft(&mut self) {
        if self.execution.as_ref().is_some_and(|execution| execution.plan_so_far().is_some()) {
            self.drafted_plan = self.plan_of_execution();
        }
    }

    /// An execution completes: with its own result goes what those before it had drafted.
    pub(super) fn hand_draft_over(&self, result: &mut AgentResult) {
        let Some(Plan { steps, current_step_index, is_complete }) = self.drafted_plan.clone() else { return };
        if result.plan_updates.is_none() {
            result.plan_updates = Some(PlanUpdates {
                steps: Some(steps),
                current_step_index: Some(current_step_index),
                is_complete: Some(is_complete),
            });
        }
    }

    /// The machine was given `event`: with a result it has taken over what was drafted.
    pub(super) fn drop_draft_behind(&mut self, event: &MachineEvent) {
        if matches!(event, MachineEvent::AgentComplete { .. }) {
            self.drafted_plan = None;
        }
    }

    /// The machine leaves `state` and drops what was asked for in it. A step that is skipped is also skipped in the
    /// draft, which would bring it back otherwise; what the draft says is finished stays finished.
    pub(super) fn keep_draft_on_leaving(&mut self, state: State) {
        if state == State::Executing {
            self.keep_draft();
        }
        if self.is_on(&MachineEvent::SkipStep)
            && let Some(draft) = &mut self.drafted_plan
        {
            draft.skip_current_step();
        }
    }
}
