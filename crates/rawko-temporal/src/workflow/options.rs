//! How an activity is asked for, and how its failure is put into words.

use std::time::Duration;

use rawko_core::session::Effect;
use temporalio_common::error::ActivityExecutionError;
use temporalio_common::{ActivityCloseTimeouts, Priority, RetryPolicy};
use temporalio_sdk::{
    ActivityCancellationType, ActivityOptions, ApplicationFailure, WorkflowCancellationToken,
    WorkflowTermination,
};

use crate::failed::FOR_GOOD;
use crate::names;
use crate::task::TaskSpec;

/// The longest key for equal shares that the engine takes, in bytes.
const LONGEST_KEY: usize = 64;

/// The options of an activity. A wait for a free worker is not counted. How many attempts there are, the activity decides: those that
/// were handed back do not count.
pub(super) fn options(
    spec: &TaskSpec,
    queue: String,
    timeouts: ActivityCloseTimeouts,
    summary: &str,
    token: WorkflowCancellationToken,
) -> ActivityOptions {
    let retry = RetryPolicy::builder()
        .initial_interval(Duration::from_millis(500))
        .maximum_interval(Duration::from_secs(30))
        .non_retryable_error_types(FOR_GOOD)
        .build();
    ActivityOptions::with_close_timeouts(timeouts)
        .task_queue(queue)
        .heartbeat_timeout(spec.carriage.heartbeat())
        .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
        .cancellation_token(token)
        .retry_policy(retry)
        .summary(summary.to_owned())
        .priority(priority(spec))
        .build()
}

/// The options of an activity around the session: it is cancelled by its token alone, and not with the task, whose end is kept all
/// the same.
pub(super) fn around(spec: &TaskSpec, summary: &str, token: &WorkflowCancellationToken) -> ActivityOptions {
    let timeouts = ActivityCloseTimeouts::StartToClose(Duration::from_millis(spec.carriage.step_ms));
    options(spec, names::steps(&spec.queue), timeouts, summary, token.clone())
}

/// Whose turn it is: the priority of the task, and equal shares for those who submit.
pub(crate) fn priority(spec: &TaskSpec) -> Priority {
    let key = &spec.submitter[..spec.submitter.floor_char_boundary(LONGEST_KEY)];
    Priority::builder().priority_key(spec.carriage.priority).fairness_key(key.to_owned()).build()
}

/// What a person reads beside the activity on the engine's own page, which takes some hundred bytes.
pub(super) fn summary(effect: &Effect) -> String {
    let Some(id) = effect.awaits_answer() else { return String::new() };
    let mut text = format!("{id} {}", effect.in_words());
    text.truncate(text.floor_char_boundary(200));
    text
}

/// The end of a workflow that cannot do what it needs.
pub(super) fn broken(what: &str, error: &ActivityExecutionError) -> WorkflowTermination {
    ApplicationFailure::builder(format!("{what}: {}", why(error)))
        .type_name("broken".to_owned())
        .non_retryable(true)
        .build()
        .into()
}

/// The innermost reason of an activity's failure.
pub(super) fn why(error: &ActivityExecutionError) -> String {
    match error.cause() {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    }
}
