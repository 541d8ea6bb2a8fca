//! The transcript: what a journal's events lead to, folded once more and listed in order.

use std::collections::BTreeMap;

use rawko_core::machine::{Plan, State};
use rawko_core::request::Purpose;
use rawko_core::session::{Effect, EffectAnswer, EffectId, Event, Note, Outcome, Override, Session};
use rawko_core::tool::ToolOutcome;
use rawko_core::{ErrorInfo, Timestamp};
use serde::Serialize;

use crate::journal::{Journal, JournalHeader, Record, SessionTask, session_cost, tasks};

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
    pub entries: Vec<TranscriptEntry>,
    /// The plan at the end, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// State of the machine at the end of the journal.
    pub state: State,
    /// How the session ended; absent where it is running or was interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// One entry of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TranscriptEntry {
    /// Sequence number of the record that it comes from.
    pub record: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: TranscriptEvent,
}

/// What an entry reports: a note of the core, or an event that no note reports. These have the events' names.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TranscriptEvent {
    /// An agent wrote text.
    ModelReplied {
        /// The agent's name.
        agent: String,
        /// The text.
        text: String,
    },
    /// A model call failed.
    ModelFailed {
        /// What failed, and why.
        error: ErrorInfo,
    },
    /// The next task of the session began.
    TaskContinued {
        /// The task.
        task: String,
    },
    /// A task that a limit or its provider had ended was taken up again.
    TaskTakenUp,
    /// Another process resumed the session.
    SessionResumed,
    /// A person or a program asked the run to stop.
    CancelRequested {
        /// Why.
        reason: String,
    },
    /// A person overrode the arbiter.
    OverrideRequested {
        /// The command.
        command: Override,
    },
    /// The configuration was read again.
    AgentsReloaded,
    /// What the core reports.
    #[serde(untagged)]
    Note(Note),
}

impl Transcript {
    /// The transcript of `journal`.
    #[must_use]
    pub fn of(journal: &Journal) -> Self {
        let mut session = Session::new();
        let (mut entries, mut task, mut plan, mut outcome) = (Vec::new(), None, None, None);
        // Which agent made each model call that is not answered yet.
        let mut callers = BTreeMap::new();
        for (record, stored) in (1_u64..).zip(&journal.records) {
            let Record::Event(stamped) = stored else { continue };
            let mut add = |event| entries.push(TranscriptEntry { record, at: stamped.at, event });
            if matches!(stamped.event, Event::TaskContinued { .. }) {
                plan = None;
            }
            if let Some(event) = reported(&stamped.event, &mut callers) {
                add(event);
            }
            let reaction = session.apply(stamped);
            if task.is_none() {
                task = session.context().map(|context| context.task.clone());
            }
            if !session.state().is_final() {
                outcome = None;
            }
            for note in reaction.notes {
                if let Note::PlanUpdated { plan: updated, .. } = &note {
                    plan = Some(updated.clone());
                }
                add(TranscriptEvent::Note(note));
            }
            for effect in reaction.effects {
                match effect {
                    Effect::CallModel { id, purpose: Purpose::Agent { name }, .. } => {
                        callers.insert(id, name);
                    }
                    Effect::Finish { outcome: end } => outcome = Some(*end),
                    _ => {}
                }
            }
        }
        let agents = session.setup().map(|setup| {
            let agents = setup.agents.iter();
            agents.map(|(name, agent)| (name.clone(), agent.model.model.clone())).collect()
        });
        let tasks = tasks(journal);
        Self {
            format: FORMAT,
            header: journal.header.clone(),
            task: task.unwrap_or_else(|| journal.header.task.clone()),
            agents: agents.unwrap_or_default(),
            cost_usd: session_cost(&tasks),
            tasks,
            entries,
            plan,
            state: session.state(),
            outcome,
        }
    }

    /// The result of the tool call that entry `at` reports, if it reports one. Providers may use an id again, so it is the
    /// next result with the call's id, unless another call with this id comes first.
    pub(super) fn result_of(&self, at: usize) -> Option<&ToolOutcome> {
        let mut entries = self.entries.iter().skip(at).map(|entry| &entry.event);
        let TranscriptEvent::Note(Note::ToolCalled { call: called, .. }) = entries.next()? else {
            return None;
        };
        for event in entries {
            match event {
                TranscriptEvent::Note(Note::ToolFinished { call_id, outcome, .. })
                    if *call_id == called.id =>
                {
                    return Some(outcome);
                }
                TranscriptEvent::Note(Note::ToolCalled { call, .. }) if call.id == called.id => return None,
                _ => {}
            }
        }
        None
    }
}

/// What an event reports that no note does.
fn reported(event: &Event, callers: &mut BTreeMap<EffectId, String>) -> Option<TranscriptEvent> {
    match event {
        // The arbiter's answers are reported as decisions.
        Event::Answered { effect, answer: EffectAnswer::ModelReplied { message, .. } } => {
            let (agent, text) = (callers.remove(effect)?, message.text());
            (!text.trim().is_empty()).then_some(TranscriptEvent::ModelReplied { agent, text })
        }
        Event::Answered { answer: EffectAnswer::ModelFailed { error, .. }, .. } => {
            Some(TranscriptEvent::ModelFailed { error: error.clone() })
        }
        Event::TaskContinued { task, .. } => Some(TranscriptEvent::TaskContinued { task: task.clone() }),
        Event::TaskTakenUp { .. } => Some(TranscriptEvent::TaskTakenUp),
        Event::SessionResumed { .. } => Some(TranscriptEvent::SessionResumed),
        Event::CancelRequested { reason } => {
            Some(TranscriptEvent::CancelRequested { reason: reason.clone() })
        }
        Event::OverrideRequested { command, request: _ } => {
            Some(TranscriptEvent::OverrideRequested { command: command.clone() })
        }
        Event::AgentsReloaded { .. } => Some(TranscriptEvent::AgentsReloaded),
        // Notes report these, or there is nothing to report.
        Event::TaskStarted { .. }
        | Event::FinalTreeInspected { .. }
        | Event::Answered { answer: EffectAnswer::ToolFinished { .. }, .. }
        | Event::Answered { answer: EffectAnswer::ApprovalAnswered { .. }, .. }
        | Event::Answered { answer: EffectAnswer::CheckpointTaken { .. }, .. }
        | Event::Answered { answer: EffectAnswer::CheckpointFailed { .. }, .. }
        | Event::Answered { answer: EffectAnswer::TreeInspected { .. }, .. }
        | Event::Answered { answer: EffectAnswer::MemoriesRecalled { .. }, .. }
        | Event::Answered { answer: EffectAnswer::MemoryKept { .. }, .. }
        | Event::Answered { answer: EffectAnswer::TreeInspectionFailed { .. }, .. }
        | Event::Answered { answer: EffectAnswer::VerificationFinished { .. }, .. }
        | Event::Answered { answer: EffectAnswer::TimerFired, .. }
        | Event::Answered { answer: EffectAnswer::EffectLost, .. } => None,
    }
}
