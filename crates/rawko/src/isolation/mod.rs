//! A run in a tree of its own: a copy of the project at the project's path, which lands at the end (`docs/isolated.md`).
//!
//! The files of the project, and what git may write, are copied once and then bound over the project in a mount namespace;
//! large folders that git ignores are layers over the project's. Only the threads of the run are in that namespace, so
//! several runs of one process each have a tree at the same path, and everything of rawko that touches files works there
//! as it does in the project. Where no namespace can be made, the tree is a copy at a path of its own.
//!
//! A folder of the user's state holds the tree until it has landed or was discarded. It is found by the project's path and the
//! session's id: what a session's folder says, which may have come with the project, is not believed.

mod copy;
mod landing;
mod making;
mod manifest;
mod policy;
mod repository;
mod threads;
mod within;

use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rawko_core::text::is_plain_name;
use rawko_tools::{FileLock, NamespaceStep};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::config::user_state_dir;
use crate::error::Error;
use crate::journal::SessionStore;
use crate::private;
pub use landing::{complete_landings, discard, land};
pub use policy::{LandingPolicy, Workspace};
pub(crate) use repository::SHARED_OBJECTS;
pub(crate) use threads::on_threads_of;
pub(crate) use within::Within;

/// In a session's folder: it was given a tree of its own.
pub(crate) const MARK: &str = "isolated";
/// In the folder of a tree: whose it is, and how it is mounted.
const RECORD: &str = "tree.json";
/// In the folder of a tree: the copy of the project's work tree.
const TREE: &str = "tree";
/// In the folder of a tree: what its files were copied from.
const MANIFEST: &str = "manifest";
/// The folder of a tree that is needed no more, of which the next one is made.
const SPARE: &str = "spare";
/// The longest id of a session.
const LONGEST_ID: usize = 100;
/// The longest record that is read.
const LONGEST_RECORD: u64 = 16 * 1024 * 1024;

/// Whose tree it is, and how it is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TreeRecord {
    session: String,
    /// The project's real path.
    project: PathBuf,
    /// When its work lands.
    land: LandingPolicy,
    /// The commit that it began with.
    head: Option<String>,
    /// How many executions the session had begun when the tree was made.
    since: u32,
    /// Where the tree is seen, and what is seen there. Nothing where the tree is a copy at its own path.
    steps: Vec<NamespaceStep>,
    /// The project's folder in the copy.
    copy: PathBuf,
}

/// The tree of one session.
#[derive(Debug)]
pub(crate) struct IsolatedTree {
    folder: PathBuf,
    /// The session's folder.
    directory: PathBuf,
    record: TreeRecord,
    within: Within,
    fate: Mutex<Fate>,
}

/// What becomes of the tree when it is let go.
#[derive(Debug, Clone, Copy, Default)]
enum Fate {
    #[default]
    Kept,
    /// Nothing in it is needed any more, but the next one may be made of it.
    Done,
    Discarded,
}

impl IsolatedTree {
    /// The tree of the session whose folder is `directory`; `None` if it has none, or no longer.
    pub(crate) fn of_session(project: &Path, directory: &Path) -> Option<Self> {
        let (folder, record) = record_of(project, directory)?;
        let (within, directory) = (Within::new(&record.steps), directory.to_owned());
        Some(Self { folder, directory, record, within, fate: Mutex::default() })
    }

    /// Where its work is done.
    pub(crate) fn within(&self) -> &Within {
        &self.within
    }

    /// The project's folder in the copy. No other run works in it.
    pub(crate) fn copy(&self) -> &Path {
        &self.record.copy
    }

    /// The path at which the run sees it, where that is not the project's.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.record.steps.is_empty().then_some(self.record.copy.as_path())
    }

    /// Records in the session's folder, which is there by now, that it has a tree.
    ///
    /// # Errors
    /// If nothing can be written.
    pub(crate) fn mark(&self) -> io::Result<()> {
        private::replace(&self.directory.join(MARK), b"")
    }

    fn set_fate(&self, fate: Fate) {
        *self.fate.lock().unwrap_or_else(PoisonError::into_inner) = fate;
    }
}

impl Drop for IsolatedTree {
    /// Removes the tree of a session that has landed, or was never begun.
    fn drop(&mut self) {
        let remove: fn(&Path) -> io::Result<()> =
            match *self.fate.get_mut().unwrap_or_else(PoisonError::into_inner) {
                Fate::Kept if was_isolated(&self.directory) => return,
                Fate::Kept | Fate::Done => spare,
                Fate::Discarded => rawko_tools::temporary::remove_all,
            };
        // From where nothing is mounted in it.
        let _ = self.within.run_outside(|| remove(&self.folder));
    }
}

/// Keeps of a tree what the next one can be made of, unless there is that already: file systems make many files slowly where as
/// many were removed just before.
fn spare(folder: &Path) -> io::Result<()> {
    let spare = folder.with_file_name(SPARE);
    if !shows_changes(folder) || std::fs::rename(folder, &spare).is_err() {
        return rawko_tools::temporary::remove_all(folder);
    }
    strip(&spare)
}

/// Removes everything but the copy of the project from the folder of a tree.
fn strip(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != TREE && name != MANIFEST {
            rawko_tools::temporary::remove_all(&entry.path())
                .or_else(|_| std::fs::remove_file(entry.path()))?;
        }
    }
    Ok(())
}

/// Whether each change of a file shows in the time of its status: in memory, a program can write to a mapped file without it.
#[cfg(target_os = "linux")]
fn shows_changes(folder: &Path) -> bool {
    /// ext4, btrfs and XFS.
    const KNOWN: [i64; 3] = [0xEF53, 0x9123_683E, 0x5846_5342];
    rustix::fs::statfs(folder)
        .is_ok_and(|found| KNOWN.iter().any(|known| i128::from(found.f_type) == i128::from(*known)))
}

#[cfg(not(target_os = "linux"))]
fn shows_changes(_: &Path) -> bool {
    false
}

/// Waits until no other process makes a tree of the project or lands one: one would have half of another's work, or overwrite it.
fn lock(trees: &Path) -> io::Result<FileLock> {
    let path = trees.with_extension("lock");
    let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    FileLock::wait_for(file)
}

/// The folder of the user's state that holds the trees of a project.
fn trees_of(project: &Path) -> Option<PathBuf> {
    let name = hex::encode(&Sha256::digest(project.as_os_str().as_encoded_bytes())[..8]);
    Some(user_state_dir(&|name| std::env::var(name).ok())?.join("trees").join(name))
}

/// The folder of the tree of the session whose folder is `directory`, and its record, if it has a tree.
fn record_of(project: &Path, directory: &Path) -> Option<(PathBuf, TreeRecord)> {
    if !was_isolated(directory) {
        return None;
    }
    let project = project.canonicalize().ok()?;
    let session = directory.file_name()?.to_str().filter(|name| is_plain_name(name, LONGEST_ID))?;
    let folder = trees_of(&project)?.canonicalize().ok()?.join(session);
    let text = rawko_tools::text_of(&folder.join(RECORD), LONGEST_RECORD)?;
    let record: TreeRecord = serde_json::from_str(&text).ok()?;
    (record.session == session && record.project == project).then_some((folder, record))
}

/// The path of the tree of the session whose folder is `directory`, where that is not the project's.
pub(crate) fn path_of_tree(project: &Path, directory: &Path) -> Option<PathBuf> {
    let (_, record) = record_of(project, directory)?;
    record.steps.is_empty().then_some(record.copy)
}

/// Has the calling thread, and what it starts, work in the tree of the session whose journal is at `journal`, as long as it
/// has one.
///
/// # Errors
/// [`Error::Setup`] if the tree is there and cannot be shown.
pub fn enter_tree_of_session(project: &Path, journal: &Path) -> Result<(), Error> {
    let directory = journal.parent().unwrap_or(Path::new("."));
    match IsolatedTree::of_session(project, directory) {
        Some(tree) => tree.within.enter().map_err(|error| no_entry(&error)),
        None => Ok(()),
    }
}

/// Where the tree of the session in this folder is, if it has one: with work that has not landed.
#[must_use]
pub fn tree_of_session(project: &Path, directory: &Path) -> Option<PathBuf> {
    record_of(project, directory).map(|(folder, _)| folder)
}

/// Removes the tree of the session in this folder, with the work in it.
///
/// # Errors
/// If some of it cannot be removed.
pub fn remove_tree_of_session(project: &Path, directory: &Path) -> io::Result<()> {
    tree_of_session(project, directory).map_or(Ok(()), |folder| rawko_tools::temporary::remove_all(&folder))
}

/// The error of a tree that cannot be entered.
pub(crate) fn no_entry(error: &io::Error) -> Error {
    Error::Setup {
        message: format!("the tree of the run cannot be shown: {error}"),
        hint: "start rawko as the user, and on the machine, that it was begun with".to_owned(),
    }
}

/// Whether the session that `id` means was given a tree of its own, whatever became of it.
#[must_use]
pub fn session_was_isolated(store: &SessionStore, id: &str) -> bool {
    store.find(id).is_ok_and(|journal| journal.parent().is_some_and(was_isolated))
}

/// Whether a session was given a tree of its own, whatever became of it.
pub(crate) fn was_isolated(directory: &Path) -> bool {
    directory.join(MARK).is_file()
}
