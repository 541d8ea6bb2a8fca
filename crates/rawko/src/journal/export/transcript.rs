//! The transcript: what a journal's events lead to, folded once more and listed in order.

use std::collections::BTreeMap;

use rawko_core::machine::{Plan, State};
use rawko_core::request::Purpose;
use rawko_core::session::{Note, Outcome};
use rawko_core::timeline::{Fact, Timeline, TimelineEntry};
use rawko_core::tool::ToolOutcome;
use serde::Serialize;

use crate::journal::tasks::{forget_end, take};
use crate::journal::{Journal, JournalHeader, SessionTask, session_cost};

/// Version of the exported JSON.
const FORMAT: u32 = 2;

/// A session as it is exported.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Transcript {
    /// Version of this JSON. A change that can break a reader raises it.
    pub format: u32,
    /// The journal's header.
    pub header: JournalHeader,
    /// The whole task; the first one, if others followed.
    pub task: String,
    /// The agents that could be selected, with their models.
    pub agents: BTreeMap<String, String>,
    /// The tasks, oldest first, each with its own outcome.
    pub tasks: Vec<SessionTask>,
    /// Cost of all of them in US dollars, where they have ended and all prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What happened, in order.
    pub entries: Vec<TimelineEntry>,
    /// The plan at the end, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// State of the machine at the end of the journal.
    pub state: State,
    /// How the session ended; absent where it is running or was interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl Transcript {
    /// The transcript of `journal`.
    #[must_use]
    pub fn of(journal: &Journal) -> Self {
        let (mut timeline, mut entries, mut tasks, mut plan) =
            (Timeline::default(), Vec::new(), Vec::new(), None);
        for (record, stamped) in journal.events() {
            for entry in timeline.apply(record, stamped) {
                take(&mut tasks, &entry);
                match &entry.fact {
                    Fact::Note(Note::StateChanged { to: State::Idle, .. }) => plan = None,
                    Fact::Note(Note::PlanUpdated { plan: updated, .. }) => plan = Some(updated.clone()),
                    _ => {}
                }
                entries.extend(Some(entry).filter(is_exported));
            }
            forget_end(&mut tasks, timeline.session());
        }
        let session = timeline.session();
        let agents = session.setup().map(|setup| {
            let agents = setup.agents.iter();
            agents.map(|(name, agent)| (name.clone(), agent.model.model.clone())).collect()
        });
        let first = tasks.first().map_or(&journal.header.task, |first| &first.task).clone();
        Self {
            format: FORMAT,
            header: journal.header.clone(),
            task: first,
            agents: agents.unwrap_or_default(),
            cost_usd: session_cost(&tasks),
            entries,
            plan,
            state: session.state(),
            outcome: tasks.last().and_then(|last| last.outcome.clone()),
            tasks,
        }
    }

    /// The result of the tool call that entry `at` reports, if it reports one. Providers may use an id again, so it is the
    /// next result with the call's id, unless another call with this id comes first.
    pub(super) fn result_of(&self, at: usize) -> Option<&ToolOutcome> {
        let mut entries = self.entries.iter().skip(at).map(|entry| &entry.fact);
        let Fact::Note(Note::ToolCalled { call: called, .. }) = entries.next()? else {
            return None;
        };
        for event in entries {
            match event {
                Fact::Note(Note::ToolFinished { call_id, outcome, .. }) if *call_id == called.id => {
                    return Some(outcome);
                }
                Fact::Note(Note::ToolCalled { call, .. }) if call.id == called.id => return None,
                _ => {}
            }
        }
        None
    }
}

/// What the transcript has: the arbiter's answers are in its decisions.
fn is_exported(entry: &TimelineEntry) -> bool {
    match &entry.fact {
        Fact::ModelReplied(reply) => {
            matches!(reply.call.purpose, Purpose::Agent { .. }) && !reply.message.text().trim().is_empty()
        }
        Fact::ModelFailed { .. }
        | Fact::TaskContinued { .. }
        | Fact::TaskTakenUp
        | Fact::SessionResumed
        | Fact::CancelRequested { .. }
        | Fact::OverrideRequested { .. }
        | Fact::AgentsReloaded
        | Fact::Note(_) => true,
        _ => false,
    }
}
