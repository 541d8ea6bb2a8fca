//! The tasks of a session: the one that it began with, and those that followed.

use rawko_core::session::{Effect, EndedTask, Event, Outcome, Session};
use serde::Serialize;

use super::reader::Journal;
use super::record::Record;

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
    let mut session = Session::new();
    let mut tasks: Vec<SessionTask> = Vec::new();
    for (record, stored) in (1_u64..).zip(&journal.records) {
        let Record::Event(stamped) = stored else { continue };
        let reaction = session.apply(stamped);
        if let Event::TaskStarted { task, .. } | Event::TaskContinued { task, .. } = &stamped.event
            && !reaction.ignored
        {
            tasks.push(SessionTask { task: task.clone(), record, outcome: None });
        }
        if let Some(last) = tasks.last_mut() {
            let outcome = reaction.effects.iter().find_map(Effect::outcome).cloned();
            let goes_on = !session.state().is_final();
            last.outcome = outcome.or_else(|| last.outcome.take().filter(|_| !goes_on));
        }
    }
    tasks
}

/// Cost of all tasks in US dollars; `None` where one has not ended, or where the price of a model is not known.
#[must_use]
pub fn session_cost(tasks: &[SessionTask]) -> Option<f64> {
    tasks.iter().map(|task| task.outcome.as_ref()?.cost_usd).sum()
}
