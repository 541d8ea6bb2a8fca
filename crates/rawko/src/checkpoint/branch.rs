//! Lands what a session did in a tree of its own as one commit on a new branch. The files of the project stay as they are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rawko_core::session::{Landing, LandingEnd};

use super::error::CheckpointError;
use super::git::GitQuery;
use super::landing::Merge;
use super::listing::TreePath;
use super::place::EnclosingRepository;
use super::restore::shown;
use super::snapshot::{TreeEntry, TreeEntryKind};
use super::store::Store;
use super::{Checkpoints, objects};

/// Who commits where the user has not said who they are.
const NOBODY: (&str, &str) = ("rawko", "rawko@localhost");

/// The commit of a branch.
pub(crate) struct BranchCommit<'a> {
    /// The branch, without `refs/heads/`. Where it is there, it is given a number.
    pub(crate) branch: &'a str,
    /// The commit that the session began with; `None` where there was none yet.
    pub(crate) parent: Option<&'a str>,
    pub(crate) message: &'a str,
}

impl Checkpoints {
    /// Commits what the session changed since execution `since` on a new branch. `None` if nothing was kept in that time.
    ///
    /// # Errors
    /// [`CheckpointError`]; no branch is made then.
    pub(crate) fn land_on_branch(
        &self,
        since: u32,
        commit: &BranchCommit<'_>,
    ) -> Result<Option<Landing>, CheckpointError> {
        let store = self.store()?;
        let _lock = objects::lock(&store.folder)?;
        let Some(repository) = store.place.repository.clone() else {
            return Err(CheckpointError::Git {
                doing: "makes the branch",
                message: "the project is no repository".to_owned(),
            });
        };
        let Some(merge) = Merge::of(&store, since)? else { return Ok(None) };
        let paths = merge.changed();
        let left = merge.left()?;
        if paths.is_empty() {
            return Ok(Some(Landing { left, ..Landing::of(LandingEnd::Nothing) }));
        }
        let mut landing = Landing { left, ..Landing::of(LandingEnd::Landed) };
        let mut changed: BTreeMap<TreePath, Option<TreeEntry>> = BTreeMap::new();
        for path in paths {
            let entry = merge.ended.get(path).filter(|entry| entry.kind != TreeEntryKind::Folder);
            let list = if entry.is_some() { &mut landing.written } else { &mut landing.removed };
            list.push(shown(path));
            changed.insert(path.clone(), entry.cloned());
        }
        let id = Committing { repository: &repository, merge: &merge }.commit(&changed, commit)?;
        let branch = free_name(&repository, &store, commit.branch);
        let ask = repository.ask(&store.git, "makes the branch").durable().args(["update-ref"]);
        // Only if it is not there.
        let none = "0".repeat(id.len());
        ask.arg(format!("refs/heads/{branch}")).args([&id, &none]).answer()?;
        landing.branch = Some(branch);
        Ok(Some(landing))
    }
}

/// The name, or the first with a number that no branch has: an earlier task of the session may have one.
fn free_name(repository: &EnclosingRepository, store: &Store, name: &str) -> String {
    let is_taken = |name: &str| {
        let ask = repository.ask(&store.git, "looks for the branch");
        ask.args(["show-ref", "--verify", "--quiet"]).arg(format!("refs/heads/{name}")).answer().is_ok()
    };
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|name| !is_taken(name)).unwrap_or_default()
}

struct Committing<'a> {
    repository: &'a EnclosingRepository,
    merge: &'a Merge<'a>,
}

impl Committing<'_> {
    /// A question that reads and writes objects of the project's repository alone: what is only among the session's has to
    /// be written there.
    fn ask(&self, doing: &'static str) -> GitQuery {
        let Merge { store, scratch, .. } = self.merge;
        let ask = scratch.ask(&store.git, doing, &self.repository.objects, &[]).durable();
        ask.env("GIT_INDEX_FILE", self.index())
    }

    fn index(&self) -> PathBuf {
        self.merge.scratch.path().join("branch")
    }

    fn commit(
        &self,
        changed: &BTreeMap<TreePath, Option<TreeEntry>>,
        commit: &BranchCommit<'_>,
    ) -> Result<String, CheckpointError> {
        let Merge { store, scratch, .. } = self.merge;
        if let Some(parent) = commit.parent {
            self.ask("reads the commit").args(["read-tree", parent]).answer()?;
        }
        let within = store.place.project.strip_prefix(&store.place.toplevel).unwrap_or(&store.place.project);
        let mut lines = Vec::new();
        for (path, entry) in changed {
            let (mode, id) = match entry {
                Some(entry) => {
                    let content = store.objects().contents(&[&entry.id])?.pop().unwrap_or_default();
                    let ask = self.ask("keeps a file").args(["hash-object", "-w", "--no-filters", "--stdin"]);
                    (entry.kind.mode(), ask.input(&content).line()?)
                }
                None => ("0", "0".repeat(scratch.format.digits())),
            };
            lines.extend(format!("{mode} {id}\t").into_bytes());
            if !within.as_os_str().is_empty() {
                lines.extend(within.as_os_str().as_encoded_bytes());
                lines.push(b'/');
            }
            lines.extend(path);
            lines.push(0);
        }
        self.ask("puts the files together")
            .args(["update-index", "-z", "--index-info"])
            .input(&lines)
            .answer()?;
        let tree = self.ask("writes the tree").args(["write-tree"]).line()?;
        let (name, mail) = (self.user("user.name", NOBODY.0), self.user("user.email", NOBODY.1));
        let parent = commit.parent.map(|parent| ["-p", parent]);
        let ask = self.ask("commits").args(["commit-tree", &tree]).args(parent.into_iter().flatten());
        let ask = ask.env("GIT_AUTHOR_NAME", &name).env("GIT_AUTHOR_EMAIL", &mail);
        let ask = ask.env("GIT_COMMITTER_NAME", &name).env("GIT_COMMITTER_EMAIL", &mail);
        ask.args(["-F", "-"]).input(commit.message.as_bytes()).line()
    }

    /// What the user's own settings say.
    fn user(&self, name: &str, otherwise: &str) -> String {
        let store = self.merge.store;
        let answer = self.repository.setting(&store.git, &store.user, name);
        answer.unwrap_or_else(|| otherwise.to_owned())
    }
}
