//! The events of a session as a live run sends them, derived from its journal: for `sessions show` and `watch`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rawko::journal::{JournalHeader, JournalTail, Record};
use rawko::worktree::project_of;
use rawko::{Denials, InstructionsRead, RunEvent};
use rawko_core::Timestamp;
use rawko_core::session::{Effect, EffectAnswer, EffectId, Event, Session, SoFar, Stamped};
use rawko_core::setup::Setup;

use crate::reporters::Reporter;

/// Tells a reporter what the session at `path` has done, before it is carried on. What cannot be read is left out: resuming has
/// read it before.
pub(crate) fn recall(path: &Path, reporter: &mut dyn Reporter) {
    let Ok(mut tail) = JournalTail::open(path) else { return };
    let mut run = RecordedRun::new(tail.header().clone(), path);
    let mut last: Option<(u64, Timestamp, Vec<RunEvent>)> = None;
    while let Ok(Some(record)) = tail.next_record() {
        if let Some((gap, at, events)) = last.take() {
            reporter.gap(gap);
            reporter.recalled(&events, at);
        }
        if let Record::Event(stamped) = record {
            last = Some((run.gap_before(&stamped), stamped.at, run.take(&stamped)));
        }
    }
    if let Some((gap, at, mut events)) = last {
        // What the last event led to was not recorded, so the process that goes on tells it.
        events.retain(|event| !matches!(event, RunEvent::Note(_) | RunEvent::ToolBegun { .. }));
        reporter.gap(gap);
        reporter.recalled(&events, at);
    }
}

/// A session that is folded event by event.
pub(crate) struct RecordedRun {
    header: JournalHeader,
    path: PathBuf,
    session: Session,
    /// Who asked each model call.
    speakers: BTreeMap<EffectId, String>,
    /// When the last event happened.
    last: Option<Timestamp>,
    denials: Denials,
}

impl RecordedRun {
    /// The session with this header, whose journal is at `path`.
    pub(crate) fn new(header: JournalHeader, path: &Path) -> Self {
        let (session, speakers, denials) = (Session::new(), BTreeMap::new(), Denials::default());
        Self { header, path: path.to_owned(), session, speakers, last: None, denials }
    }

    /// The session after all events so far.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The work tree in which it works, where that is not the project's folder.
    pub(crate) fn tree(&self) -> Option<PathBuf> {
        // PROJECT/.rawko/sessions/ID/journal.jsonl
        let project = self.path.ancestors().nth(4)?.canonicalize().ok()?;
        let tree = PathBuf::from(&self.session.setup()?.place.directory);
        let is_of_project =
            || project_of(&tree).and_then(|main| main.canonicalize().ok()) == Some(project.clone());
        (tree != project && is_of_project()).then_some(tree)
    }

    /// For how long no process carried the session before this event, in milliseconds.
    pub(crate) fn gap_before(&self, stamped: &Stamped) -> u64 {
        match &stamped.event {
            Event::SessionResumed { .. } | Event::TaskTakenUp { .. } => {
                self.last.map_or(0, |last| stamped.at.since(last))
            }
            _ => 0,
        }
    }

    /// Folds an event, and gives the live events for it. An end comes again when it is known what was changed, after
    /// [`Event::FinalTreeInspected`].
    pub(crate) fn take(&mut self, stamped: &Stamped) -> Vec<RunEvent> {
        let mut events: Vec<RunEvent> = self.reported(stamped).into_iter().collect();
        let ended = match &stamped.event {
            Event::Answered { effect, answer: EffectAnswer::ToolFinished { .. } } => {
                self.session.open_call(*effect)
            }
            _ => None,
        };
        self.last = Some(stamped.at);
        let reaction = self.session.apply(stamped);
        self.denials.take(&stamped.event, &reaction.notes);
        events.extend(reaction.notes.iter().cloned().map(RunEvent::Note));
        for effect in &reaction.effects {
            events.extend(RunEvent::of_effect(effect, &self.session, stamped.at));
            if let Effect::CallModel { id, purpose, .. } = effect {
                self.speakers.insert(*id, purpose.to_string());
            }
            if let Some(outcome) = effect.outcome() {
                let finished = RunEvent::finished(&self.header.session, outcome.clone());
                events.push(finished.answered_by(&self.session).denied(&self.denials));
            }
        }
        events.extend(RunEvent::of_untold_end(&stamped.event, ended, &reaction));
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
            so_far: continued.then(|| {
                let earlier_iterations = self.session.executions();
                Box::new(SoFar { earlier_iterations, cost_usd: Some(0.0), ..SoFar::default() })
            }),
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
