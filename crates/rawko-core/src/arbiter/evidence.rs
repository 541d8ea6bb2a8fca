//! Reading the record of executions: what rawko saw, as opposed to what agents claim.

use super::input::ExecutionSummary;
use crate::machine::ExecutionEnd;

impl ExecutionSummary {
    /// How it ended, where that was recorded.
    pub(super) fn ended(&self) -> Option<ExecutionEnd> {
        self.facts.as_ref()?.ended
    }
}
