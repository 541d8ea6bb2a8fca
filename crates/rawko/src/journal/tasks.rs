//! The tasks of a session: the one that it began with, and those that followed.

use rawko_core::session::{EndedTask, Outcome, Session};
use rawko_core::timeline::{Fact, Timeline, TimelineEntry};
use serde::Serialize;

use super::reader::Journal;

/// One task of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionTask {
    /// The task in the user's words.
    pub task: String,
    /// Sequence number of the record that began it.
    pub record: u64,
    /// How it ended, with the figures of this task alone; absent where it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl SessionTask {
    /// Its end in short, if it has one.
    #[must_use]
    pub fn ended(&self) -> Option<EndedTask> {
        self.outcome.as_ref().map(|outcome| EndedTask::of(&self.task, outcome))
    }
}

/// The tasks of `journal`, oldest first. One that was taken up again after a limit is one task, with its last outcome.
#[must_use]
pub fn tasks(journal: &Journal) -> Vec<SessionTask> {
    let (mut timeline, mut tasks) = (Timeline::default(), Vec::new());
    for (record, stamped) in journal.events() {
        for entry in timeline.apply(record, stamped) {
            take(&mut tasks, &entry);
        }
        forget_end(&mut tasks, timeline.session());
    }
    tasks
}

/// Adds what an entry says of the tasks.
pub(super) fn take(tasks: &mut Vec<SessionTask>, entry: &TimelineEntry) {
    match &entry.fact {
        Fact::TaskStarted { task } | Fact::TaskContinued { task } => {
            tasks.push(SessionTask { task: task.clone(), record: entry.record, outcome: None });
        }
        Fact::Ended(outcome) => {
            if let Some(last) = tasks.last_mut() {
                last.outcome = Some(outcome.as_ref().clone());
            }
        }
        _ => {}
    }
}

/// The last task has no end while the session goes on.
pub(super) fn forget_end(tasks: &mut [SessionTask], session: &Session) {
    if let Some(last) = tasks.last_mut().filter(|_| !session.state().is_final()) {
        last.outcome = None;
    }
}

/// Cost of all tasks in US dollars; `None` where one has not ended, or where the price of a model is not known.
#[must_use]
pub fn session_cost(tasks: &[SessionTask]) -> Option<f64> {
    tasks.iter().map(|task| task.outcome.as_ref()?.cost_usd).sum()
}
