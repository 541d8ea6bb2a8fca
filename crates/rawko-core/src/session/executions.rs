//! Judges the executions of a run: whether one made progress, and how many in a row made none.

use std::collections::BTreeSet;

use super::progress::ProgressLevel;
use crate::facts::TreeInspection;
use crate::machine::{Plan, StepStatus};

/// The progress of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanProgress {
    /// Nothing.
    None,
    /// It is the first one, or more steps are settled.
    Further,
    /// Fewer steps are open than ever, by a change.
    FewerOpen,
}

/// The progress of a run's executions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Executions {
    /// The progress of the calls of the current one.
    of_calls: ProgressLevel,
    /// Whether the tree at its end is one that there was not before, if it was inspected.
    new_tree: Option<bool>,
    /// Trees at the end of executions.
    trees: BTreeSet<String>,
    /// Whether there was a plan.
    had_plan: bool,
    /// The most plan steps that were ever settled, and the progress of calls since.
    settled: usize,
    since_step: ProgressLevel,
    /// The fewest steps that were ever open. A plan that grows with its settled steps comes no nearer to its end.
    fewest_open: Option<usize>,
    /// Whether the current one made progress in the plan.
    moved_plan: bool,
    /// Executions in a row without progress.
    without_progress: u32,
}

impl Executions {
    /// Records the progress of a call of the current one.
    pub(super) fn record(&mut self, progress: ProgressLevel) {
        self.of_calls = self.of_calls.max(progress);
        self.since_step = self.since_step.max(progress);
    }

    /// Whether the current one has changed something.
    pub(super) fn is_changing(&self) -> bool {
        self.moved_plan || self.of_calls >= ProgressLevel::NewChange
    }

    /// Executions in a row without progress.
    pub(super) fn without_progress(&self) -> u32 {
        self.without_progress
    }

    /// The tree at the end of one that may have changed it.
    pub(super) fn tree_is(&mut self, inspection: &TreeInspection) {
        let is_new = self
            .trees
            .insert([inspection.tree.as_str(), inspection.outside.as_deref().unwrap_or_default()].concat());
        self.new_tree = Some(is_new && !inspection.execution.is_empty());
    }

    /// How far the plan is. New words are nothing: it is further if it is the first one, or more of its steps are settled
    /// and something came of the work on them.
    pub(super) fn further(&mut self, plan: &Plan) -> PlanProgress {
        let is_settled = |status: StepStatus| match status {
            StepStatus::Complete | StepStatus::Skipped => true,
            StepStatus::Pending | StepStatus::InProgress | StepStatus::Failed => false,
        };
        let settled = plan.steps.iter().filter(|step| is_settled(step.status)).count();
        let open = plan.steps.len() - settled;
        let is_first = !plan.steps.is_empty() && !std::mem::replace(&mut self.had_plan, true);
        let mut since_step = ProgressLevel::None;
        if settled > self.settled {
            self.settled = settled;
            since_step = std::mem::take(&mut self.since_step);
        }
        let has_fewer_open = self.fewest_open.is_some_and(|fewest| open < fewest);
        if is_first || has_fewer_open {
            self.fewest_open = Some(open);
        }
        if !is_first && since_step == ProgressLevel::None {
            return PlanProgress::None;
        }
        self.moved_plan = true;
        if has_fewer_open && since_step >= ProgressLevel::NewChange {
            PlanProgress::FewerOpen
        } else {
            PlanProgress::Further
        }
    }

    /// The current one is over. Returns whether it was progress.
    pub(super) fn end(&mut self) -> bool {
        let (of_calls, new_tree) = (std::mem::take(&mut self.of_calls), self.new_tree.take());
        let is_progress = match of_calls {
            // What the tree shows does not matter.
            _ if std::mem::take(&mut self.moved_plan) => true,
            ProgressLevel::None => false,
            // Files that were changed in a way that cannot be seen in the calls.
            ProgressLevel::NewOutput => new_tree == Some(true),
            // What was written may have been taken back.
            ProgressLevel::NewChange
            | ProgressLevel::NewPlace
            | ProgressLevel::Passed
            | ProgressLevel::Better => new_tree != Some(false),
        };
        self.without_progress += u32::from(!is_progress);
        is_progress
    }

    /// Resets the count of executions without progress.
    pub(super) fn made_progress(&mut self) {
        self.without_progress = 0;
    }
}
