//! Sessions that are driven elsewhere: by a durable-execution engine, whose worker machines perform single effects.
//!
//! The engine holds the pure [`Session`](rawko_core::session::Session) and the queue of its effects. This module gives what
//! it needs from a project: the event that opens a session, and a performer of effects. It keeps no journal and applies no
//! events.

pub(crate) mod adopting;
pub(crate) mod keyless;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rawko_core::message::ToolCall;
use rawko_core::request::ModelRequest;
use rawko_core::session::{Effect, EffectAnswer, EffectId, Event, Stamped};
use rawko_tools::FileTracker;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::channel::control::DriverMessage;
use crate::clock::now;
use crate::error::Error;
use crate::journal::{Folded, JournalError, JournalHeader, JournalWriter, Record, SeenByAgent, fold};
use crate::redact::Redactor;
use crate::run::driver::Past;
use crate::run::event::RunEvent;
use crate::run::launch::PerformerParts;
use crate::run::perform::Performer;
use crate::run::resume::{end_commands, lost, nothing_to_do, take_scripts_up, track, without_task};
use crate::session_id;
use crate::setup::assemble::Providers;
use crate::setup::rawko::{Prepared, Rawko};
use crate::telemetry::{self, SessionTrace};

/// How a session begins that is driven elsewhere.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The first event: the task, and everything that the session is made of.
    pub event: Event,
    /// The header of its journal, without a seal.
    pub header: JournalHeader,
}

/// A session of this project that goes on elsewhere.
#[derive(Debug, Clone)]
pub struct HandOver {
    /// The header of its journal.
    pub header: JournalHeader,
    /// Its events so far.
    pub events: Vec<Stamped>,
    /// The event with which it goes on. The effects that were open before it are lost.
    pub resumed: Event,
    /// Files that belong to it besides its journal, by name: the checks that its tasks began with.
    pub records: Vec<(String, Vec<u8>)>,
}

impl Rawko {
    /// The opening of a session that is driven elsewhere, with the id `session`, or a new one. Its agents see `directory` as
    /// the project's, because the tree has another path on each machine.
    ///
    /// # Errors
    /// As [`Rawko::run`].
    pub fn opening(&self, session: Option<&str>, task: &str, directory: &str) -> Result<Opening, Error> {
        self.check_hooks()?;
        let Prepared { task, mut setup, providers: _ } = self.prepare(task)?;
        directory.clone_into(&mut setup.place.directory);
        let new = || session_id::new(now());
        let header = self.header(&session.map_or_else(new, str::to_owned), &task, &setup, None)?;
        let header = JournalHeader { seal: None, ..header };
        let event = Event::TaskStarted { task, setup: Box::new(setup), shared_events: 0 };
        Ok(Opening { event, header })
    }

    /// Hooks belong to one machine, and a guard that is left out is worse than a refusal.
    fn check_hooks(&self) -> Result<(), Error> {
        let Some(hook) = self.config().hooks.first() else { return Ok(()) };
        Err(Error::Setup {
            message: format!(
                "hooks do not run on the workers of a fleet, and {} has some",
                hook.path.display()
            ),
            hint: "run the task here, with rawko run, or take the hooks out".to_owned(),
        })
    }

    /// Takes the secrets that this process knows out of what its user says.
    #[must_use]
    pub fn event_redactor(&self) -> EventRedactor {
        let provider = &self.config().config.provider;
        let names = provider.named.keys().chain(&provider.default);
        let with_keys: Providers =
            names.filter_map(|name| Some((name.clone(), self.provider(name).ok()?))).collect();
        EventRedactor(self.redactor(&with_keys))
    }

    /// Hands a session of this project over to the program that drives it elsewhere: one that has not ended, or that a
    /// limit or its provider ended. Nothing of it changes here.
    ///
    /// # Errors
    /// As [`Rawko::resume`].
    pub fn hand_over(&self, id: &str) -> Result<HandOver, Error> {
        self.check_hooks()?;
        // Locked in the meantime, so that no other process runs it.
        let (journal, old) = JournalWriter::reopen(&self.sessions().find(id)?)?;
        self.check_origin(&old.header)?;
        let session = old.header.session.clone();
        let folded = fold(&old);
        if let Some(divergence) = folded.divergence {
            return Err(Error::Diverged { session, divergence });
        }
        let Some(setup) = folded.session.setup().cloned() else { return Err(without_task(&session)) };
        self.check_rights(&session, &setup)?;
        end_commands(&session, &journal)?;
        let (changed_files, verify, lost) = (Vec::new(), self.verify_anew(), lost(&old, &folded));
        let limits = self.raised(&setup.limits);
        let resumed = match folded.session.outcome() {
            None => {
                let limits = (limits != setup.limits).then_some(limits);
                Event::SessionResumed { changed_files, verify, limits, lost }
            }
            Some(outcome) if outcome.can_be_taken_up() => {
                if let Some(limit) = self.standing(&setup.limits, &outcome) {
                    return Err(Error::LimitStands { session, limit, summary: outcome.summary });
                }
                Event::TaskTakenUp { limits, changed_files, verify, lost }
            }
            Some(_) => return Err(nothing_to_do(&session, "it has ended")),
        };
        let directory = journal.path().parent().unwrap_or(Path::new("."));
        let records = records(directory)
            .map_err(|error| JournalError::io("cannot read the files of the session in", directory, error))?;
        let events = old.records.into_iter().filter_map(|record| match record {
            Record::Event(stamped) => Some(*stamped),
            Record::Step(_) => None,
        });
        Ok(HandOver { events: events.collect(), resumed, records, header: old.header })
    }

    /// What performs the effects of the session of `header`, whose events lead to `folded`. Files that belong to the session are kept in
    /// `directory`, as in the session's folder.
    ///
    /// # Errors
    /// [`Error::Setup`] if no task has begun or the tools cannot be made; [`Error::NoKey`] if a provider's key is missing.
    pub fn effect_performer(
        &self,
        header: &JournalHeader,
        folded: &Folded,
        directory: &Path,
    ) -> Result<EffectPerformer, Error> {
        let session = header.session.as_str();
        let (Some(setup), Some(context)) = (folded.session.setup(), folded.session.context()) else {
            return Err(Error::Setup {
                message: format!("session {session} has no task yet"),
                hint: "its first event opens it".to_owned(),
            });
        };
        let providers = self.providers(setup)?;
        let missing = |name: &String| match self.provider(name) {
            Err(error @ Error::NoKey { .. }) => Some((name.clone(), error.to_string())),
            _ => None,
        };
        let keyless = providers.keys().filter_map(missing).collect();
        take_scripts_up(&providers, folded);
        let tracker = Arc::new(FileTracker::new());
        track(&tracker, &folded.seen);
        let redactor = Arc::new(self.redactor(&providers));
        let performer = self.performer_of(PerformerParts {
            session,
            task: &context.task,
            directory,
            setup,
            providers,
            registry: self.registry(&tracker, &setup.place.skills)?,
            confinement: &self.confinement_of(setup)?,
            redactor: Arc::clone(&redactor),
            past: &Past::of(folded),
        });
        let trace = telemetry::trace(self, header);
        // A session with hooks was refused as it was opened: see `check_hooks`.
        let (performer, beside) = (Arc::new(performer.without_hooks()), Mutex::default());
        Ok(EffectPerformer { performer, redactor, tracker, trace, keyless, beside })
    }
}

/// The files of a session's folder that are the same wherever it runs.
fn records(directory: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut records = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_record_of_session(&name) && entry.file_type()?.is_file() {
            records.push((name, std::fs::read(entry.path())?));
        }
    }
    Ok(records)
}

/// Whether a file of a session's folder is the same wherever the session runs.
#[must_use]
pub fn is_record_of_session(name: &str) -> bool {
    name.starts_with("checks") && name.ends_with(".json") && !name.contains('/')
}

/// Takes secrets out of what a person says to a session that is driven elsewhere, before it leaves this process: what the engine
/// records is read by more people than the session is.
pub struct EventRedactor(Redactor);

impl std::fmt::Debug for EventRedactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventRedactor").finish_non_exhaustive()
    }
}

impl EventRedactor {
    /// The event without secrets, as a local run would apply it.
    #[must_use]
    pub fn event(&self, mut event: Event) -> Event {
        self.0.event(&mut event);
        event
    }

    /// The same for a text.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        self.0.text(text)
    }
}

/// Performs the effects of one session, one after another or side by side.
pub struct EffectPerformer {
    performer: Arc<Performer>,
    redactor: Arc<Redactor>,
    tracker: Arc<FileTracker>,
    trace: SessionTrace,
    /// Why calls of a provider cannot be made here, by its name.
    keyless: BTreeMap<String, String>,
    /// What goes on beside the effects.
    beside: Mutex<JoinSet<()>>,
}

impl std::fmt::Debug for EffectPerformer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EffectPerformer").finish_non_exhaustive()
    }
}

impl EffectPerformer {
    /// Performs `effect` and returns its answer, without secrets. `None` if it has none, or if it is a model call without its
    /// request. `records` are the journal's records that a memory is learned from. What a person may watch meanwhile goes to
    /// `progress`. Dropping the future ends the effect, child processes included.
    pub async fn perform(
        &self,
        effect: Effect,
        request: Option<ModelRequest>,
        records: Vec<u64>,
        progress: impl Fn(RunEvent) + Send,
    ) -> Option<EffectAnswer> {
        let (signals, mut inbox) = mpsc::unbounded_channel();
        let id = effect.awaits_answer()?;
        let (performer, place) = (Arc::clone(&self.performer), self.trace.traceparent(id));
        let mut performed = std::pin::pin!(performer.perform(effect, request, records, place, signals));
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut performed => break answer?,
                Some(signal) = inbox.recv() => self.take(signal, &progress),
            }
        };
        while let Ok(signal) = inbox.try_recv() {
            self.take(signal, &progress);
        }
        self.redacted(id, answer)
    }

    fn take(&self, signal: DriverMessage, progress: &impl Fn(RunEvent)) {
        match signal {
            DriverMessage::Progress(event) => progress(event),
            DriverMessage::Accompany(work) => {
                self.beside.lock().unwrap_or_else(PoisonError::into_inner).spawn(work);
            }
            DriverMessage::Happened(_) | DriverMessage::Steer { .. } | DriverMessage::Suspend => {}
        }
    }

    /// Compares the tree with the checkpoints after the run has ended, where its last work was cut off
    /// ([`Session::unseen_tree`](rawko_core::session::Session::unseen_tree)).
    pub async fn final_inspection(&self, iteration: u32) -> Option<Event> {
        let EffectAnswer::TreeInspected { inspection } = self.performer.inspect_tree(iteration).await else {
            return None;
        };
        let mut event = Event::FinalTreeInspected { inspection };
        self.redactor.event(&mut event);
        Some(event)
    }

    /// Why calls of this provider cannot be made here: its key is missing ([`RawkoBuilder::keys_when_called`]).
    ///
    /// [`RawkoBuilder::keys_when_called`]: crate::RawkoBuilder::keys_when_called
    #[must_use]
    pub fn missing_key(&self, provider: &str) -> Option<&str> {
        self.keyless.get(provider).map(String::as_str)
    }

    /// Restores in the tools what agents have seen elsewhere.
    pub fn saw(&self, seen: &[SeenByAgent]) {
        track(&self.tracker, seen);
    }

    /// Cleans up after a call that another process did not finish.
    pub fn clear_up(&self, agent: &str, call: &ToolCall) {
        self.performer.clear_up(agent, call);
    }

    /// Ends what the tools leave running between calls: background jobs. Waits until they have ended.
    pub async fn end_jobs(&self) {
        self.performer.end();
        let _ = tokio::task::spawn_blocking(rawko_tools::settle).await;
    }

    /// Keeps the tree of the end, for `rawko diff`.
    pub async fn keep_end(&self) {
        Arc::clone(&self.performer).keep_end().await;
    }

    fn redacted(&self, effect: EffectId, answer: EffectAnswer) -> Option<EffectAnswer> {
        let mut event = Event::answered(effect, answer);
        self.redactor.event(&mut event);
        match event {
            Event::Answered { effect: _, answer } => Some(answer),
            _ => None,
        }
    }
}
