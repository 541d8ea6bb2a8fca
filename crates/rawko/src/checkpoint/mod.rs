//! Keeps the tree before an execution first changes it, and brings it back (`docs/spec/sessions.md`). The user's index,
//! branch and stash are never touched, and no code of the repository runs.
//!
//! Owns the trees of a session. Git keeps them: among the repository's objects, or in a store of the session's own where
//! there is no repository or it cannot be written (`objects`). Kept is what is below the project and not ignored, byte
//! for byte. Without a git program nothing is kept. This module does not enter other repositories inside the project,
//! follow links, or restore what it did not keep.

mod diff;
mod error;
mod git;
mod inspect;
mod listing;
mod objects;
mod own;
mod place;
mod restore;
mod rewind;
mod scratch;
mod share;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod trees;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rawko_core::session::Note;

use crate::journal::{Journal, Record, read};

pub use diff::{ChangeKind, DiffDetail, FileChange, Span};
pub use error::CheckpointError;
use git::Git;
use place::UserFolders;
pub use rewind::{Execute, LeftAlone, Rewound};
use store::Store;
pub(crate) use trees::{Fate, GitFolders, Trees, Version};

/// Name of the tree at the end of a session.
const END: &str = "end";
/// Begins the name of a tree that a rewind replaced.
const REWIND: &str = "rewind-";

/// The checkpoints of one session.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    project: PathBuf,
    directory: PathBuf,
    session: String,
    /// Executions of earlier tasks of the session, which are not compared with.
    since: u32,
    /// The same for the task whose beginning the checks are held against: this one, or one before it.
    checks_since: u32,
    /// What the journal says was kept; empty while the session is being made.
    recorded: BTreeMap<u32, String>,
    /// The version of rawko that made the session, as its journal says.
    rawko: Option<String>,
    path: Option<OsString>,
    user: UserFolders,
}

/// A kept tree.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Checkpoint {
    /// Number of the execution before which it was kept; `end`; or `rewind-1` and so on for what a rewind replaced.
    pub name: String,
    /// The commit that git keeps it as.
    pub id: String,
}

/// With what a kept tree is compared.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// Another kept tree.
    Kept(Checkpoint),
    /// The folder as it is now.
    Now,
}

/// What a session or an execution changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The tree before.
    pub from: Checkpoint,
    /// The tree after.
    pub to: Until,
    /// The files that differ, by path.
    pub files: Vec<FileChange>,
    /// The lines that differ, as a patch; empty where [`DiffDetail::Files`] was asked for.
    pub patch: Vec<u8>,
    /// Files that are not compared because they were not kept, each with why.
    pub not_kept: Vec<String>,
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
            rawko: None,
            path: std::env::var_os("PATH"),
            user: UserFolders { home: std::env::var_os("HOME"), config: std::env::var_os("XDG_CONFIG_HOME") },
        }
    }

    /// The checkpoints of a session that was recorded in `journal`, which lies at `path`.
    #[must_use]
    pub fn of_journal(project: &Path, path: &Path, journal: &Journal) -> Self {
        let directory = path.parent().unwrap_or(Path::new("."));
        Self {
            recorded: recorded(journal),
            rawko: Some(journal.header.rawko.clone()),
            ..Self::new(project, directory, &journal.header.session)
        }
    }

    /// Compares with what was kept after so many executions: the session goes on with its next task.
    #[must_use]
    pub fn after(self, executions: u32) -> Self {
        Self { since: executions, checks_since: executions, ..self }
    }

    /// Holds the checks against what was kept after so many executions, which belong to an earlier task or this one.
    #[must_use]
    pub(crate) fn holding_checks_since(self, executions: u32) -> Self {
        Self { checks_since: executions.min(self.since), ..self }
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
        let listing = store.list(&BTreeSet::new())?;
        // The session goes on, so the tree at its end is not known yet.
        store.keep(&iteration.to_string(), &listing, Some(END))
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
        let listing = store.list(&BTreeSet::new())?;
        store.keep(END, &listing, None).map(Some)
    }

    /// All kept trees: by execution, then what rewinds replaced, then the end.
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

    /// What the session or one of its executions changed.
    ///
    /// # Errors
    /// [`CheckpointError::Unknown`] where nothing was kept for it, [`CheckpointError::Gone`] where that is lost.
    pub fn changes(&self, span: Span, detail: DiffDetail) -> Result<Changes, CheckpointError> {
        let kept = self.list()?;
        let executions: Vec<&Checkpoint> = kept.iter().filter(|kept| number(&kept.name).is_some()).collect();
        let at = match span {
            Span::Session => (!executions.is_empty()).then_some(0),
            Span::Execution(wanted) => executions.iter().position(|kept| number(&kept.name) == Some(wanted)),
        };
        let Some(from) = at.and_then(|at| executions.get(at)) else {
            let asked = match span {
                Span::Session => "1".to_owned(),
                Span::Execution(wanted) => wanted.to_string(),
            };
            return Err(self.unknown(&asked, &executions));
        };
        let next = match span {
            Span::Session => None,
            Span::Execution(_) => at.and_then(|at| executions.get(at + 1)).copied(),
        };
        let to = next.or_else(|| kept.iter().find(|kept| kept.name == END));
        let to = to.map_or(Until::Now, |to| Until::Kept(to.clone()));
        self.store()?.changes((*from).clone(), to, detail)
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

    /// Whether git is installed where a run in `project` finds it. Without it nothing can be brought back or compared.
    #[must_use]
    pub fn is_available(project: &Path) -> bool {
        let project = place::real(project).unwrap_or_else(|_| project.to_owned());
        Git::find(std::env::var_os("PATH").as_deref(), place::work_tree(&project)).is_some()
    }

    /// Whether anything was kept for this session. A fork may have nothing but what its beginning kept.
    fn has_kept(&self) -> bool {
        let in_journal =
            || read(&self.directory.join("journal.jsonl")).is_ok_and(|it| !recorded(&it).is_empty());
        self.folder().is_dir() || !self.recorded.is_empty() || in_journal()
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

/// The execution that a name stands for.
fn number(name: &str) -> Option<u32> {
    name.parse().ok()
}

fn order(name: &str) -> (u8, u32) {
    match (number(name), name.strip_prefix(REWIND).and_then(number)) {
        (Some(execution), _) => (0, execution),
        (None, Some(rewind)) => (1, rewind),
        (None, None) => (2, 0),
    }
}
