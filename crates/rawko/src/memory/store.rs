//! A project's memories, as a whole.
//!
//! Owns the order of steps: it lists, reads, asks the core, and looks at the tree.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rawko_core::Timestamp;
use rawko_core::memory::{
    Feedback, Memory, Query, RankInput, Reason, Recipient, Selection, Use, rank, reference_key,
    referred_keys, shortlist_len,
};
use rawko_tools::FileLock;
use rustix::io::Errno;

use super::feedback;
use super::file::{self, Care, Entry, Text};
use super::folder::{self, Listed, Listing};
use super::report::Report;
use super::tree::Tree;
use super::write::WriteError;

/// What rawko keeps for one machine, and git ignores.
const GITIGNORE: &str = "\
# What rawko keeps for this machine alone. The memories themselves are meant to be committed.
/.feedback.jsonl
.new-*
";

/// How long a writer waits for another one, whose process may have been stopped, or mean harm.
const PATIENCE: Duration = Duration::from_secs(30);

/// The folder of a project that its memories' folder is in.
const ABOVE: &str = ".rawko";
/// The memories' folder itself.
const MEMORIES: &str = "memories";

/// The memories of one project. Nothing is read before it is asked for.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    project: PathBuf,
    /// The folder that the memories' folder is in.
    above: PathBuf,
    /// The user's own, which agents are given besides.
    user: Option<Arc<MemoryStore>>,
    /// Whether agents are given those of this store.
    is_given: bool,
    /// How long other writers are waited for.
    patience: Duration,
}

/// All memories that can be used, by path, and what is wrong with the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    /// The memories, by path.
    pub memories: Vec<Memory>,
    /// What should be repaired.
    pub reports: Vec<Report>,
}

/// What a recall depends on besides query and agent.
#[derive(Debug, Clone, Default)]
pub struct RecallOptions {
    /// The instant.
    pub now: Timestamp,
}

/// What an execution is given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recall {
    /// Which memories, and why these.
    pub selection: Selection,
    /// The text for the end of the system prompt; empty where nothing is given.
    pub block: String,
    /// How many memories there are.
    pub total: usize,
    /// What should be repaired.
    pub reports: Vec<Report>,
}

impl MemoryStore {
    /// The memories in the project's `.rawko/memories`.
    #[must_use]
    pub fn of_project(project: &Path) -> Self {
        Self {
            project: project.to_owned(),
            above: project.join(ABOVE),
            user: None,
            is_given: true,
            patience: PATIENCE,
        }
    }

    /// The user's own memories, in the folder `memories` of the folder of the user's configuration. What they say of files is
    /// said of those in `project`.
    #[must_use]
    pub fn of_user(config_dir: &Path, project: &Path) -> Self {
        Self { above: config_dir.to_owned(), ..Self::of_project(project) }
    }

    /// The same, where agents are given the user's own besides. Paths of these begin with [`OF_USER`](super::OF_USER).
    #[must_use]
    pub fn with_user(self, config_dir: &Path) -> Self {
        let user = Self::of_user(config_dir, &self.project);
        Self { user: Some(Arc::new(user)), ..self }
    }

    /// The same, where agents are not given those of the project: they are not trusted.
    #[must_use]
    pub(crate) fn without_own(self) -> Self {
        Self { is_given: false, ..self }
    }

    /// The user's own, if agents are given them.
    #[must_use]
    pub fn user(&self) -> Option<&Self> {
        self.user.as_deref()
    }

    /// The same, but waits this long for other writers instead of 30 seconds.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Whether they are the user's own, and not those of a project.
    #[must_use]
    pub fn is_of_user(&self) -> bool {
        self.above != self.project.join(ABOVE)
    }

    /// Their folder, whether it is there or not.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.above.join(MEMORIES)
    }

    /// What keeps the folder itself from being read, and with it all of them.
    #[must_use]
    pub fn obstacle(&self) -> Option<Report> {
        self.open().err().map(|report| *report)
    }

    /// All of them.
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        self.read(Care::Quick)
    }

    /// All of them, looked at with care.
    #[must_use]
    pub(super) fn inventory_with_care(&self) -> Inventory {
        self.read(Care::Full)
    }

    fn read(&self, care: Care) -> Inventory {
        match self.open() {
            Ok(Some(root)) => Inventory::read(&root, care),
            Ok(None) => Inventory::default(),
            Err(report) => Inventory { memories: Vec::new(), reports: vec![*report] },
        }
    }

    /// Chooses what an execution is given. [`Selection::left_out`] names only those that came near.
    #[must_use]
    pub fn recall(&self, query: &Query, recipient: &Recipient, options: &RecallOptions) -> Recall {
        let mut recall = self.explain(query, recipient, options);
        let near = shortlist_len(usize::try_from(recipient.max_injected).unwrap_or(usize::MAX));
        recall
            .selection
            .left_out
            .retain(|left| matches!(left.reason, Reason::NoPlace { rank } if rank <= near));
        recall
    }

    /// The same, with a reason for every memory that is not given.
    #[must_use]
    pub fn explain(&self, query: &Query, recipient: &Recipient, options: &RecallOptions) -> Recall {
        let (feedback, broken) = if self.is_given { self.feedback() } else { Default::default() };
        let own = if self.is_given { self.inventory() } else { Inventory::default() };
        let users = self.users();
        let around = RankInput { feedback, now: options.now };
        let ranking = rank(own.memories.iter().chain(&users.memories), query, recipient, &around);
        let mut reports = own.reports;
        reports.extend(users.reports);
        reports.extend(broken);
        if ranking.untried() > 0 {
            let message =
                format!("{} regular expressions were not tried: there are too many", ranking.untried());
            reports.push(Report::warning("", message, "write words instead, or split large expressions"));
        }
        let tree = Tree::new(&self.project);
        let looked = |memory: &Memory| (memory.path.clone(), tree.look(&memory.header));
        let found = ranking.shortlist().into_iter().map(looked).collect();
        let selection = ranking.choose(&found);
        let mut bodies = BTreeMap::new();
        for one in &selection.chosen {
            let path = &one.memory.path;
            let text = match (path.strip_prefix(super::OF_USER), &self.user) {
                (Some(own), Some(user)) => user.parts(own),
                (Some(_) | None, _) => self.parts(path),
            };
            match text {
                Ok(text) => drop(bodies.insert(path.clone(), text.body)),
                Err(report) => reports.push(*report),
            }
        }
        let block = rawko_core::memory::block::block(&selection, &bodies);
        Recall { selection, block, total: own.memories.len() + users.memories.len(), reports }
    }

    /// The user's own that agents are given, with paths that say so.
    #[must_use]
    pub fn users(&self) -> Inventory {
        let mut users = self.user.as_ref().map(|user| user.inventory()).unwrap_or_default();
        for path in users.memories.iter_mut().map(|memory| &mut memory.path) {
            path.insert_str(0, super::OF_USER);
        }
        for report in &mut users.reports {
            report.path.insert_str(0, super::OF_USER);
        }
        users
    }

    /// A memory's text: its front matter with the two lines around it, and its body.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn text(&self, path: &str) -> Result<(String, String), Box<Report>> {
        self.parts(path).map(|text| (text.front, text.body))
    }

    fn parts(&self, path: &str) -> Result<Text, Box<Report>> {
        let absent =
            || Box::new(Report::error(path, "there is no such memory", "`rawko memory list` names them all"));
        let root = self.open()?.ok_or_else(absent)?;
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = folder::open_below(root.as_fd(), folder).map_err(|_| absent())?;
        file::read_text(folder.as_fd(), name, path)
    }

    pub(super) fn to_change(&self, path: &str) -> Result<Text, WriteError> {
        self.parts(path).map_err(|_| WriteError::NotFound { path: path.to_owned() })
    }

    /// The memories that a name may mean: a path, a file's name or a title.
    #[must_use]
    pub fn find(&self, name: &str) -> Vec<Memory> {
        let key = reference_key(name);
        let mut all = self.inventory().memories;
        all.retain(|memory| referred_keys(&memory.path, &memory.header.title).contains(&key));
        // A path means itself alone.
        match all.iter().position(|memory| memory.path == name) {
            Some(at) => vec![all.swap_remove(at)],
            None => all,
        }
    }

    /// Everything that should be repaired, of each file and between files.
    #[must_use]
    pub fn check(&self, now: Timestamp) -> Vec<Report> {
        let mut reports = super::check::check(self, now);
        reports.extend(self.feedback().1);
        reports.sort_by(|a, b| (&a.path, a.line, &a.message).cmp(&(&b.path, b.line, &b.message)));
        reports
    }

    /// What earlier uses say, by path.
    #[must_use]
    pub fn feedback(&self) -> (BTreeMap<String, Feedback>, Vec<Report>) {
        match self.open() {
            Ok(Some(root)) => feedback::read(root.as_fd()),
            Ok(None) | Err(_) => (BTreeMap::new(), Vec::new()),
        }
    }

    /// Records uses of memories.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn record_uses(&self, uses: &[Use]) -> Result<(), WriteError> {
        let failed = |source: io::Error| WriteError::Io { path: feedback::NAME.to_owned(), source };
        if uses.is_empty() {
            return Ok(());
        }
        self.prepare()?;
        let root = self.open().map_err(WriteError::Folder)?;
        let root = root.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        feedback::append(root.as_fd(), uses).map_err(failed)
    }

    /// Keeps every other writer out for as long as what it returns lives: a lock on the folder itself, so that no file is left.
    /// Reading takes none. Without a folder there is nothing to protect.
    pub(super) fn lock(&self) -> Result<Option<FileLock>, WriteError> {
        let Some(root) = self.open().map_err(WriteError::Folder)? else { return Ok(None) };
        // Where the file system knows no such locks, no process is held back.
        FileLock::take_if_known(root, self.patience).map_err(|_| WriteError::Busy)
    }

    /// The folder, made where it is not there, with a `.gitignore` that leaves the memories alone.
    pub(super) fn prepare(&self) -> Result<PathBuf, WriteError> {
        let folder = self.folder();
        let failed = |source: io::Error| WriteError::Io { path: super::FOLDER.to_owned(), source };
        // It may be a file, or a link that would lead out of the project.
        if self.open().map_err(WriteError::Folder)?.is_none() {
            fs::create_dir_all(&folder).map_err(failed)?;
            self.open().map_err(WriteError::Folder)?;
        }
        ignore_own(&folder).map_err(failed)?;
        Ok(folder)
    }

    pub(super) fn open(&self) -> Result<Option<OwnedFd>, Box<Report>> {
        folder::open(&self.above)
    }
}

/// Lists what git must ignore. An existing file is left as it is.
fn ignore_own(folder: &Path) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).create_new(true).open(folder.join(".gitignore"));
    match file {
        Ok(mut file) => io::Write::write_all(&mut file, GITIGNORE.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

impl Inventory {
    /// What is in the folder now.
    fn read(root: &OwnedFd, care: Care) -> Self {
        let Listing { folders, mut reports } = folder::list(root.as_fd());
        let (mut memories, mut of_files) = (Vec::new(), Vec::new());
        for Listed { path: above, names } in folders {
            let folder = match folder::open_below(root.as_fd(), &above) {
                Ok(folder) => folder,
                // It went meanwhile.
                Err(Errno::NOENT) => continue,
                Err(error) => {
                    reports.push(folder::unreadable(&above, error));
                    continue;
                }
            };
            for name in names {
                let path = folder::below(&above, &name);
                let Entry { header, terms, reports } = file::read_entry(folder.as_fd(), &name, &path, care);
                of_files.extend(reports);
                memories.extend(header.map(|header| Memory { path, header, terms }));
            }
        }
        memories.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        of_files.sort_by(|a, b| a.path.cmp(&b.path));
        reports.extend(of_files);
        Self { memories, reports }
    }
}
