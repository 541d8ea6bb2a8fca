//! What git says of the repository here.

use std::path::{Path, PathBuf};

use rawko::checkpoint::toplevel;
use rawko::tools::Git;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The repository around the project.
#[derive(Debug)]
pub(super) struct Checkout {
    git: PathBuf,
    top: PathBuf,
}

/// What a task begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TaskBase {
    /// The address of the remote `origin`.
    pub(super) url: String,
    /// The commit that is checked out; absent if a revision was named.
    pub(super) commit: Option<String>,
    /// Whether the tree has changes that are not committed.
    pub(super) has_changes: bool,
}

const NAME_ONE: &str = "name the repository as the workers reach it: --repo URL";

impl Checkout {
    /// The repository around the project of `workspace`; `None` if there is none.
    pub(super) fn find(workspace: &Workspace) -> Result<Option<Self>, Failure> {
        let project = workspace.project()?;
        let Some(top) = toplevel(&project) else { return Ok(None) };
        let git = workspace.environment.program_outside("git", &project);
        let git = git.ok_or_else(|| Failure::new(Exit::Failed, "git is not installed"))?;
        Ok(Some(Self { git, top: top.to_owned() }))
    }

    /// Where the code of a new task is. `is_named` says that a revision was named, which the workers look for.
    ///
    /// # Errors
    /// If there is no remote `origin`, or it is not known to have the commit that is checked out.
    pub(super) fn origin(&self, is_named: bool) -> Result<TaskBase, Failure> {
        let top = self.top.display();
        let Some(url) = self.ask(&["remote", "get-url", "origin"])? else {
            let message = format!("the repository {top} has no remote `origin`");
            return Err(Failure::usage(message).with_hint(NAME_ONE));
        };
        let url = absolute(&url, &self.top)?;
        let status = ["status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=all"];
        let has_changes = self.ask(&status)?.is_some();
        if is_named {
            return Ok(TaskBase { url, commit: None, has_changes });
        }
        let Some(commit) = self.ask(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])? else {
            let message = format!("the repository {top} has no commit yet");
            return Err(Failure::usage(message).with_hint("commit and push first"));
        };
        let known = ["for-each-ref", "--count=1", "--contains", &commit, "refs/remotes/origin/"];
        if self.ask(&known)?.is_none() {
            let short = commit.get(..12).unwrap_or(&commit);
            let message = format!("`origin` is not known to have the commit {short}, which is checked out");
            return Err(Failure::usage(message)
                .with_hint("push it: git push\nor begin with what is there: --branch REV"));
        }
        Ok(TaskBase { url, commit: Some(commit), has_changes })
    }

    /// Fetches a session's checkpoints and its task's branch, as the user would. Says whether there is such a branch: a task that
    /// has changed nothing has none.
    ///
    /// # Errors
    /// What git says.
    pub(super) fn fetch(&self, url: &str, branch: &str, session: &str) -> Result<bool, String> {
        let on_remote = format!("refs/heads/{branch}");
        let listed = self.run(&["ls-remote", "--quiet", "--refs", "--", url, &on_remote])?;
        let is_there = !listed.is_empty();
        let checkpoints = format!("+refs/rawko/{session}/*:refs/rawko/{session}/*");
        let branch = format!("+{on_remote}:refs/remotes/origin/{branch}");
        let mut fetch =
            vec!["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", url, &checkpoints];
        fetch.extend(is_there.then_some(branch.as_str()));
        self.run(&fetch).map(|_| is_there)
    }

    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        self.git().args(arguments).text().map_err(|error| error.to_string())
    }

    /// Whether the remote `origin` has this address.
    pub(super) fn is_of(&self, url: &str) -> bool {
        let origin = self.ask(&["remote", "get-url", "origin"]).ok().flatten();
        origin.and_then(|origin| absolute(&origin, &self.top).ok()).is_some_and(|origin| origin == url)
    }

    /// The answer of git; `None` where it says nothing or refuses.
    fn ask(&self, arguments: &[&str]) -> Result<Option<String>, Failure> {
        let answer = self.git().args(arguments).answer_if_any();
        let answer = answer.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        Ok(answer
            .map(|answer| String::from_utf8_lossy(&answer).trim().to_owned())
            .filter(|text| !text.is_empty()))
    }

    fn git(&self) -> Git {
        Git::as_user(&self.git).within(&self.top)
    }
}

/// An address that does not depend on the folder.
fn absolute(url: &str, top: &Path) -> Result<String, Failure> {
    let is_relative = url.starts_with("./") || url.starts_with("../") || url == "." || url == "..";
    if !is_relative {
        return Ok(url.to_owned());
    }
    let path = top.join(url).canonicalize().map_err(|error| {
        Failure::usage(format!("the remote `origin` is {url}, which is not there: {error}"))
            .with_hint(NAME_ONE)
    })?;
    Ok(path.display().to_string())
}

/// The failure where there is no repository to begin with.
pub(super) fn no_repository() -> Failure {
    Failure::usage("this folder is in no git repository").with_hint(NAME_ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_remote_becomes_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("here")).unwrap();
        let absolute = |url: &str| absolute(url, &top.join("here"));
        assert_eq!(absolute("..").unwrap(), top.display().to_string());
        assert_eq!(absolute("git@example.com:a").unwrap(), "git@example.com:a");
        assert!(absolute("../none").unwrap_err().message().contains("../none"));
    }
}
