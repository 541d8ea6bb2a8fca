//! Keeping the tree before an execution first changes it, and bringing it back (`spec/sessions.md`; issue "Sessions
//! that survive anything"). The user's index, branch and stash are never touched, and no code of the repository runs.
//!
//! Owns the trees of a session: they are kept in the repository's objects where git and a repository are there
//! (`objects`), in objects of the session's own where there is only git, and as plain copies where there is not
//! even that (`copies`). Kept is what is below the project and not ignored, byte for byte. It refuses to enter other
//! repositories inside the project, to follow links, and to restore what it did not keep.

mod copies;
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

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rawko_core::session::Note;

use crate::journal::{Journal, Record, read};

pub use diff::{ChangeKind, Detail, FileChange, Span};
pub use error::CheckpointError;
use place::UserFolders;
pub use rewind::{Execute, LeftAlone, Rewound};
use store::Store;

/// Name of the tree that a session leaves behind.
const END: &str = "end";
/// Begins the name of a tree that a rewind replaced.
const REWIND: &str = "rewind-";

/// The checkpoints of one session.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    project: PathBuf,
    directory: PathBuf,
    session: String,
    /// What the journal says was kept; empty while the session is being made.
    recorded: BTreeMap<u32, String>,
    path: Option<OsString>,
    user: UserFolders,
}

/// A kept tree.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Checkpoint {
    /// Number of the execution before which it was kept; `end`; or `rewind-1` and so on for what a rewind replaced.
    pub name: String,
    /// Names what was kept: a commit, or a list of copies.
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
    /// The lines that differ, as a patch; empty where [`Detail::Files`] was asked for.
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
            recorded: BTreeMap::new(),
            path: std::env::var_os("PATH"),
            user: UserFolders { home: std::env::var_os("HOME"), config: std::env::var_os("XDG_CONFIG_HOME") },
        }
    }

    /// The checkpoints of a session that was recorded in `journal`, which lies at `path`.
    #[must_use]
    pub fn of_journal(project: &Path, path: &Path, journal: &Journal) -> Self {
        let directory = path.parent().unwrap_or(Path::new("."));
        Self { recorded: recorded(journal), ..Self::new(project, directory, &journal.header.session) }
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
        // Whatever the session left behind, it goes on now.
        store.keep(&iteration.to_string(), &listing, Some(END))
    }

    /// Keeps the tree that the session leaves behind, if it kept any before: what somebody changes later is not taken
    /// for the session's.
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
    pub fn changes(&self, span: Span, detail: Detail) -> Result<Changes, CheckpointError> {
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

    /// Lets go of everything that was kept in the repository. What is in the session's directory goes with that.
    ///
    /// # Errors
    /// If git cannot be asked, or refuses.
    pub fn forget(&self) -> Result<(), CheckpointError> {
        self.store()?.forget()
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
        Note::CheckpointKept { iteration, checkpoint } => Some((*iteration, checkpoint.clone())),
        _ => None,
    };
    steps.flat_map(|step| &step.notes).filter_map(kept).collect()
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
