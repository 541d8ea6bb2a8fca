//! The end of a tree: its work lands in the project, or is thrown away.

use std::path::Path;

use rawko_core::session::{Effect, Event, Landing, LandingEnd, Outcome, Stamped};

use super::{Fate, IsolatedTree, LandingPolicy, TreeRecord, lock};
use crate::checkpoint::{BranchCommit, Checkpoints};
use crate::clock::now;
use crate::error::Error;
use crate::journal::{JournalWriter, SessionStore, StepRecord, fold};

impl IsolatedTree {
    /// Lands the work of a run that ended like this, if it is to be: by this policy, or by that with which the tree was made.
    pub(crate) fn end(&self, policy: Option<LandingPolicy>, outcome: &Outcome) -> Landing {
        let policy = policy.unwrap_or(self.record.land);
        if policy.lands(outcome) { self.land(policy, outcome) } else { Landing::of(LandingEnd::Kept) }
    }

    /// Whether its work has landed in part.
    pub(crate) fn is_landing(&self) -> bool {
        Checkpoints::has_begun_landing(&self.directory)
    }

    /// Lands the work of a run that ended like this. What was begun is completed first, whatever is asked for now. The tree is
    /// removed afterwards, unless something is left in it alone.
    fn land(&self, policy: LandingPolicy, outcome: &Outcome) -> Landing {
        let landed = self.within.run_outside(|| self.land_here(policy));
        let failed = |problem: String| Landing { problem: Some(problem), ..Landing::of(LandingEnd::Failed) };
        let landing = match landed.map_err(|error| error.to_string()).flatten() {
            Ok(Some(landing)) => landing,
            // Nothing was kept: then there must be nothing, too.
            Ok(None) if outcome.files_modified.is_empty() && !outcome.files_modified_partial => {
                Landing::of(LandingEnd::Nothing)
            }
            Ok(None) => return failed("what the run changed could not be kept".to_owned()),
            Err(problem) => return failed(problem),
        };
        if !landing.end.is_open() && landing.left.is_empty() {
            self.set_fate(Fate::Done);
        }
        landing
    }

    /// The same by a thread that is in the project's own files; `None` if nothing was kept of the work.
    fn land_here(&self, policy: LandingPolicy) -> Result<Option<Landing>, String> {
        // Two that land at once would each take the other's work for what was there before.
        let lock = self.folder.parent().map(lock).transpose();
        let _lock = lock.map_err(|error| format!("cannot lock the trees of the project: {error}"))?;
        let (checkpoints, TreeRecord { since, head, session, .. }) = (self.checkpoints(), &self.record);
        let landed = match policy {
            LandingPolicy::Branch if !self.is_landing() => checkpoints.land_on_branch(
                *since,
                &BranchCommit {
                    branch: &format!("rawko/{session}"),
                    parent: head.as_deref(),
                    message: &self.message(),
                },
            ),
            _ => checkpoints.land(*since),
        };
        landed.map_err(|error| error.to_string())
    }

    /// What a commit of the work says: the task, as the journal's header has it.
    fn message(&self) -> String {
        let journal = crate::journal::read(&self.directory.join("journal.jsonl"));
        let task = journal.map(|journal| journal.header.task).unwrap_or_default();
        format!("{}\n\nrawko session {}\n", task.trim(), self.record.session)
    }

    /// Its session's checkpoints, in the project.
    fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(&self.record.project, &self.directory, &self.record.session)
    }
}

/// Lands the work of the session `id`, which has ended, however it ended: in the files of the project, or with
/// [`LandingPolicy::Branch`] on a branch.
///
/// # Errors
/// [`Error::Setup`] if it has not ended, or has no tree; [`Error::Journal`] if a process runs it.
pub fn land(project: &Path, store: &SessionStore, id: &str, policy: LandingPolicy) -> Result<Landing, Error> {
    let mut ended = EndedSession::open(project, store, id)?;
    if ended.tree.checkpoints().has_no_end() {
        // It was killed.
        let place = ended.tree.path().unwrap_or(&ended.tree.record.project);
        let checkpoints = Checkpoints::new(place, &ended.tree.directory, &ended.tree.record.session);
        let kept =
            ended.tree.within.run(|| checkpoints.take_end()).map_err(|error| super::no_entry(&error))?;
        kept.map_err(|error| Error::Setup {
            message: format!("what session {} left cannot be kept: {error}", ended.tree.record.session),
            hint: format!("it is in {}", ended.tree.copy().display()),
        })?;
    }
    let landing = ended.land(policy)?;
    Ok(landing)
}

/// Throws the tree of the session `id` away, which has ended, with all that it did there. A landing that was begun is completed
/// instead, if it can be.
///
/// # Errors
/// As [`land`].
pub fn discard(project: &Path, store: &SessionStore, id: &str) -> Result<Landing, Error> {
    let mut ended = EndedSession::open(project, store, id)?;
    let mut is_in_part = None;
    if ended.tree.is_landing() {
        // A part of it is in the project already.
        let landing = ended.land(LandingPolicy::Always)?;
        if !landing.end.is_open() {
            return Ok(landing);
        }
        ended.tree.checkpoints().give_landing_up().map_err(|error| Error::Setup {
            message: error.to_string(),
            hint: "`rawko doctor` checks git and the folders of rawko".to_owned(),
        })?;
        is_in_part = landing.problem;
    }
    let landing = Landing { problem: is_in_part, ..Landing::of(LandingEnd::Discarded) };
    ended.record(&landing)?;
    ended.tree.set_fate(Fate::Discarded);
    Ok(landing)
}

/// Completes the landings of this project that were begun by processes that are gone. What cannot be completed now is left
/// to the next call.
pub fn complete_landings(project: &Path, store: &SessionStore) {
    for (id, journal) in store.journals().unwrap_or_default() {
        let begun = journal.parent().is_some_and(Checkpoints::has_begun_landing);
        if begun && let Ok(mut ended) = EndedSession::open(project, store, &id) {
            let _ = ended.land(LandingPolicy::Always);
        }
    }
}

/// A session that has ended and has its tree, held by this process.
struct EndedSession {
    tree: IsolatedTree,
    writer: JournalWriter,
    session: rawko_core::session::Session,
}

impl EndedSession {
    fn open(project: &Path, store: &SessionStore, id: &str) -> Result<Self, Error> {
        let (writer, journal) = JournalWriter::reopen(&store.find(id)?)?;
        let id = &journal.header.session;
        let folded = fold(&journal);
        if !folded.session.state().is_final() {
            return Err(Error::Setup {
                message: format!("session {id} has not ended"),
                hint: format!("go on with it: rawko resume {id}\nor end it: rawko cancel {id}"),
            });
        }
        let directory = writer.path().parent().unwrap_or(Path::new("."));
        let tree = IsolatedTree::of_session(project, directory).ok_or_else(|| Error::Setup {
            message: format!("session {id} has no tree of its own, or no longer"),
            hint: format!("to see what it changed: rawko diff {id}"),
        })?;
        Ok(Self { tree, writer, session: folded.session })
    }

    /// Lands its work, and records it unless it is still as open as it was.
    fn land(&mut self, policy: LandingPolicy) -> Result<Landing, Error> {
        let Some(outcome) = self.session.outcome() else { return Err(Error::Interrupted) };
        let landing = self.tree.land(policy, &outcome);
        if outcome.landing.as_ref() != Some(&landing) {
            self.record(&landing)?;
        }
        Ok(landing)
    }

    /// Records what became of the work.
    fn record(&mut self, landing: &Landing) -> Result<(), Error> {
        let event = Stamped { at: now(), event: Event::WorkLanded { landing: landing.clone() } };
        let reaction = self.session.apply(&event);
        debug_assert!(reaction.effects.iter().any(|effect| matches!(effect, Effect::Finish { .. })));
        self.writer.event(&event)?;
        self.writer.step(&StepRecord::of(&reaction.effects, &reaction.notes))?;
        Ok(self.writer.commit()?)
    }
}
