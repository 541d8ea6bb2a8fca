//! The task's branch on the remote, which is what the workers of a task agree on.

use super::commit::MadeBy;
use super::error::TreeError;
use super::git::other_end;
use super::mirror::has;
use super::names::{CommitId, check_name, check_own_ref};
use super::task::TaskTree;

/// What the task's branch is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteHead {
    /// The commit.
    pub commit: CommitId,
    /// The step that made it, if its trailers name one.
    pub made_by: Option<MadeBy>,
}

/// How a push ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushOutcome {
    /// The branch is at the commit, and the further refs are there.
    Pushed,
    /// Nothing was changed: the branch was not where it was expected. It is here; `None` if there is none.
    Moved(Option<RemoteHead>),
}

/// A further ref that is pushed with a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushRef {
    /// Its name in the clone, which begins with `refs/rawko/`.
    pub local: String,
    /// Its name on the remote, which does too.
    pub remote: String,
}

impl TaskTree {
    /// What the task's branch is at on the remote; `None` if there is no such branch yet.
    ///
    /// # Errors
    /// If the repository cannot be reached.
    pub fn remote_head(&self) -> Result<Option<RemoteHead>, TreeError> {
        let name = format!("refs/heads/{}", self.branch);
        let ask = self.ask_remote("list the branches of")?.args(["ls-remote", "--quiet", "--refs"]);
        let ask = ask.args(other_end(&self.place, &self.repository, "upload-pack"));
        let answer = ask.args(["--", self.repository.url(), &name]).text()?;
        let mut lines = answer.lines().filter_map(|line| line.split_once('\t'));
        let Some((id, _)) = lines.find(|(_, found)| *found == name) else { return Ok(None) };
        let commit: CommitId = id.parse()?;
        if has(self.ask("find a commit")?, &commit).is_err() {
            self.fetch_branch()?;
        }
        let content = self.ask("read a commit of")?.args(["cat-file", "commit", commit.as_str()]).text()?;
        Ok(Some(RemoteHead { commit, made_by: MadeBy::of(&content) }))
    }

    /// Moves the task's branch to `commit`, with further refs, all or nothing: only if the branch is still at `expected`
    /// (`None`: there is none). Further refs are written whatever they were.
    ///
    /// # Errors
    /// If the repository cannot be reached, or refuses for another reason than that the branch was moved.
    pub fn push(
        &self,
        commit: &CommitId,
        expected: Option<&CommitId>,
        refs: &[PushRef],
    ) -> Result<PushOutcome, TreeError> {
        let branch = format!("refs/heads/{}", self.branch);
        let lease = format!("--force-with-lease={branch}:{}", expected.map_or("", CommitId::as_str));
        let ask = self.ask_remote("push to")?.args(["push", "--quiet", "--atomic", "--no-verify", &lease]);
        let mut ask = ask.args(other_end(&self.place, &self.repository, "receive-pack"));
        ask = ask.args(["--", self.repository.url(), &format!("{commit}:{branch}")]);
        for PushRef { local, remote } in refs {
            check_own_ref(local)?;
            check_own_ref(remote)?;
            ask = ask.args([format!("+{local}:{remote}")]);
        }
        let Err(error) = ask.answer() else { return Ok(PushOutcome::Pushed) };
        // Why git refused is asked of the remote, not read from what git says. If that fails too, the first error counts.
        let Ok(found) = self.remote_head() else { return Err(error) };
        let at = found.as_ref().map(|head| &head.commit);
        if at == expected {
            return Err(error);
        }
        // All or nothing: the push did arrive, only its answer did not.
        if at == Some(commit) {
            return Ok(PushOutcome::Pushed);
        }
        Ok(PushOutcome::Moved(found))
    }

    /// Pushes the checkpoints of a session, for other workers. Checkpoints that are on the remote already cost nothing.
    ///
    /// # Errors
    /// If the repository cannot be reached.
    pub fn push_session_refs(&self, session: &str) -> Result<(), TreeError> {
        let refs = self.session_refs(session)?;
        if refs.is_empty() {
            return Ok(());
        }
        let ask =
            self.ask_remote("push checkpoints to")?.args(["push", "--quiet", "--atomic", "--no-verify"]);
        let mut ask = ask.args(other_end(&self.place, &self.repository, "receive-pack"));
        ask = ask.args(["--", self.repository.url()]);
        for PushRef { local, remote } in &refs {
            ask = ask.args([format!("+{local}:{remote}")]);
        }
        ask.answer().map(drop)
    }

    /// Fetches the checkpoints of a session, which another worker may have made.
    ///
    /// # Errors
    /// If the repository cannot be reached.
    pub fn fetch_session_refs(&self, session: &str) -> Result<(), TreeError> {
        check_name("name of a session", session)?;
        let refs = format!("refs/rawko/{session}/*");
        self.fetch("fetch checkpoints from", &format!("+{refs}:{refs}"))
    }

    /// The checkpoints of a session in the clone, for [`push`](Self::push): each under its own name.
    ///
    /// # Errors
    /// If git cannot list them.
    pub fn session_refs(&self, session: &str) -> Result<Vec<PushRef>, TreeError> {
        check_name("name of a session", session)?;
        self.mend(&self.head())?;
        let list = ["for-each-ref", "--format=%(refname)", &format!("refs/rawko/{session}/")];
        let names = self.ask("list the checkpoints of")?.args(list).text()?;
        let push = |name: &str| PushRef { local: name.to_owned(), remote: name.to_owned() };
        Ok(names.lines().map(push).collect())
    }
}
