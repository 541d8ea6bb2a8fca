//! The driver: for each event it appends the event to the journal, applies it, appends the effects, then performs
//! them. It makes no decisions; `perform` knows how to perform an effect.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use rawko_core::machine::State;
use rawko_core::request::ModelRequest;
use rawko_core::session::{
    Effect, EffectAnswer, EffectId, Event, Landing, LandingEnd, Lost, Note, Outcome, Override, Reaction,
    SoFar, Stamped,
};
use rawko_core::setup::{RunLimits, VerifySetup};
use rawko_core::timeline::{Fact, Timeline};
use rawko_core::{ErrorCode, ErrorInfo};
use tokio::sync::mpsc;

use crate::channel::beside::Neighbours;
use crate::channel::control::{DriverMessage, Signals, Steered};
use crate::channel::steering::Mailbox;
use crate::clock::now;
use crate::error::Error;
use crate::history::explain::explain;
use crate::isolation::{IsolatedTree, LandingPolicy};
use crate::journal::{Folded, JournalWriter, StepRecord, begins_execution, read};
use crate::redact::Redactor;
use crate::run::denials::Denials;
use crate::run::effects::RunningEffects;
use crate::run::event::RunEvent;
use crate::run::hub::Hub;
use crate::run::perform::Performer;
use crate::run::reload::{Change, Reloader};
use crate::run::snapshot::Snapshots;
use crate::telemetry::RunTelemetry;

/// How a run starts.
pub(crate) enum Start {
    /// A new run, with this event.
    New(Event),
    /// A run that goes on after the end of a session's last task, with this event.
    Continued {
        /// The state that the journal leads to.
        folded: Box<Folded>,
        /// The event that begins it.
        event: Event,
        /// Size of an incomplete record at the journal's end, which was removed, in bytes.
        torn_bytes: usize,
    },
    /// A resumed run.
    Resumed {
        /// The state that the journal leads to.
        folded: Box<Folded>,
        /// Files that agents had read and that have changed since.
        changed_files: Vec<String>,
        /// New verification commands, if the caller set some.
        verify: Option<VerifySetup>,
        /// New limits, if the caller set some.
        limits: Option<RunLimits>,
        /// What was lost before.
        lost: Lost,
        /// Size of an incomplete record at the journal's end, which was removed, in bytes.
        torn_bytes: usize,
    },
}

/// What a session did before, as far as a performer has to know it.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// The highest number of a background job that the session has had.
    pub(crate) last_job: u32,
    /// The executions of the session's earlier tasks.
    pub(crate) earlier_executions: u32,
    /// Executions before the task whose beginning the checks are compared with.
    pub(crate) checks_since: u32,
    /// Whether a tree was kept for it.
    pub(crate) has_kept: bool,
    /// Whether the verification commands passed, by the tree that they last ran on.
    pub(crate) verified: BTreeMap<String, bool>,
}

impl Past {
    /// The past of a session whose present task goes on.
    pub(crate) fn of(folded: &Folded) -> Self {
        Self {
            last_job: folded.last_job,
            earlier_executions: folded.session.earlier_executions(),
            checks_since: folded.checks_since,
            has_kept: folded.has_kept,
            verified: folded.verified.clone(),
        }
    }
}

impl Start {
    pub(crate) fn past(&self) -> Past {
        match self {
            Self::New(_) => Past::default(),
            // All that was done belongs to earlier tasks.
            Self::Continued { folded, event: Event::TaskContinued { .. }, .. } => Past {
                earlier_executions: folded.session.executions(),
                checks_since: folded.checks_of_next_task(),
                ..Past::of(folded)
            },
            Self::Continued { folded, .. } | Self::Resumed { folded, .. } => Past::of(folded),
        }
    }

    /// Whether an execution may go on that was begun before.
    pub(crate) fn goes_on(&self) -> bool {
        match self {
            Self::New(_) | Self::Continued { event: Event::TaskContinued { .. }, .. } => false,
            Self::Continued { .. } | Self::Resumed { .. } => true,
        }
    }
}

impl Start {
    /// The limits, where the caller has set others than the session's.
    pub(crate) fn limits(&self) -> Option<RunLimits> {
        match self {
            Self::Resumed { limits, .. } => *limits,
            Self::New(_) | Self::Continued { .. } => None,
        }
    }

    /// What counts towards them already.
    pub(crate) fn so_far(&self) -> Option<SoFar> {
        match self {
            Self::New(_) => None,
            Self::Continued { folded, event: Event::TaskContinued { .. }, .. } => {
                let earlier_iterations = folded.session.executions();
                Some(SoFar { earlier_iterations, cost_usd: Some(0.0), ..SoFar::default() })
            }
            Self::Continued { folded, .. } | Self::Resumed { folded, .. } => folded.session.so_far(),
        }
    }
}

/// Drives one run.
pub(crate) struct Driver {
    /// Dropped first: nothing works on the session any more when the journal's lock is released.
    effects: RunningEffects,
    timeline: Timeline,
    id: String,
    journal: JournalWriter,
    redactor: Arc<Redactor>,
    reloader: Option<Reloader>,
    hub: Hub,
    snapshots: Snapshots,
    signals: Signals,
    inbox: mpsc::UnboundedReceiver<DriverMessage>,
    /// The record that started the latest execution, if known.
    execution_begun: Option<u64>,
    denials: Denials,
    /// Where other processes leave commands of the user; absent where the user has no key.
    mailbox: Option<Mailbox>,
    telemetry: RunTelemetry,
    /// The process file, removed when the run is over.
    scratch: Option<tempfile::TempDir>,
    neighbours: Option<Neighbours>,
    landing: Option<TreeToLand>,
}

/// The tree of an isolated run, and when its work lands if the user has said so since it was made.
pub(crate) struct TreeToLand {
    pub(crate) tree: Arc<IsolatedTree>,
    pub(crate) policy: Option<LandingPolicy>,
}

impl Driver {
    pub(crate) fn new(
        id: String,
        journal: JournalWriter,
        performer: Performer,
        redactor: Arc<Redactor>,
        reloader: Option<Reloader>,
        (hub, snapshots): (Hub, Snapshots),
        (signals, inbox): (Signals, mpsc::UnboundedReceiver<DriverMessage>),
    ) -> Self {
        Self {
            effects: RunningEffects::new(Arc::new(performer)),
            timeline: Timeline::default(),
            id,
            journal,
            redactor,
            reloader,
            hub,
            snapshots,
            signals,
            inbox,
            execution_begun: None,
            denials: Denials::default(),
            mailbox: None,
            telemetry: RunTelemetry::default(),
            scratch: None,
            neighbours: None,
            landing: None,
        }
    }

    /// Deletes this folder at the end of the run.
    pub(crate) fn with_scratch(self, scratch: Option<tempfile::TempDir>) -> Self {
        Self { scratch, ..self }
    }

    /// Takes commands from there.
    pub(crate) fn with_mailbox(self, mailbox: Option<Mailbox>) -> Self {
        Self { mailbox, ..self }
    }

    /// Looks for others that begin in the same folder.
    pub(crate) fn with_neighbours(self, neighbours: Option<Neighbours>) -> Self {
        Self { neighbours, ..self }
    }

    /// Reports spans and metrics.
    pub(crate) fn with_telemetry(self, telemetry: RunTelemetry) -> Self {
        Self { telemetry, ..self }
    }

    /// Lands the work at the end.
    pub(crate) fn landing(self, landing: Option<TreeToLand>) -> Self {
        Self { landing, ..self }
    }

    /// Drives the run from `start` to its end.
    pub(crate) async fn drive(mut self, start: Start, started: RunEvent) -> Result<Outcome, Error> {
        self.hub.send(&started);
        let signals = self.signals.clone();
        if let Some(mailbox) = self.mailbox.take() {
            self.effects.accompany(Box::pin(mailbox.deliver(signals)));
        }
        // An embedder's function may panic in it as well.
        let run = AssertUnwindSafe(self.run(start)).catch_unwind().await;
        let mut result = run.unwrap_or_else(|panic| Err(self.panicked(panic.as_ref())));
        self.end_effects().await;
        // A session that is suspended goes on: its hooks are asked at its end.
        if !matches!(result, Err(Error::Suspended { .. })) {
            let status = result.as_ref().map_or("failed", |outcome| outcome.status.as_str());
            for problem in self.performer().run_end_hooks(status).await {
                self.hub.send(&RunEvent::warning(self.redactor.text(&problem)));
            }
        }
        // What such a hook changed is seen with the rest.
        if let Ok(outcome) = &mut result {
            self.look_at_the_end(outcome).await;
        }
        Arc::clone(self.performer()).keep_end().await;
        if let Ok(outcome) = &mut result {
            self.land(outcome).await;
        }
        self.effects.close();
        let finished = match &result {
            Ok(outcome) => RunEvent::finished(&self.id, outcome.clone()),
            Err(Error::Suspended { session }) => RunEvent::SessionSuspended { session: session.clone() },
            Err(error) => {
                // The end cannot be journaled, but the event streams still report it.
                let code = match error {
                    Error::Journal(_) => ErrorCode::JournalIncomplete,
                    _ => ErrorCode::Unknown,
                };
                let error = ErrorInfo::new(code, error.to_string());
                RunEvent::finished(&self.id, self.timeline.session().broken_off(now(), error))
            }
        };
        let finished = finished.answered_by(self.timeline.session()).denied(&self.denials);
        // A dry run's journal is deleted, so its last event contains the decisions and their inputs.
        let finished = match &self.scratch {
            Some(_) => {
                finished.of_dry_run(read(self.journal.path()).map(|it| explain(&it)).unwrap_or_default())
            }
            None => finished,
        };
        self.hub.send(&finished);
        result
    }

    async fn run(&mut self, start: Start) -> Result<Outcome, Error> {
        if let Some(outcome) = self.begin(start)? {
            return Ok(outcome);
        }
        loop {
            let signal = tokio::select! {
                biased;
                signal = self.inbox.recv() => signal,
                // What it has to say is in the inbox.
                () = self.effects.advance() => continue,
            };
            // The driver itself owns a sender, so the inbox never closes before the run is over.
            let Some(signal) = signal else { return Err(Error::Interrupted) };
            match signal {
                DriverMessage::Progress(event) => self.hub.send(&event),
                DriverMessage::Accompany(work) => self.effects.accompany(work),
                DriverMessage::Suspend if self.scratch.is_none() => {
                    return Err(Error::Suspended { session: self.id.clone() });
                }
                DriverMessage::Suspend => {
                    let reason = "a dry run cannot be suspended".to_owned();
                    if let Some(outcome) = self.happened(Event::CancelRequested { reason })? {
                        return Ok(outcome);
                    }
                }
                DriverMessage::Happened(event) => {
                    let beside = self.neighbours.as_mut().map(Neighbours::new_ones).unwrap_or_default();
                    if !beside.is_empty() {
                        let _ = self.happened(Event::RanBeside { sessions: beside })?;
                    }
                    if let Some(outcome) = self.happened(event)? {
                        return Ok(outcome);
                    }
                }
                DriverMessage::Steer { command, request, reply } => {
                    let ignored = self.timeline.session().refusal(&command);
                    let is_reset = command == Override::Reset && ignored.is_none();
                    let outcome = self.happened(Event::OverrideRequested { command, request })?;
                    if is_reset {
                        // Nothing of what is forgotten goes on.
                        self.performer().interrupt();
                    }
                    if let Some(reply) = reply {
                        // The sender may have stopped waiting for it.
                        let _ = reply.send(Steered::of(ignored));
                    }
                    if let Some(outcome) = outcome {
                        return Ok(outcome);
                    }
                }
            }
        }
    }

    fn performer(&self) -> &Arc<Performer> {
        self.effects.performer()
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Error::Panicked { message: self.redactor.text(text.unwrap_or("a panic without a message")) }
    }

    fn begin(&mut self, start: Start) -> Result<Option<Outcome>, Error> {
        match start {
            Start::New(event) => self.happened(event),
            Start::Continued { folded, event, torn_bytes } => {
                self.report_torn(torn_bytes);
                // The end of the last task, if its record is missing.
                let undone = self.go_on_after(*folded);
                self.settle_undone(undone)?;
                self.happened(event)
            }
            Start::Resumed { folded, changed_files, verify, limits, lost, torn_bytes } => {
                self.report_torn(torn_bytes);
                self.take_up(*folded, Event::SessionResumed { changed_files, verify, limits, lost })
            }
        }
    }

    /// Takes the state that the journal leads to. Gives what its last event led to and the journal does not hold.
    fn go_on_after(&mut self, folded: Folded) -> Reaction {
        let Folded { session, execution_begun, denials, unrecorded, .. } = folded;
        self.timeline = Timeline::after(session);
        (self.execution_begun, self.denials) = (execution_begun, denials);
        unrecorded.unwrap_or_default()
    }

    fn settle_undone(&mut self, undone: Reaction) -> Result<Option<Outcome>, Error> {
        let facts = self.timeline.led_to(&undone);
        self.settle(undone, facts)
    }

    fn report_torn(&mut self, torn_bytes: usize) {
        if torn_bytes > 0 {
            let message =
                format!("the journal ended in an incomplete record ({torn_bytes} bytes), which was removed");
            self.hub.send(&RunEvent::warning(message));
        }
    }

    /// Continues at the journal's end. Answers to recorded effects are lost; effects that were not recorded were not
    /// performed, and are performed now.
    fn take_up(&mut self, folded: Folded, resumed: Event) -> Result<Option<Outcome>, Error> {
        let undone = self.go_on_after(folded);
        let undone_ids: Vec<EffectId> = undone.effects.iter().filter_map(Effect::awaits_answer).collect();
        let lost: Vec<EffectId> =
            self.timeline.session().open_effects().filter(|effect| !undone_ids.contains(effect)).collect();
        for (agent, call) in lost.iter().filter_map(|effect| self.timeline.session().open_call(*effect)) {
            self.performer().clear_up(&agent, &call);
        }
        let mut outcome = self.settle_undone(undone)?;
        for event in std::iter::once(resumed).chain(
            lost.into_iter().map(|effect| Event::Answered { effect, answer: EffectAnswer::EffectLost }),
        ) {
            if outcome.is_none() {
                outcome = self.happened(event)?;
            }
        }
        Ok(outcome)
    }

    /// Handles one event. Returns the outcome if the run is over.
    fn happened(&mut self, mut event: Event) -> Result<Option<Outcome>, Error> {
        // Redact before reporting, journaling or applying: a resume folds the journal, and must derive the same requests.
        self.redactor.event(&mut event);
        let stamped = Stamped { at: now(), event };
        let record = self.journal.next_seq();
        self.journal.event(&stamped)?;
        let (reaction, entries) = self.timeline.step(record, &stamped);
        self.denials.take(&stamped.event, &reaction.notes);
        let session = self.timeline.session();
        self.telemetry.step(&entries, session);
        let (event, state) = (stamped.event.name(), session.state().as_str());
        let context = session.context();
        let agent = context.map(|context| context.current_mode.as_str()).filter(|agent| !agent.is_empty());
        let iteration = context.map(|context| context.iteration_count);
        tracing::debug!(record, event, state, agent, iteration, "event");
        if begins_execution(&reaction) {
            self.execution_begun = Some(record);
        }
        self.settle(reaction, entries.into_iter().map(|entry| entry.fact).collect())
    }

    /// Journals what an event led to, syncs the journal, reports it, and only then performs the effects.
    fn settle(&mut self, reaction: Reaction, facts: Vec<Fact>) -> Result<Option<Outcome>, Error> {
        let step = StepRecord::of(&reaction.effects, &reaction.notes);
        if !step.is_empty() {
            self.journal.step(&step)?;
        }
        self.journal.commit()?;
        self.snapshots.update(&self.id, &self.timeline);
        for event in facts.into_iter().filter_map(|fact| RunEvent::of_fact(fact, now())) {
            self.hub.send(&event);
        }
        for note in &reaction.notes {
            self.record_uses(note);
            if let Note::DecisionMade(decision) = note {
                self.performer().remember(decision);
            }
        }
        let mut outcome = None;
        let mut requests = reaction.requests;
        for effect in reaction.effects {
            outcome = self.perform(effect, &mut requests).or(outcome);
        }
        if outcome.is_none() && reaction.notes.iter().any(ends_iteration) {
            self.reload();
        }
        Ok(outcome)
    }

    /// Starts an effect; a model call takes its request. Returns the outcome if the run is over.
    fn perform(
        &mut self,
        effect: Effect,
        requests: &mut BTreeMap<EffectId, ModelRequest>,
    ) -> Option<Outcome> {
        match effect {
            Effect::Finish { outcome } => return Some(*outcome),
            Effect::Abandon { id } => self.effects.abandon(id),
            _ => {}
        }
        let id = effect.awaits_answer()?;
        let request = requests.remove(&id);
        // The step that issued the effect is the last record: it was written before any effect is performed.
        let last = self.journal.next_seq().saturating_sub(1);
        let records = self.execution_begun.into_iter().chain([last]).collect();
        let traceparent = self.telemetry.traceparent(id);
        let signals = self.signals.clone();
        let performed =
            Arc::clone(self.performer()).perform(effect, request, records, traceparent, signals.clone());
        self.effects.begin(id, async move {
            if let Some(answer) = performed.await {
                let _ = signals.send(DriverMessage::Happened(Event::answered(id, answer)));
            }
        });
        None
    }

    /// Records which memories helped, next to the memories, for later runs. The journal has it too.
    fn record_uses(&mut self, note: &Note) {
        let Note::MemoriesUsed { agent, iteration, uses } = note else { return };
        if self.scratch.is_some() {
            return;
        }
        if let Err(error) = self.performer().memory.record(agent, *iteration, uses) {
            let message = format!("cannot record which memories helped: {error}");
            self.hub.send(&RunEvent::warning(message));
        }
    }

    /// Applies changes of the configuration between iterations, if the user trusts them. Any other change is reported.
    fn reload(&mut self) {
        let Some(reloader) = &mut self.reloader else { return };
        let message = match reloader.changed() {
            None => return,
            Some(Change::Taken(agents)) => {
                self.effects.performer().grant(&agents);
                let event = Event::AgentsReloaded { agents };
                let _ = self.signals.send(DriverMessage::Happened(event));
                "the configuration changed; the new one applies from now on".to_owned()
            }
            Some(Change::Untrusted) => {
                "the configuration changed; the old one stays until you have read the \
                                        change and trust it: rawko trust"
                    .to_owned()
            }
            Some(Change::Broken(error)) => {
                format!("the configuration changed, but has errors; the old one stays in force: {error}")
            }
        };
        self.hub.send(&RunEvent::warning(message));
    }

    /// Completes the outcome of a run whose last work was cut off: nothing writes any more, so the tree shows what was
    /// changed. Where it cannot be seen, the outcome says so already.
    async fn look_at_the_end(&mut self, outcome: &mut Outcome) {
        let Some(iteration) = self.timeline.session().unseen_tree() else { return };
        if let EffectAnswer::TreeInspected { inspection } = self.performer().inspect_tree(iteration).await
            && let Ok(Some(complete)) = self.happened(Event::FinalTreeInspected { inspection })
        {
            *outcome = complete;
        }
    }

    /// Lands the work of an isolated run, if it ended as that asks for.
    async fn land(&mut self, outcome: &mut Outcome) {
        let Some(TreeToLand { tree, policy }) = self.landing.take() else { return };
        let ended = outcome.clone();
        let landed = rawko_tools::on_thread(move || tree.end(policy, &ended)).await;
        let landing = landed.unwrap_or_else(|_| Landing::of(LandingEnd::Failed));
        match self.happened(Event::WorkLanded { landing: landing.clone() }) {
            Ok(Some(complete)) => *outcome = complete,
            // It is in the tree's folder all the same.
            Ok(None) | Err(_) => outcome.landing = Some(landing),
        }
    }

    /// Stops all running effects, and waits until they have ended. This includes child processes, also those of
    /// background jobs.
    async fn end_effects(&mut self) {
        let left = self.effects.end().await;
        if left.commands > 0 {
            let left = left.commands;
            let commands = if left == 1 { "1 command".to_owned() } else { format!("{left} commands") };
            let message = format!("{commands} could not be stopped and may still run");
            self.hub.send(&RunEvent::warning(message));
        }
        if left.works > 0 {
            let message = "work of rawko's own on files has not ended and may still change them: wait a moment before \
                           you look at them";
            self.hub.send(&RunEvent::warning(message));
        }
    }
}

fn ends_iteration(note: &Note) -> bool {
    matches!(note, Note::StateChanged { to: State::Evaluating | State::Selecting, .. })
}
