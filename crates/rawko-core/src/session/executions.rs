//! What comes of executions: whether one brought the run further, and how many in a row did not.

use std::collections::BTreeSet;

use super::novelty::Progress;
use crate::facts::TreeInspection;
use crate::machine::{Plan, StepStatus};

/// What the executions of a run have brought.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Executions {
    /// What the calls of the current one have brought.
    of_calls: Progress,
    /// Whether the tree at its end is one that there was not before, if it was inspected.
    new_tree: Option<bool>,
    /// Trees at the end of executions.
    trees: BTreeSet<String>,
    /// Whether there was a plan.
    had_plan: bool,
    /// The most plan steps that were settled at the end of an execution.
    settled: usize,
    /// Executions in a row without progress.
    without_progress: u32,
}

impl Executions {
    /// A call of the current one brought this.
    pub(super) fn brought(&mut self, progress: Progress) {
        self.of_calls = self.of_calls.max(progress);
    }

    /// Whether the current one has changed something.
    pub(super) fn is_changing(&self) -> bool {
        self.of_calls == Progress::NewChange
    }

    /// Executions in a row without progress.
    pub(super) fn without_progress(&self) -> u32 {
        self.without_progress
    }

    /// The tree at the end of one that may have changed it.
    pub(super) fn tree_is(&mut self, inspection: &TreeInspection) {
        let is_new = self.trees.insert(inspection.tree.clone());
        self.new_tree = Some(is_new && !inspection.execution.is_empty());
    }

    /// The plan is further: what the tree shows does not matter.
    pub(super) fn forget_tree(&mut self) {
        self.new_tree = None;
    }

    /// Whether the plan is further than before. New words are not: it is the first one, or more of its steps are settled
    /// and something came of the work on them.
    pub(super) fn is_further(&mut self, plan: &Plan) -> bool {
        let is_settled = |status: StepStatus| match status {
            StepStatus::Complete | StepStatus::Skipped => true,
            StepStatus::Pending | StepStatus::InProgress | StepStatus::Failed => false,
        };
        let settled = plan.steps.iter().filter(|step| is_settled(step.status)).count();
        let is_first = !plan.steps.is_empty() && !std::mem::replace(&mut self.had_plan, true);
        let is_further = settled > self.settled && self.of_calls > Progress::None;
        self.settled = self.settled.max(settled);
        is_first || is_further
    }

    /// The current one is over. Returns whether it was progress.
    pub(super) fn end(&mut self) -> bool {
        let (of_calls, new_tree) = (std::mem::take(&mut self.of_calls), self.new_tree.take());
        let is_progress = match of_calls {
            Progress::None => false,
            // Files that were changed in a way that cannot be seen in the calls.
            Progress::NewOutput => new_tree == Some(true),
            // What was written may have been taken back.
            Progress::NewChange => new_tree != Some(false),
        };
        self.without_progress += u32::from(!is_progress);
        is_progress
    }

    /// The executions until now were not in vain.
    pub(super) fn made_progress(&mut self) {
        self.without_progress = 0;
    }
}
