//! Resumes a session where its journal ends (`docs/sessions.md#resume-an-interrupted-run`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rawko_core::agent::{Ask, Permissions};
use rawko_core::policy::effective_permissions;
use rawko_core::request::Purpose;
use rawko_core::session::{Lost, Outcome};
use rawko_core::setup::{AgentSetup, Setup, VerifySetup};
use rawko_tools::{Digest, FileAccess, FileTracker};

use crate::channel::holder::end_leftovers;
use crate::channel::seal::Sealer;
use crate::error::Error;
use crate::journal::{
    Folded, Journal, JournalError, JournalHeader, JournalWriter, SeenByAgent, SessionInfo, SessionStatus,
    fold,
};
use crate::run::Run;
use crate::run::driver::Start;
use crate::run::launch::Launch;
use crate::setup::assemble::Providers;
use crate::setup::rawko::Rawko;

impl Rawko {
    /// Prepares to resume the session `id` (an id, the beginning or end of one, or `last`); without one, the newest that
    /// has not ended, or that a limit or its provider ended. The latter goes on in the same conversations; a limit has to be
    /// raised for that (`overrides` of the builder), and what was spent counts. Nothing that was finished is done again: a model call whose answer is missing is made again, a
    /// read is done again, and anything else that was begun is reported to the agent as of unknown outcome.
    ///
    /// # Errors
    /// [`Error::Journal`] if the journal cannot be opened, [`Error::NewestNotResumed`] if that is the newest one's
    /// and no id was given; [`Error::Diverged`] if this rawko derives something else than the journal recorded;
    /// [`Error::Setup`] if there is nothing to resume; [`Error::UntrustedJournal`] if it does not have the seal of the
    /// user, or grants more than today's configuration and overrides do.
    pub fn resume(&self, id: Option<&str>) -> Result<Run, Error> {
        self.complete_landings();
        let (journal, old) = match id {
            Some(id) => JournalWriter::reopen(&self.sessions().find(id)?)?,
            None => self.reopen_newest()?,
        };
        match self.in_tree_of(journal.path(), &old)? {
            Some(there) => there.in_tree(|| there.resume_opened(journal, old))?,
            None => self.resume_opened(journal, old),
        }
    }

    fn resume_opened(&self, journal: JournalWriter, old: Journal) -> Result<Run, Error> {
        self.check_origin(&old.header)?;
        let session = old.header.session.clone();
        let beginning = self.begin_here(Some(&session))?;
        let folded = fold(&old);
        if let Some(divergence) = folded.divergence {
            return Err(Error::Diverged { session, divergence });
        }
        let (Some(setup), Some(task)) =
            (folded.session.setup().cloned(), folded.session.context().map(|context| context.task.clone()))
        else {
            return Err(without_task(&session));
        };
        let outcome = folded.session.outcome().filter(Outcome::can_be_taken_up);
        self.check_rights(&session, &setup).map_err(|mut error| {
            let limit = outcome.as_ref().and_then(|outcome| self.standing(&setup.limits, outcome));
            if let (Error::UntrustedJournal { again, .. }, Some(limit)) = (&mut error, limit) {
                again.extend(limit.option().split(' ').map(str::to_owned));
            }
            error
        })?;
        end_commands(&session, &journal)?;
        if folded.session.state().is_final() && folded.unrecorded.is_none() {
            return match outcome {
                Some(outcome) => self.take_up(journal, &old, folded, &outcome, &beginning),
                None => Err(nothing_to_do(&session, "it has ended")),
            };
        }
        let providers = self.providers(&setup)?;
        let verify = self.verify_anew();
        self.redactor(&providers).check(&verify)?;
        take_scripts_up(&providers, &folded);
        self.check_spent(&session, &folded)?;
        let limits = self.raised(&setup.limits);
        let limits = (limits != setup.limits).then_some(limits);
        let tracker = Arc::new(FileTracker::new());
        let changed_files = remember(&tracker, &folded, self.tree());
        let lost = lost(&old, &folded);
        self.launch(Launch {
            id: session,
            forked_from: old.header.forked_from,
            task: &task,
            journal,
            setup: &setup,
            providers,
            tracker,
            start: Start::Resumed {
                folded: Box::new(folded),
                changed_files,
                verify,
                limits,
                lost,
                torn_bytes: old.torn_bytes,
            },
            scratch: None,
            beside: beginning.beside(),
        })
    }

    /// Another person may have put the journal into the folder, and resuming would perform its calls. The user's own
    /// journals have the user's seal. (An embedding program without a trust store is responsible for the folder itself.)
    pub(crate) fn check_origin(&self, header: &JournalHeader) -> Result<(), Error> {
        let builder = &self.builder;
        let Some(store) = builder.trust_store.as_ref().filter(|_| !builder.trusted) else { return Ok(()) };
        if Sealer::of(store).is_ok_and(|sealer| sealer.is_own(header, self.project())) {
            return Ok(());
        }
        let reason = "it was not begun by you in this folder: it may have come with the folder, or the folder was moved";
        let (session, reasons) = (header.session.clone(), vec![reason.to_owned()]);
        Err(Error::UntrustedJournal { session, reasons, again: Vec::new() })
    }

    /// Even the user's own journal needs confirmation if it grants more than today's configuration and command
    /// line do.
    pub(crate) fn check_rights(&self, session: &str, setup: &Setup) -> Result<(), Error> {
        if self.builder.trusted {
            return Ok(());
        }
        let unknown = self.unknown_verification(setup);
        let again = unknown.is_some().then(|| setup.verify.iter().flat_map(verify_arguments).collect());
        let today = self.setup()?.agents;
        let may = |name: &str, recorded: &AgentSetup, today: &BTreeMap<String, AgentSetup>| {
            today.get(name).is_some_and(|now| {
                now.config.tools == recorded.config.tools
                    && now.config.acp == recorded.config.acp
                    && within(&recorded.permissions, &now.permissions)
            })
        };
        // Without what is denied and protected today, and was not when it was recorded.
        let mut wider = today.clone();
        for (name, now) in &mut wider {
            if let Some(recorded) = setup.agents.get(name) {
                now.permissions.deny.clone_from(&recorded.permissions.deny);
                now.permissions.protect.clone_from(&recorded.permissions.protect);
            }
        }
        let beyond = setup.agents.iter().filter(|(name, recorded)| !may(name, recorded, &today));
        let (narrowed, beyond): (Vec<_>, Vec<_>) =
            beyond.partition(|(name, recorded)| may(name, recorded, &wider));
        let narrowed = (!narrowed.is_empty()).then(|| {
            "`permissions.deny` or `permissions.protect` names more today than when it was recorded, and it would go on \
             without that"
                .to_owned()
        });
        let reasons: Vec<String> = beyond
            .into_iter()
            .map(|(name, _)| {
                format!(
                    "agent `{name}` was recorded with rights that it does not have today: give the options of that run \
                     (--allow-…) again"
                )
            })
            .chain(narrowed)
            .chain(unknown)
            .collect();
        let again = again.filter(|_| reasons.len() == 1).unwrap_or_default();
        if reasons.is_empty() {
            return Ok(());
        }
        Err(Error::UntrustedJournal { session: session.to_owned(), reasons, again })
    }

    /// Opens the newest session that is not known to have ended. If that is not possible, the error names it and the reason:
    /// resuming an older one instead would continue a task that the user did not ask for.
    fn reopen_newest(&self) -> Result<(JournalWriter, Journal), Error> {
        let store = self.sessions();
        let sessions = store.list()?;
        let goes_on = |session: &&SessionInfo| match session.status {
            SessionStatus::Running | SessionStatus::Unfinished | SessionStatus::Unreadable => true,
            SessionStatus::Ended => session.outcome.as_ref().is_some_and(Outcome::can_be_taken_up),
            SessionStatus::NotBegun => false,
        };
        let is_repaired = |id: &str| {
            let copies = sessions.iter().filter_map(|session| session.forked_from.as_ref());
            copies.filter(|from| from.lost.is_some()).any(|from| from.session == id)
        };
        let mut newest_first = sessions.iter().rev().filter(goes_on);
        while let Some(newest) = newest_first.next() {
            let source = match JournalWriter::reopen(&store.find(&newest.id)?) {
                Ok(opened) => return Ok(opened),
                // Its copy has taken its place.
                Err(JournalError::Damaged { .. } | JournalError::Blob { .. }) if is_repaired(&newest.id) => {
                    continue;
                }
                Err(source) => Box::new(source),
            };
            let older = newest_first.find(|session| session.status == SessionStatus::Unfinished);
            let older = older.map(|session| session.id.clone());
            return Err(Error::NewestNotResumed { session: newest.id.clone(), source, older });
        }
        let none = "there is no unfinished session here";
        Err(match sessions.last().filter(|newest| newest.status == SessionStatus::NotBegun) {
            Some(newest) => Error::Setup {
                message: format!("{none}: {}, the newest, ended before its task was recorded", newest.id),
                hint: format!("nothing was done: run the task again; {}", to_remove(&newest.id)),
            },
            None => Error::Setup {
                message: none.to_owned(),
                hint: "`rawko sessions list` shows all sessions".to_owned(),
            },
        })
    }
}

/// Waits for the commands of the process that ran the session before, if it was killed: they must not change anything
/// under the next one.
///
/// # Errors
/// [`Error::CommandsLeft`] if some cannot be ended.
pub(crate) fn end_commands(session: &str, journal: &JournalWriter) -> Result<(), Error> {
    let commands = end_leftovers(journal.path());
    if commands.is_empty() {
        return Ok(());
    }
    Err(Error::CommandsLeft { session: session.to_owned(), commands })
}

/// What was lost before the session is taken up, and was not reported yet.
pub(crate) fn lost(old: &Journal, folded: &Folded) -> Lost {
    let is_unreported = folded.session.lost_work().is_none();
    let work = old.header.forked_from.as_ref().and_then(|from| from.lost.clone()).filter(|_| is_unreported);
    Lost { jobs: folded.jobs.clone(), work }
}

/// The options that give the same verification commands again.
fn verify_arguments(setup: &VerifySetup) -> impl Iterator<Item = String> {
    setup.commands.iter().flat_map(|command| ["--verify".to_owned(), command.clone()])
}

/// Whether `recorded` grants nothing that `now` does not, and denies what it denies.
fn within(recorded: &Permissions, now: &Permissions) -> bool {
    let both = effective_permissions(now, Some(recorded), None);
    let lists = [
        (&recorded.read, &both.read),
        (&recorded.write, &both.write),
        (&recorded.net, &both.net),
        (&recorded.env, &both.env),
        (&recorded.run, &both.run),
    ];
    // An absent list of programs leaves them to the agent's tools, which are compared by themselves.
    let same_kind = recorded.run.is_some() == now.run.is_some();
    let granted = lists.into_iter().all(|(recorded, both)| match (recorded, both) {
        (Some(recorded), Some(both)) => recorded.iter().all(|item| both.contains(item)),
        (None, None) => true,
        (None, Some(_)) | (Some(_), None) => false,
    });
    let asks = |ask: &Ask| now.ask.iter().flatten().any(|now| now == ask);
    let shares = |item: &String| now.caches.iter().flatten().any(|cache| cache == item);
    let denies = |item: &String| recorded.deny.iter().flatten().any(|denied| denied == item);
    let protects = |item: &String| recorded.protect.iter().flatten().any(|name| name == item);
    same_kind
        && granted
        && recorded.caches.iter().flatten().all(shares)
        && recorded.ask.iter().flatten().all(asks)
        && now.deny.iter().flatten().all(denies)
        && now.protect.iter().flatten().all(protects)
}

/// Tells providers that play a script how much of it was played.
pub(crate) fn take_scripts_up(providers: &Providers, folded: &Folded) {
    let mut answered: BTreeMap<&str, Vec<Purpose>> = BTreeMap::new();
    for (provider, purpose) in &folded.answered {
        answered.entry(provider).or_default().push(purpose.clone());
    }
    for (name, purposes) in answered {
        if let Some(provider) = providers.get(name) {
            provider.resumed(&purposes);
        }
    }
}

/// Records what agents have seen of files.
pub(crate) fn track(tracker: &FileTracker, seen: &[SeenByAgent]) {
    for SeenByAgent { agent, path, digest } in seen {
        if let Some(digest) = Digest::from_hex(digest) {
            tracker.record(agent, path, digest);
        }
    }
}

/// Restores which files the agents have read, and returns those that have changed since.
pub(crate) fn remember(tracker: &FileTracker, folded: &Folded, project: &Path) -> Vec<String> {
    track(tracker, &folded.seen);
    let latest: BTreeMap<&str, &str> =
        folded.seen.iter().map(|seen| (seen.path.as_str(), seen.digest.as_str())).collect();
    // Read as the tools do: nothing outside the project, no FIFO, nothing of unlimited size.
    let access = FileAccess::new(project, &Permissions::default()).ok();
    let content = |path: &str| access.as_ref()?.open_file(path).ok()?.read_all(path).ok();
    let changed = latest.into_iter().filter(|(path, digest)| {
        let now = content(path).map(|bytes| format!("{:?}", Digest::of(&bytes)));
        now.as_deref() != Some(*digest)
    });
    changed.map(|(path, _)| path.to_owned()).collect()
}

/// The error for a session that was killed at its very beginning.
pub(crate) fn without_task(session: &str) -> Error {
    Error::Setup {
        message: format!("session {session} cannot go on: it ended before its task was recorded"),
        hint: format!("nothing was done: run the task again; {}", to_remove(session)),
    }
}

fn to_remove(session: &str) -> String {
    format!("to remove this session: rawko sessions rm {session} --yes")
}

pub(crate) fn nothing_to_do(session: &str, why: &str) -> Error {
    Error::Setup {
        message: format!("session {session} cannot be resumed: {why}"),
        hint: format!(
            "`rawko continue {session} TASK` begins another task in it; `rawko fork {session} --at N` takes another way from one of its records; \
             `rawko fork {session} --task TEXT` starts another task with the same agents and settings, \
             which remembers nothing of this one"
        ),
    }
}
