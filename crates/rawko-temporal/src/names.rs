//! Names in the engine: workflows, activities and queues, as its own web page shows them.

/// Begins the id of a task's workflow.
pub(crate) const TASK_PREFIX: &str = "rawko-task-";
/// Begins the id of the workflow that keeps a submission's budget.
pub(crate) const BUDGET_PREFIX: &str = "rawko-budget-";
/// The key of the memo that holds a task's status.
pub(crate) const STATUS: &str = "rawko";
/// The key of the memo that holds what was submitted, as a digest.
pub(crate) const SPEC: &str = "rawko-spec";
/// The key of the memo that holds when it was submitted.
pub(crate) const SUBMITTED: &str = "rawko-submitted";
/// The key of the memo that holds the mark of the store that a task is kept in.
pub(crate) const STORE: &str = "rawko-store";
/// The queue that is used unless another one is named.
pub const DEFAULT_QUEUE: &str = "rawko";

/// The id of a task's workflow.
#[must_use]
pub(crate) fn workflow_id(task: &str) -> String {
    format!("{TASK_PREFIX}{task}")
}

/// The queue of steps: tools, checkpoints, memories.
pub(crate) fn steps(queue: &str) -> String {
    format!("{queue}.steps")
}

/// The queue of verifications.
pub(crate) fn verify(queue: &str) -> String {
    format!("{queue}.verify")
}

/// The queue of the model calls that one provider answers: its rate limit is the queue's.
pub(crate) fn models(queue: &str, provider: &str) -> String {
    format!("{queue}.models.{provider}")
}
