//! Keeps the tree before an execution first changes it, and restores it (`docs/sessions.md`). The user's index, branch
//! and stash are never touched, and no code of the repository runs.
//!
//! Owns the trees of a session. Git keeps them: among the repository's objects, or in a store of the session's own
//! where there is no repository or it cannot be written (`objects`). Agents can write there, so what is read is
//! compared with its hash (`verified`), and a process relies on the names that it recorded itself (`known`). A kept
//! tree has everything below the project that is not ignored, byte for byte. Without git installed, no tree is kept.
//! The files of repositories inside the project are the project's (`nested`). This module does not follow links, or
//! restore what it did not keep.

mod branch;
mod changes;
mod diff;
mod durable;
mod error;
mod folders;
mod gaps;
mod git;
mod history;
mod inspect;
mod known;
mod landing;
mod listing;
mod message;
mod nested;
mod objects;
mod own;
mod place;
mod private_names;
mod restore;
mod rewind;
mod rules;
mod scratch;
mod share;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod trees;
mod unkept;
mod verified;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rawko_core::session::{Event, Note};

use crate::isolation::path_of_tree;
use crate::journal::{Journal, Record, read};

pub(crate) use branch::BranchCommit;
pub use changes::{ChangedBy, Changes, OthersChange, Until};
pub use diff::{ChangeKind, DiffDetail, DiffRange, FileChange};
pub use error::CheckpointError;
use git::{GitProgram, Unanswered};
use history::History;
use known::TreeCache;
use listing::TreePath;
use place::UserFolders;
pub use place::toplevel;
pub(crate) use place::{foreign_repository, owns_repository, work_tree};
pub use rewind::{Execute, Extent, LeftAlone, More, Rewound};
use store::{Store, TreeToKeep};
pub(crate) use trees::{Fate, Fault, GitFolders, Trees, Version};

/// Name of the tree at the end of a session.
const END: &str = "end";
/// Begins the name of a tree that a rewind replaced.
const REWIND: &str = "rewind-";
/// Begins the name of the tree after an execution.
const AFTER: &str = "after-";
/// Begins the name of the tree that a session left which stopped in an execution; where it was killed, without what
/// somebody else has changed since.
const STOPPED: &str = "stopped-";
/// Begins the name of the tree with which such a session was resumed.
const RESUMED: &str = "resumed-";

/// The checkpoints of one session.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    project: PathBuf,
    directory: PathBuf,
    session: String,
    /// Executions of earlier tasks of the session, which are not compared with.
    since: u32,
    /// The same for the task whose beginning the checks are compared with: this one, or one before it.
    checks_since: u32,
    /// What the journal says was kept; empty while the session is being made.
    recorded: BTreeMap<u32, String>,
    /// Whether the session kept something before this value was made.
    has_kept: bool,
    /// When the session was last seen to work, as its journal says.
    last_sign: Option<u64>,
    /// Whether records of the session were lost: what it did then looks like the work of others.
    has_lost: bool,
    path: Option<OsString>,
    user: UserFolders,
    unanswered: Unanswered,
    /// Whether no list of what is ignored is something that git would wait for.
    looked: Arc<OnceLock<()>>,
    /// What this value or a copy of it has kept.
    known: TreeCache,
}

/// A kept tree.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Checkpoint {
    /// Number of the execution before which it was kept; `after-1` and so on for what an execution left; `end`;
    /// `rewind-1` and so on for what a rewind replaced; `stopped-1` and `resumed-1` for what was there when the session
    /// stopped in an execution, and when it was resumed.
    pub name: String,
    /// The commit that git keeps it as.
    pub id: String,
}

impl Checkpoints {
    /// The checkpoints of `session`, whose directory is `directory`, for the tree below `project`. Git and the user's
    /// own list of what is ignored are found by the process's environment.
    #[must_use]
    pub fn new(project: &Path, directory: &Path, session: &str) -> Self {
        Self {
            project: project.to_owned(),
            directory: directory.to_owned(),
            session: session.to_owned(),
            since: 0,
            checks_since: 0,
            recorded: BTreeMap::new(),
            has_kept: false,
            last_sign: None,
            has_lost: false,
            path: std::env::var_os("PATH"),
            user: UserFolders { home: std::env::var_os("HOME"), config: std::env::var_os("XDG_CONFIG_HOME") },
            unanswered: Unanswered::default(),
            looked: Arc::default(),
            known: TreeCache::default(),
        }
    }

    /// The checkpoints of a session that was recorded in `journal`, which lies at `path`.
    #[must_use]
    pub fn of_journal(project: &Path, path: &Path, journal: &Journal) -> Self {
        let directory = path.parent().unwrap_or(Path::new("."));
        // The files that it changed are where it worked.
        let tree = path_of_tree(project, directory);
        let project = tree.as_deref().unwrap_or(project);
        Self {
            recorded: recorded(journal),
            last_sign: last_sign(journal),
            has_lost: journal.header.forked_from.as_ref().is_some_and(|from| from.lost.is_some()),
            ..Self::new(project, directory, &journal.header.session)
        }
    }

    /// Compares with what was kept after so many executions: the session goes on with its next task.
    #[must_use]
    pub fn after(self, executions: u32) -> Self {
        Self { since: executions, checks_since: executions, ..self }
    }

    /// Compares the checks with what was kept after so many executions, which belong to an earlier task or this one.
    #[must_use]
    pub(crate) fn holding_checks_since(self, executions: u32) -> Self {
        Self { checks_since: executions.min(self.since), ..self }
    }

    /// Of a session that has kept something already, or has not.
    #[must_use]
    pub(crate) fn having_kept(self, has_kept: bool) -> Self {
        Self { has_kept, ..self }
    }

    /// What was kept before the executions of the present task, in their order.
    fn of_this_task(&self, names: BTreeMap<String, String>) -> BTreeMap<u32, String> {
        kept_after(self.since, names)
    }

    /// Looks for git in these folders instead, separated as in `PATH`.
    #[must_use]
    pub fn with_search_path(self, path: impl Into<OsString>) -> Self {
        Self { path: Some(path.into()), ..self }
    }

    /// Keeps the tree as it is now, and names what was kept. Takes as long as git needs; call it off the runtime's thread.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn take(&self, iteration: u32) -> Result<String, CheckpointError> {
        let store = self.store()?;
        let _lock = objects::lock(&store.folder)?;
        let listing = store.list(&self.known(&store)?)?;
        let names = store.names()?;
        name_end(&store, &names, iteration)?;
        // The session goes on, so the tree at its end is not known yet.
        store.keep(&iteration.to_string(), &TreeToKeep::of(listing), Some(END))
    }

    /// Keeps the tree as an execution leaves it: what is changed before the next one is then not taken for the session's.
    ///
    /// # Errors
    /// As [`Checkpoints::take`]. Without it, the next tree that is kept counts as it.
    pub fn take_after(&self, iteration: u32) -> Result<(), CheckpointError> {
        let store = self.store()?;
        let _lock = objects::lock(&store.folder)?;
        let name = format!("{AFTER}{iteration}");
        // A process that was killed has already seen it end.
        if store.names()?.contains_key(&name) {
            return Ok(());
        }
        let listing = store.list(&self.known(&store)?)?;
        store.keep(&name, &TreeToKeep::of(listing), None).map(drop)
    }

    /// Keeps the tree once more as that after the latest execution, if it was so until the session itself went on to
    /// change it: `was` names the tree as it was then.
    ///
    /// # Errors
    /// As [`Checkpoints::take`].
    pub(crate) fn take_after_again(&self, was: &str) -> Result<(), CheckpointError> {
        let store = self.store()?;
        let _lock = objects::lock(&store.folder)?;
        let names = store.names()?;
        let after = |name: &str| name.strip_prefix(AFTER).and_then(number);
        let Some((name, id)) = names.iter().max_by_key(|(name, _)| after(name)) else { return Ok(()) };
        if after(name).is_none() || store.tree_of(id)? != was {
            return Ok(());
        }
        let listing = store.list(&self.known(&store)?)?;
        store.keep(name, &TreeToKeep::of(listing), None).map(drop)
    }

    /// Keeps, before a session goes on that stopped in an execution, what that left and, if the execution `goes_on`, what
    /// is there now: what is between the two is not the session's.
    ///
    /// # Errors
    /// As [`Checkpoints::take`]. Without it, such changes are taken for those of the execution that goes on.
    pub(crate) fn resume(&self, goes_on: bool) -> Result<(), CheckpointError> {
        let Ok(journal) = read(&self.directory.join("journal.jsonl")) else { return Ok(()) };
        let of_journal =
            Self { recorded: recorded(&journal), last_sign: last_sign(&journal), ..self.clone() };
        if !of_journal.has_kept() {
            return Ok(());
        }
        let store = of_journal.store()?;
        let _lock = objects::lock(&store.folder)?;
        of_journal.keep_what_it_left(&store, goes_on)
    }

    /// Keeps the tree that a session left which stopped in an execution, as far as that is known, and the present one if it
    /// `goes_on`. The caller holds the lock.
    fn keep_what_it_left(&self, store: &Store, goes_on: bool) -> Result<(), CheckpointError> {
        let kept = self.list()?;
        let Some(latest) = kept.iter().rev().find(|kept| number(&kept.name).is_some()) else { return Ok(()) };
        let count = kept.iter().filter(|kept| kept.name.starts_with(STOPPED)).count() + 1;
        let (stopped, resumed) = (format!("{STOPPED}{count}"), format!("{RESUMED}{count}"));
        if let Some(end) = kept.iter().find(|kept| kept.name == END) {
            let after = format!("{AFTER}{}", latest.name);
            if goes_on && kept.iter().all(|kept| kept.name != after) {
                store.objects().name(&stopped, &end.id, Some(END))?;
                let listing = store.list(&self.known(store)?)?;
                store.keep(&resumed, &TreeToKeep::of(listing), None)?;
            }
            return Ok(());
        }
        let target = match store.snapshot(&latest.id) {
            Err(CheckpointError::Gone { .. }) => return Ok(()),
            target => target?,
        };
        let listing = store.list(&target.into_keys().collect())?;
        let present = store.present_tree(&latest.id, &listing)?;
        let history = History::since(store, &kept, (latest, None), present, self.last_sign)?;
        let present = TreeToKeep::of(listing);
        match history.since_killed() {
            Some(unclear) if goes_on && unclear.is_empty() => return Ok(()),
            Some(unclear) => drop(store.keep(&stopped, &present.left_by_killed(unclear), None)?),
            // A rewind has kept what it left.
            None if history.ends_with_rewind() => {}
            None => return Ok(()),
        }
        if goes_on {
            store.keep(&resumed, &present, None)?;
        }
        Ok(())
    }

    /// What was kept before: it is kept again as long as it is there, also if it is ignored since.
    fn known(&self, store: &Store) -> Result<BTreeSet<TreePath>, CheckpointError> {
        let names = store.names()?;
        let latest = names.keys().filter_map(|name| number(name.strip_prefix(AFTER).unwrap_or(name))).max();
        let mut known = BTreeSet::new();
        for name in latest.iter().flat_map(|latest| [latest.to_string(), format!("{AFTER}{latest}")]) {
            let seen = |id: &String| Ok((store.snapshot(id)?, store.message(id)?));
            match names.get(&name).map(seen) {
                Some(Ok((tree, message))) => {
                    known.extend(tree.into_keys());
                    known.extend(message.gone);
                }
                // What is lost says nothing.
                Some(Err(CheckpointError::Gone { .. })) | None => {}
                Some(Err(error)) => return Err(error),
            }
        }
        Ok(known)
    }

    /// Keeps the tree as it is at the end of the session, if the session kept any before: later changes by other people
    /// are then not taken for the session's.
    ///
    /// # Errors
    /// As [`Checkpoints::take`].
    pub fn take_end(&self) -> Result<Option<String>, CheckpointError> {
        if !self.has_kept() {
            return Ok(None);
        }
        let store = self.store()?;
        let _lock = objects::lock(&store.folder)?;
        name_end(&store, &store.names()?, u32::MAX)?;
        let listing = store.list(&self.known(&store)?)?;
        store.keep(END, &TreeToKeep::of(listing), None).map(Some)
    }

    /// All kept trees: by execution, then the end, then what rewinds replaced.
    ///
    /// # Errors
    /// If git cannot be asked.
    pub fn list(&self) -> Result<Vec<Checkpoint>, CheckpointError> {
        let mut names = self.store()?.names()?;
        names.extend(self.recorded.iter().map(|(iteration, id)| (iteration.to_string(), id.clone())));
        let mut kept: Vec<Checkpoint> = names.into_iter().map(|(name, id)| Checkpoint { name, id }).collect();
        kept.sort_by_key(|checkpoint| order(&checkpoint.name));
        Ok(kept)
    }

    /// Removes the names of what was kept in the repository, so that git can prune it. What is in the session's
    /// directory is removed with that. Without git nothing is done.
    ///
    /// # Errors
    /// If git cannot be asked, or refuses.
    pub fn forget(&self) -> Result<(), CheckpointError> {
        match self.store() {
            Err(CheckpointError::NoGit) => Ok(()),
            store => store?.objects().forget(),
        }
    }

    /// The commit that is checked out in the project; `None` where there is none.
    pub(crate) fn head(&self) -> Option<String> {
        let store = self.store().ok()?;
        let repository = store.place.repository.as_ref()?;
        repository
            .ask(&store.git, "looks what is checked out")
            .args(["rev-parse", "--verify", "HEAD"])
            .line()
            .ok()
    }

    /// Whether git is installed where a run in `project` finds it. Without it nothing can be restored or compared.
    #[must_use]
    pub fn is_available(project: &Path) -> bool {
        let project = place::real(project).unwrap_or_else(|_| project.to_owned());
        GitProgram::find(
            std::env::var_os("PATH").as_deref(),
            place::work_tree(&project),
            &Unanswered::default(),
        )
        .is_some()
    }

    /// Whether anything was kept for this session. A fork may have nothing but what its beginning kept.
    fn has_kept(&self) -> bool {
        self.has_kept || !self.recorded.is_empty() || self.folder().is_dir()
    }

    fn folder(&self) -> PathBuf {
        self.directory.join("checkpoints")
    }

    fn store(&self) -> Result<Store, CheckpointError> {
        Store::open(self)
    }

    fn unknown(&self, asked: &str, kept: &[&Checkpoint]) -> CheckpointError {
        CheckpointError::Unknown {
            session: self.session.clone(),
            asked: asked.to_owned(),
            kept: kept.iter().map(|kept| kept.name.clone()).collect(),
        }
    }
}

/// Names the tree at the session's last end, if that was within an execution before `iteration`, as the one that the
/// execution left: the end is about to be forgotten.
fn name_end(store: &Store, names: &BTreeMap<String, String>, iteration: u32) -> Result<(), CheckpointError> {
    let last = names.keys().filter_map(|name| number(name)).filter(|number| *number < iteration).max();
    let after = last.map(|last| format!("{AFTER}{last}")).filter(|after| !names.contains_key(after));
    match (after, names.get(END)) {
        (Some(after), Some(end)) => store.objects().name(&after, end, None),
        _ => Ok(()),
    }
}

/// What a journal says was kept, by execution.
fn recorded(journal: &Journal) -> BTreeMap<u32, String> {
    let steps = journal.records.iter().filter_map(|record| match record {
        Record::Step(step) => Some(step),
        Record::Event(_) => None,
    });
    let kept = |note: &Note| match note {
        Note::CheckpointTaken { iteration, checkpoint } => Some((*iteration, checkpoint.clone())),
        _ => None,
    };
    steps.flat_map(|step| &step.notes).filter_map(kept).collect()
}

/// What was kept before executions with higher numbers, in their order.
fn kept_after(executions: u32, names: BTreeMap<String, String>) -> BTreeMap<u32, String> {
    let numbered = names.into_iter().filter_map(|(name, id)| Some((number(&name)?, id)));
    numbered.filter(|(number, _)| *number > executions).collect()
}

/// The execution that a name means.
fn number(name: &str) -> Option<u32> {
    name.parse().ok()
}

/// When the session of a journal was last seen to work, in milliseconds since 1970.
fn last_sign(journal: &Journal) -> Option<u64> {
    let mut events = journal.records.iter().rev().filter_map(|record| match record {
        Record::Event(stamped) => Some(stamped),
        Record::Step(_) => None,
    });
    // These two are appended when somebody finds a session that was killed.
    let is_found =
        |event: &Event| matches!(event, Event::CancelRequested { .. } | Event::SessionResumed { .. });
    events.find(|stamped| !is_found(&stamped.event)).map(|stamped| stamped.at.0)
}

/// Executions with what they left, then where the session stopped, then its end, then what rewinds replaced.
fn order(name: &str) -> (u8, u32, u8) {
    let numbered = |begin: &str| name.strip_prefix(begin).and_then(number);
    let groups = [(0, 0, ""), (0, 1, AFTER), (1, 0, STOPPED), (1, 1, RESUMED), (3, 0, REWIND)];
    let found = groups.into_iter().find_map(|(group, place, begin)| Some((group, numbered(begin)?, place)));
    found.unwrap_or(if name == END { (2, 0, 0) } else { (4, 0, 0) })
}
