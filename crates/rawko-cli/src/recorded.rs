//! The events of a session as a live run sends them, derived from its journal: for `sessions show` and `watch`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawko::journal::JournalHeader;
use rawko::{InstructionsRead, RunEvent};
use rawko_core::session::{Effect, EffectAnswer, EffectId, Event, Session, Stamped};
use rawko_core::setup::Setup;

/// A session that is folded event by event.
pub(crate) struct RecordedRun {
    header: JournalHeader,
    path: PathBuf,
    session: Session,
    /// Who asked each model call.
    speakers: BTreeMap<EffectId, String>,
}

impl RecordedRun {
    /// The session with this header, whose journal is at `path`.
    pub(crate) fn new(header: JournalHeader, path: &Path) -> Self {
        Self { header, path: path.to_owned(), session: Session::new(), speakers: BTreeMap::new() }
    }

    /// The session after all events so far.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Folds an event, and gives the live events for it. An end comes again when it is known what was changed, after
    /// [`Event::FinalTreeInspected`].
    pub(crate) fn take(&mut self, stamped: &Stamped) -> Vec<RunEvent> {
        let mut events: Vec<RunEvent> = self.reported(stamped).into_iter().collect();
        let reaction = self.session.apply(stamped);
        events.extend(reaction.notes.iter().cloned().map(RunEvent::Note));
        for effect in &reaction.effects {
            events.extend(RunEvent::of_effect(effect, &self.session, stamped.at));
            if let Effect::CallModel { id, purpose, .. } = effect {
                self.speakers.insert(*id, purpose.to_string());
            }
            if let Some(outcome) = effect.outcome() {
                events.push(RunEvent::finished(&self.header.session, outcome.clone()));
            }
        }
        events
    }

    /// The live event for a journaled event itself, before its notes.
    fn reported(&self, stamped: &Stamped) -> Option<RunEvent> {
        let header = &self.header;
        let started = |task: &str, setup: &Setup, continued: bool| RunEvent::SessionStarted {
            session: header.session.clone(),
            task: task.to_owned(),
            at: stamped.at,
            agents: setup.agents.keys().cloned().collect(),
            journal: self.path.display().to_string(),
            resumed: continued,
            continued,
            forked_from: header.forked_from.clone(),
            dry_run: false,
            limits: Some(setup.limits),
            degraded: header.degraded.clone(),
            confined: header.confined.clone(),
            instructions: InstructionsRead::of(&setup.place),
            skills: setup.place.skills.iter().map(|skill| skill.name.clone()).collect(),
        };
        match &stamped.event {
            Event::TaskStarted { task, setup, .. } => Some(started(task, setup, false)),
            Event::TaskContinued { task, setup, .. } => Some(started(task, setup, true)),
            Event::TaskTakenUp { .. } => {
                Some(RunEvent::warning("the task was taken up again, with these limits"))
            }
            Event::Answered { effect, answer: EffectAnswer::ModelReplied { message, .. } } => {
                let text = message.text();
                let agent = self.speakers.get(effect).cloned().unwrap_or_default();
                (!text.trim().is_empty()).then_some(RunEvent::TextDelta { agent, text })
            }
            Event::Answered { answer: EffectAnswer::ModelFailed { error, .. }, .. } => {
                Some(RunEvent::Error { error: error.clone() })
            }
            Event::CancelRequested { reason } => {
                Some(RunEvent::warning(format!("the run was asked to stop: {reason}")))
            }
            Event::AgentsReloaded { .. } => {
                Some(RunEvent::warning("the configuration changed; the new one applies from now on"))
            }
            Event::SessionResumed { .. } => Some(RunEvent::warning("another process resumed the session")),
            Event::Answered { answer: EffectAnswer::ToolFinished { .. }, .. }
            | Event::Answered { answer: EffectAnswer::ApprovalAnswered { .. }, .. }
            | Event::Answered { answer: EffectAnswer::CheckpointTaken { .. }, .. }
            | Event::Answered { answer: EffectAnswer::CheckpointFailed { .. }, .. }
            | Event::Answered { answer: EffectAnswer::TreeInspected { .. }, .. }
            | Event::Answered { answer: EffectAnswer::MemoriesRecalled { .. }, .. }
            | Event::Answered { answer: EffectAnswer::MemoryKept { .. }, .. }
            | Event::Answered { answer: EffectAnswer::TreeInspectionFailed { .. }, .. }
            | Event::Answered { answer: EffectAnswer::VerificationFinished { .. }, .. }
            | Event::Answered { answer: EffectAnswer::TimerFired, .. }
            | Event::Answered { answer: EffectAnswer::EffectLost, .. }
            | Event::FinalTreeInspected { .. }
            | Event::RanBeside { .. }
            | Event::OverrideRequested { .. } => None,
        }
    }
}
