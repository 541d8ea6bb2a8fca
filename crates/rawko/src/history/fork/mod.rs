//! Forks a session: makes a new one from an old one (`docs/sessions.md#fork-a-session`; ADR 19).
//!
//! A fork with the same task shares the first records of the old session: they are folded again, under other models or
//! limits if the caller asks for those. What a resume then does depends on where they end:
//!
//! - With an event: what follows from it begins anew.
//! - With what follows from an event: what that began and no shared record answers has an unknown outcome, as after a
//!   crash. Questions and reads are done again, anything else is reported as unknown.
//!
//! A fork with another task shares the setup alone. Everything else in a journal belongs to its task: decisions, plans,
//! conversations, verifications.

mod replay;

use std::collections::BTreeMap;
use std::path::PathBuf;

use rawko_core::session::{Event, Session, SharedSpend, Stamped};
use rawko_core::setup::{AgentSetup, CacheUse, Setup};
use serde::Serialize;

use self::replay::{ForkReplay, TakenPrefix};
use crate::checkpoint::Checkpoints;
use crate::clock::now;
use crate::error::Error;
use crate::journal::{ForkedFrom, Journal, Record, read_with_lines};
use crate::run::resume::without_task;
use crate::session_id;
use crate::setup::assemble::Providers;
use crate::setup::rawko::Rawko;

/// What a fork is made of. Other models and limits are the builder's overrides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForkOptions {
    /// How many records it shares, the header not counted; as many as possible where absent. With another task: the
    /// record up to which changes of the setup are taken over.
    pub at: Option<u64>,
    /// Another task. The fork then shares the setup of the old session, and nothing that was done for the old task.
    pub task: Option<String>,
}

/// A session that was made of another.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fork {
    /// Its id, for [`Rawko::resume`].
    pub session: String,
    /// Its journal.
    pub journal: PathBuf,
    /// The session it comes from, and the last record of it that was taken over.
    pub from: ForkedFrom,
    /// What was done and used in the shared records, if anything was. The fork is not charged for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedSpend>,
    /// Why no more was taken over than that, where more was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// Why the checkpoints of the shared records may be gone when the other session is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_shared: Option<String>,
}

/// Why a record could not be taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    /// Sequence number of the record.
    pub record: u64,
    /// Why.
    pub why: String,
}

impl Rawko {
    /// Makes a new session of the session `id`: of its first records, or with another task of its setup alone. Providers,
    /// models and limits that this project was built with as overrides take the place of the recorded ones; everything
    /// else stays as it was recorded. Nothing is run: [`Rawko::resume`] does that.
    ///
    /// # Errors
    /// [`Error::Journal`] where the other journal cannot be read or the new one not be written, [`Error::Diverged`]
    /// where this rawko derives something else than the shared records say, [`Error::Setup`] where there is nothing to
    /// share, [`Error::EmptyTask`] where the other task is empty.
    pub fn fork(&self, id: &str, options: &ForkOptions) -> Result<Fork, Error> {
        let store = self.sessions();
        let old_path = store.find(id)?;
        let (old, lines) = read_with_lines(&old_path)?;
        self.check_origin(&old.header)?;
        let session = old.header.session.clone();
        let known = old.records.len() as u64;
        let at = options.at.unwrap_or(known);
        if known == 0 {
            return Err(without_task(&session));
        }
        if at > known {
            return Err(Error::Setup {
                message: format!("session {session} has {known} records, and {at} are to be shared"),
                hint: format!(
                    "to share as many as possible, leave out --at: rawko fork {session}\n\
                     to see at which records its decisions are: rawko explain {session}"
                ),
            });
        }
        let taken = match options.task.as_deref().map(str::trim) {
            Some("") => return Err(Error::EmptyTask),
            Some(task) => self.begin_anew(&old, at, task)?,
            None => self.take_over(&old, options.at)?,
        };
        let Some((task, setup)) = taken.beginning() else {
            return Err(Error::Setup {
                message: format!("a fork of session {session} at record {at} would share nothing"),
                hint: "share its first record at least (--at 1), or run the task anew".to_owned(),
            });
        };
        // A session that could not be resumed afterwards would only be in the way.
        self.check_rights(&session, setup)?;
        let id = session_id::new(now());
        let lost = old.header.forked_from.as_ref().and_then(|from| from.lost.clone());
        let from = ForkedFrom { session, record: taken.last, lost };
        let header = self.header(&id, task, setup, Some(from.clone()))?;
        let mut not_shared = None;
        let path = store.create_filled(&header, |writer| {
            let written = taken.write(writer, &old, &lines)?;
            // What the shared records kept is the fork's too, so that it outlives the old session.
            let checkpoints = Checkpoints::of_journal(self.project(), &old_path, &old);
            let mut made = old;
            made.header = header.clone();
            made.records.truncate(written);
            let kept = checkpoints.share_with(&Checkpoints::of_journal(self.project(), writer.path(), &made));
            not_shared = kept.err().map(|error| format!("its checkpoints are not shared: {error}"));
            Ok(())
        })?;
        let shared = taken.shared();
        Ok(Fork { session: id, journal: path, from, shared, stopped: taken.stopped, not_shared })
    }

    /// The beginning of a session with another task: the setup that the old session had at record `at`. An agent that was
    /// to begin with the old task is not to begin with this one, and what was given with it is not given with this one.
    fn begin_anew(&self, old: &Journal, at: u64, task: &str) -> Result<TakenPrefix, Error> {
        let mut session = Session::new();
        let mut last = 0;
        for (seq, record) in (1..=at).zip(&old.records) {
            let Record::Event(stamped) = record else { continue };
            let _ = session.apply(stamped);
            if changes_setup(&stamped.event) {
                last = seq;
            }
        }
        let Some(setup) = session.setup() else { return Ok(TakenPrefix::default()) };
        let mut setup = Setup { first_agent: None, attachments: Vec::new(), ..self.overridden(setup)? };
        let redactor = self.redactor(&self.providers(&setup).unwrap_or_default());
        redactor.setup(&mut setup)?;
        let mut event =
            Event::TaskStarted { task: task.to_owned(), setup: Box::new(setup), shared_events: 0 };
        redactor.event(&mut event);
        Ok(TakenPrefix::anew(Stamped { at: now(), event }, last))
    }

    /// The first records, `at` of them or as many as a fork can go on from.
    fn take_over(&self, old: &Journal, at: Option<u64>) -> Result<TakenPrefix, Error> {
        let until = at.unwrap_or(old.records.len() as u64);
        let session = &old.header.session;
        let diverged = |divergence| Error::Diverged { session: session.clone(), divergence };
        let mut replay = ForkReplay::new(&old.records);
        let mut redactor = self.redactor(&Providers::new());
        for (seq, record) in (1..=until).zip(&old.records) {
            let Record::Event(stamped) = record else {
                replay.step(seq, record).map_err(diverged)?;
                continue;
            };
            let mut event = match &stamped.event {
                Event::TaskStarted { task, setup, shared_events: _ } => {
                    let mut setup = self.overridden(setup)?;
                    // A provider without its key has no secret to hide.
                    redactor = self.redactor(&self.providers(&setup).unwrap_or_default());
                    redactor.setup(&mut setup)?;
                    Event::TaskStarted { task: task.clone(), setup: Box::new(setup), shared_events: 0 }
                }
                Event::TaskContinued { task, setup, changed_files, lost, ended } => {
                    let mut setup = self.overridden(setup)?;
                    redactor = self.redactor(&self.providers(&setup).unwrap_or_default());
                    redactor.setup(&mut setup)?;
                    let (task, changed_files) = (task.clone(), changed_files.clone());
                    Event::TaskContinued {
                        task,
                        setup: Box::new(setup),
                        changed_files,
                        lost: lost.clone(),
                        ended: ended.clone(),
                    }
                }
                Event::AgentsReloaded { agents } => {
                    let mut agents = agents.clone();
                    self.override_models(&mut agents)?;
                    redactor.check(&agents)?;
                    Event::AgentsReloaded { agents }
                }
                other => other.clone(),
            };
            redactor.event(&mut event);
            replay.event(seq, record, Stamped { at: stamped.at, event }).map_err(diverged)?;
            if replay.taken.stopped.is_some() {
                break;
            }
        }
        if !replay.fork().state().is_final() {
            return Ok(replay.end(until));
        }
        // A session that has ended cannot go on. If that many records were asked for, it is an error; otherwise one
        // record less is shared.
        let last = replay.taken.end().saturating_sub(1);
        if at.is_none() && last > 0 {
            return Ok(replay.end(last));
        }
        let message = if replay.old.folded().session.state().is_final() {
            format!("session {session} has ended with record {}", replay.taken.last)
        } else {
            format!("a fork of session {session} would end with record {}", replay.taken.end())
        };
        Err(Error::Setup { message, hint: format!("share {last} records at most: --at {last}") })
    }

    fn overridden(&self, recorded: &Setup) -> Result<Setup, Error> {
        let overrides = &self.builder.overrides;
        let mut setup = recorded.clone();
        if self.overrides_models() {
            let today = self.setup()?;
            self.override_models(&mut setup.agents)?;
            setup.arbiter.model = today.arbiter.model;
            setup.arbiter.cache = today.arbiter.cache;
            setup.arbiter.most_tokens = today.arbiter.most_tokens;
            setup.fallback = today.fallback;
            setup.prices.extend(today.prices);
        }
        if overrides.verify.is_some() {
            setup.verify = self.verify_setup();
        }
        if overrides.no_cache {
            setup.arbiter.cache = CacheUse::default();
        }
        setup.limits = self.raised(&setup.limits);
        crate::setup::assemble::lift_default_cost(&mut setup);
        self.check_prices(&setup)?;
        Ok(setup)
    }

    fn overrides_models(&self) -> bool {
        self.builder.overrides.provider.is_some() || self.builder.overrides.model.is_some()
    }

    /// Agents that are not configured any more keep their models.
    fn override_models(&self, agents: &mut BTreeMap<String, AgentSetup>) -> Result<(), Error> {
        if self.overrides_models() {
            let mut today = self.setup()?.agents;
            for (name, agent) in agents {
                if let Some(now) = today.remove(name) {
                    agent.model = now.model;
                }
            }
        }
        Ok(())
    }
}

/// Whether this event may change the setup.
fn changes_setup(event: &Event) -> bool {
    match event {
        Event::TaskStarted { .. }
        | Event::TaskContinued { .. }
        | Event::TaskTakenUp { .. }
        | Event::AgentsReloaded { .. } => true,
        Event::SessionResumed { verify, limits, changed_files: _, lost: _ } => {
            verify.is_some() || limits.is_some()
        }
        Event::Answered { .. }
        | Event::OverrideRequested { .. }
        | Event::CancelRequested { .. }
        | Event::RanBeside { .. }
        | Event::FinalTreeInspected { .. }
        | Event::WorkLanded { .. } => false,
    }
}
