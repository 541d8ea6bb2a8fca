//! The plan: steps, statuses, and how updates are merged into it (`docs/machine.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A structured plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Plan {
    /// The steps, in order.
    pub steps: Vec<PlanStep>,
    /// Position in `steps` of the step being worked on, from 0.
    pub current_step_index: usize,
    /// Whether nothing is left to do.
    pub is_complete: bool,
}

impl Plan {
    /// Takes over the fields that `updates` sets. Nothing is checked against the steps: a position past the last
    /// step is accepted and means that no step is current.
    pub fn merge(&mut self, updates: PlanUpdates) {
        let PlanUpdates { steps, current_step_index, is_complete } = updates;
        if let Some(steps) = steps {
            self.steps = steps;
        }
        if let Some(index) = current_step_index {
            self.current_step_index = index;
        }
        if let Some(is_complete) = is_complete {
            self.is_complete = is_complete;
        }
    }

    /// Skips the current step: its status becomes `skipped`, and the next pending step becomes current. If there is
    /// none, the position stays. The plan is complete once every step is complete or skipped.
    pub fn skip_current_step(&mut self) {
        if let Some(step) = self.steps.get_mut(self.current_step_index) {
            step.status = StepStatus::Skipped;
        }
        let next = self.current_step_index.saturating_add(1);
        let is_pending = |step: &PlanStep| step.status == StepStatus::Pending;
        if let Some(distance) = self.steps.iter().skip(next).position(is_pending) {
            self.current_step_index = next + distance;
        }
        self.is_complete = self.steps.iter().all(PlanStep::is_settled);
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep {
    /// Number for people, from 1.
    pub index: usize,
    /// What is to be done.
    pub description: String,
    /// How far it is.
    pub status: StepStatus,
    /// Which agent did it, once one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_used: Option<String>,
}

impl PlanStep {
    /// Whether it is complete or skipped.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        match self.status {
            StepStatus::Complete | StepStatus::Skipped => true,
            StepStatus::Pending | StepStatus::InProgress | StepStatus::Failed => false,
        }
    }
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// Being worked on.
    InProgress,
    /// Done.
    Complete,
    /// Tried without success.
    Failed,
    /// Left out on request.
    Skipped,
}

/// Changes to a plan. The fields that are set replace those of the plan (shallow merge).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanUpdates {
    /// New steps, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<PlanStep>>,
    /// New position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_step_index: Option<usize>,
    /// New completeness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_complete: Option<bool>,
}

impl PlanUpdates {
    /// Whether nothing is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StepStatus::{Complete, Failed, InProgress, Pending, Skipped};

    fn plan(statuses: &[StepStatus], current: usize) -> Plan {
        let step = |(i, status): (usize, &StepStatus)| PlanStep {
            index: i + 1,
            description: format!("step {}", i + 1),
            status: *status,
            agent_used: None,
        };
        Plan {
            steps: statuses.iter().enumerate().map(step).collect(),
            current_step_index: current,
            is_complete: false,
        }
    }

    #[track_caller]
    fn check(before: &[StepStatus], current: usize, after: &[StepStatus], next: usize, is_complete: bool) {
        let mut skipped = plan(before, current);
        skipped.skip_current_step();
        assert_eq!(skipped, Plan { is_complete, ..plan(after, next) });
    }

    #[test]
    fn skipping_moves_to_the_next_pending_step() {
        check(&[Pending, Pending], 0, &[Skipped, Pending], 1, false);
        check(&[InProgress, Complete, Failed, Pending], 0, &[Skipped, Complete, Failed, Pending], 3, false);
        check(&[Pending, InProgress], 1, &[Pending, Skipped], 1, false);
        check(&[Failed, Pending], 1, &[Failed, Skipped], 1, false);
        check(&[Complete, Pending], 1, &[Complete, Skipped], 1, true);
        check(&[Pending], 0, &[Skipped], 0, true);
        check(&[Pending], 7, &[Pending], 7, false);
        check(&[Pending], usize::MAX, &[Pending], usize::MAX, false);
        check(&[], 0, &[], 0, true);
    }

    #[test]
    fn merging_replaces_only_what_is_given() {
        let mut merged = plan(&[Complete, Pending], 1);
        merged.merge(PlanUpdates::default());
        assert_eq!(merged, plan(&[Complete, Pending], 1));
        merged.merge(PlanUpdates { is_complete: Some(true), ..PlanUpdates::default() });
        assert_eq!(merged, Plan { is_complete: true, ..plan(&[Complete, Pending], 1) });
        merged.merge(PlanUpdates {
            steps: Some(vec![]),
            current_step_index: Some(4),
            is_complete: Some(false),
        });
        assert_eq!(merged, plan(&[], 4));
    }
}
