//! The events of a session as a live run sends them, derived from its journal: for everything that shows a session which
//! another process runs, or which has ended.

use std::path::{Path, PathBuf};

use rawko_core::Timestamp;
use rawko_core::session::{Event, Session, SoFar, Stamped};
use rawko_core::timeline::{Fact, Timeline, TimelineEntry};

use crate::journal::JournalHeader;
use crate::run::denials::Denials;
use crate::run::event::{InstructionsRead, RunEvent};

/// A session that is folded event by event.
#[derive(Debug)]
pub struct RecordedRun {
    header: JournalHeader,
    path: PathBuf,
    timeline: Timeline,
    /// When the last event happened.
    last: Option<Timestamp>,
    denials: Denials,
}

impl RecordedRun {
    /// The session with this header, whose journal is at `path`.
    #[must_use]
    pub fn new(header: JournalHeader, path: &Path) -> Self {
        let (timeline, denials) = (Timeline::default(), Denials::default());
        Self { header, path: path.to_owned(), timeline, last: None, denials }
    }

    /// The session after all events so far.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.timeline.session()
    }

    /// For how long no process carried the session before this event, in milliseconds.
    #[must_use]
    pub fn gap_before(&self, stamped: &Stamped) -> u64 {
        match &stamped.event {
            Event::SessionResumed { .. } | Event::TaskTakenUp { .. } => {
                self.last.map_or(0, |last| stamped.at.since(last))
            }
            _ => 0,
        }
    }

    /// Folds an event, and gives the live events for it. An end comes again when more becomes known of it
    /// ([`Event::completes_end`]).
    pub fn take(&mut self, stamped: &Stamped) -> Vec<RunEvent> {
        self.last = Some(stamped.at);
        // Live events do not name records.
        let (reaction, entries) = self.timeline.step(0, stamped);
        self.denials.take(&stamped.event, &reaction.notes);
        entries.into_iter().filter_map(|TimelineEntry { at, fact, .. }| self.live(fact, at)).collect()
    }

    fn live(&self, fact: Fact, at: Timestamp) -> Option<RunEvent> {
        match fact {
            Fact::TaskStarted { task } => self.started(task, at, false),
            Fact::TaskContinued { task } => self.started(task, at, true),
            Fact::TaskTakenUp => Some(RunEvent::warning("the task was taken up again, with these limits")),
            Fact::ModelReplied(reply) => {
                let (agent, text) = (reply.call.purpose.to_string(), reply.message.text());
                (!text.trim().is_empty()).then_some(RunEvent::TextDelta { agent, text })
            }
            Fact::CancelRequested { reason } => {
                Some(RunEvent::warning(format!("the run was asked to stop: {reason}")))
            }
            Fact::AgentsReloaded => {
                Some(RunEvent::warning("the configuration changed; the new one applies from now on"))
            }
            Fact::SessionResumed => Some(RunEvent::warning("another process resumed the session")),
            Fact::Ended(outcome) => {
                let finished = RunEvent::finished(&self.header.session, *outcome);
                Some(finished.answered_by(self.session()).denied(&self.denials))
            }
            fact => RunEvent::of_fact(fact, at),
        }
    }

    /// The live event for a task that began.
    fn started(&self, task: String, at: Timestamp, continued: bool) -> Option<RunEvent> {
        let (header, session) = (&self.header, self.session());
        let setup = session.setup()?;
        Some(RunEvent::SessionStarted {
            session: header.session.clone(),
            task,
            at,
            agents: setup.agents.keys().cloned().collect(),
            journal: self.path.display().to_string(),
            resumed: continued,
            continued,
            forked_from: header.forked_from.clone(),
            dry_run: false,
            limits: Some(setup.limits),
            so_far: continued.then(|| {
                let earlier_iterations = session.earlier_executions();
                Box::new(SoFar { earlier_iterations, cost_usd: Some(0.0), ..SoFar::default() })
            }),
            degraded: header.degraded.clone(),
            confined: header.confined.clone(),
            instructions: InstructionsRead::of(&setup.place),
            skills: setup.place.skills.iter().map(|skill| skill.name.clone()).collect(),
        })
    }
}
