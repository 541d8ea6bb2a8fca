//! A task's clone: made, repaired, and set to a commit.
//!
//! An agent has worked in it, perhaps a hostile one, or a process was killed there. So before git is asked, the files of the
//! clone that git obeys are as rawko writes them, and whatever else would be obeyed is gone.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::error::TreeError;
use super::files::{is_folder, make_folder, remove, set, sweep};
use super::git::{self, TreeGit, other_end};
use super::lock::TreeLock;
use super::mirror::{Mirror, fetch_commit, has, is_unknown};
use super::names::{CommitId, Repository, branch_of};
use super::place::{WorkPlace, unfinished};

/// What is in the tree and never committed: sessions, which the fleet keeps elsewhere.
pub(super) const SESSIONS: &str = ".rawko/sessions";

/// What git would obey and rawko never writes.
const UNWANTED: [&str; 10] = [
    "commondir",
    "config.worktree",
    "hooks",
    "info/grafts",
    "info/sparse-checkout",
    "shallow",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "objects/info/http-alternates",
];

/// The work tree of a task, at a commit of the task. No one else has it until this is dropped.
#[derive(Debug)]
pub struct TaskTree {
    pub(super) place: WorkPlace,
    pub(super) task: String,
    pub(super) branch: String,
    pub(super) repository: Repository,
    folder: PathBuf,
    pub(super) head: Mutex<CommitId>,
    pub(super) lock: TreeLock,
}

impl TaskTree {
    /// Opens the tree of `task`, makes it if there is none, and brings it to the commit `head`: what is not committed is
    /// removed, what git ignores stays (caches of builds), and so do sessions of rawko.
    ///
    /// Where another process works in the task's tree, a further one is taken: that process may be one that hangs and
    /// was given up.
    ///
    /// # Errors
    /// If a name cannot be used, the repository cannot be reached or does not have the commit, or git fails twice.
    pub fn open(
        place: &WorkPlace,
        task: &str,
        repository: &Repository,
        head: &CommitId,
    ) -> Result<Self, TreeError> {
        let branch = branch_of(task)?;
        place.check(repository)?;
        let (lock, folder) = place.take_tree(task)?;
        let tree = Self {
            place: place.clone(),
            task: task.to_owned(),
            branch,
            repository: repository.clone(),
            folder,
            head: Mutex::new(head.clone()),
            lock,
        };
        match tree.bring_to(head) {
            // Damaged in a way that cannot be mended.
            Err(error) if error.is_local() => {
                remove(&tree.folder)?;
                tree.bring_to(head)?;
            }
            other => other?,
        }
        Ok(tree)
    }

    /// The folder of the tree.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The commit that the tree's files are changes to: the one it was opened at, or the last one that was made in it.
    #[must_use]
    pub fn head(&self) -> CommitId {
        self.head.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn bring_to(&self, head: &CommitId) -> Result<(), TreeError> {
        let git_folder = self.git_folder();
        let is_ours = is_folder(&self.folder)
            && ["", "objects", "objects/info", "info", "refs"]
                .iter()
                .all(|part| is_folder(&git_folder.join(part)));
        if !is_ours || !self.borrows_from_its_mirror() {
            self.make(head)?;
        }
        self.mend(head)?;
        self.distrust_index()?;
        if self.is_at(head)? {
            return Ok(());
        }
        if has(self.ask("find a commit")?, head).is_err() {
            self.fetch_head(head)?;
        }
        let reset = ["reset", "--quiet", "--hard", head.as_str()];
        if self.ask("take the files of the commit to")?.args(reset).answer().is_err() {
            remove(&git_folder.join("index"))?;
            self.ask("take the files of the commit to")?.args(reset).answer()?;
        }
        let clean = ["clean", "--quiet", "-ffd", &format!("--exclude=/{SESSIONS}/")];
        self.ask("remove other files in")?.args(clean).answer().map(drop)
    }

    /// A clone without files, which takes its place when it is whole.
    fn make(&self, head: &CommitId) -> Result<(), TreeError> {
        let new = unfinished(&self.folder);
        remove(&new)?;
        make_folder(&new)?;
        // Its mirror is not removed while it is made: afterwards it names it.
        let mirror = Mirror::open(&self.place, &self.repository, head.format())?;
        let git_folder = new.join(".git");
        let format = format!("--object-format={}", head.format());
        let init = ["init", "--quiet", "--template=", &format];
        git::local(&self.place, &self.lock, "make a clone", &git_folder)?
            .env("GIT_WORK_TREE", &new)
            .within(&new)
            .args(init)
            .answer()?;
        for part in ["info", "objects/info"] {
            make_folder(&git_folder.join(part))?;
        }
        set(&git_folder.join("objects/info/alternates"), &format!("{}\n", mirror.objects().display()))?;
        remove(&self.folder)?;
        std::fs::rename(&new, &self.folder).map_err(|error| TreeError::io("put in place", &new, error))
    }

    fn borrows_from_its_mirror(&self) -> bool {
        is_folder(&self.mirror_objects())
            && std::fs::read_to_string(self.git_folder().join("objects/info/alternates"))
                .is_ok_and(|named| named == format!("{}\n", self.mirror_objects().display()))
    }

    fn mirror_objects(&self) -> PathBuf {
        self.place.mirror(&self.repository.mirror_name()).join("objects")
    }

    /// Writes anew what git obeys, and removes what a killed git has left.
    pub(super) fn mend(&self, head: &CommitId) -> Result<(), TreeError> {
        let git_folder = self.git_folder();
        sweep(&git_folder)?;
        for name in UNWANTED {
            remove(&git_folder.join(name))?;
        }
        let (version, extension) = match head.format() {
            "sha1" => (0, String::new()),
            format => (1, format!("[extensions]\n\tobjectFormat = {format}\n")),
        };
        let (name, email) = &self.place.author;
        let url = quoted(self.repository.url());
        let config = format!(
            "[core]\n\trepositoryFormatVersion = {version}\n\tfileMode = true\n\tbare = false\n\
             \tlogAllRefUpdates = false\n{extension}\
             [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n\
             [user]\n\tname = {}\n\temail = {}\n\
             [remote \"origin\"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            quoted(name),
            quoted(email),
        );
        set(&git_folder.join("config"), &config)?;
        set(&git_folder.join("HEAD"), &format!("ref: refs/heads/{}\n", self.branch))?;
        // These win over what the tree's own files say: no filter runs, wherever it was defined.
        set(&git_folder.join("info/attributes"), "* -filter\n")?;
        set(&git_folder.join("info/exclude"), &format!("/{SESSIONS}/\n"))
    }

    /// Whether the tree is at this commit, with nothing changed and nothing added. One process.
    fn is_at(&self, head: &CommitId) -> Result<bool, TreeError> {
        let status = ["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal"];
        let ask = self.ask("compare the files of")?.args(status);
        let Ok(answer) = ask.args(["--ignore-submodules=all", "--no-renames"]).answer() else {
            return Ok(false);
        };
        let at = format!("# branch.oid {head}");
        let mut lines = answer.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        let is_at = lines.clone().any(|line| line == at.as_bytes());
        Ok(is_at && lines.all(|line| line.starts_with(b"# ")))
    }

    /// Fetches the commit from where it most likely is: the task's branch, then the other branches, then wherever it is.
    fn fetch_head(&self, head: &CommitId) -> Result<(), TreeError> {
        let is_here = || has(self.ask("find a commit")?, head);
        match self.fetch_branch() {
            Ok(()) if is_here().is_ok() => return Ok(()),
            Err(TreeError::Remote { message, .. }) if is_unknown(&message) => {}
            other => other?,
        }
        Mirror::open(&self.place, &self.repository, head.format())?.update()?;
        if is_here().is_ok() {
            return Ok(());
        }
        fetch_commit(&self.place, &self.lock, &self.git_folder(), &self.repository, head)
    }

    /// Fetches the task's branch.
    pub(super) fn fetch_branch(&self) -> Result<(), TreeError> {
        let branch = &self.branch;
        self.fetch(
            "fetch the task's branch from",
            &format!("+refs/heads/{branch}:refs/remotes/origin/{branch}"),
        )
    }

    pub(super) fn fetch(&self, doing: &'static str, what: &str) -> Result<(), TreeError> {
        let ask = self.ask_remote(doing)?.args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"]);
        let ask = ask.args(other_end(&self.place, &self.repository, "upload-pack"));
        ask.args(["--", self.repository.url(), what]).answer().map(drop)
    }

    /// About the clone and its files.
    pub(super) fn ask(&self, doing: &'static str) -> Result<TreeGit, TreeError> {
        let git = git::local(&self.place, &self.lock, doing, &self.git_folder())?;
        Ok(git.env("GIT_WORK_TREE", &self.folder).within(&self.folder))
    }

    /// To the remote, from a clone without foreign settings: an agent may have worked in it since.
    pub(super) fn ask_remote(&self, doing: &'static str) -> Result<TreeGit, TreeError> {
        self.mend(&self.head())?;
        git::remote(&self.place, Some(&self.lock), doing, Some(&self.git_folder()), &self.repository)
    }

    pub(super) fn git_folder(&self) -> PathBuf {
        self.folder.join(".git")
    }
}

/// A value as git's configuration has it.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}
