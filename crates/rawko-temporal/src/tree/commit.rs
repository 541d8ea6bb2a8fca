//! Commits of a task, and their trailers, which say what made them.

use std::sync::PoisonError;

use super::error::TreeError;
use super::files::remove;
use super::names::CommitId;
use super::task::{SESSIONS, TaskTree};

const TASK: &str = "Rawko-Task";
const EFFECT: &str = "Rawko-Effect";
const ATTEMPT: &str = "Rawko-Attempt";
/// The longest summary in bytes.
const MAX_SUMMARY: usize = 16 * 1024;

/// Which step of which task made a commit, by its trailers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeBy {
    /// The task.
    pub task: String,
    /// The effect of its session.
    pub effect: u64,
    /// Which attempt at the effect.
    pub attempt: u32,
}

impl MadeBy {
    /// Reads the trailers of a commit as git keeps it. Only the last paragraph counts: a summary may say what it likes.
    pub(super) fn of(commit: &str) -> Option<Self> {
        let (_, message) = commit.split_once("\n\n")?;
        let trailers = message.trim_end().rsplit("\n\n").next()?;
        let value = |name: &str| {
            let mut lines = trailers.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
        };
        Some(Self {
            task: value(TASK)?.to_owned(),
            effect: value(EFFECT)?.parse().ok()?,
            attempt: value(ATTEMPT)?.parse().ok()?,
        })
    }

    fn trailers(&self) -> String {
        let Self { task, effect, attempt } = self;
        format!("{TASK}: {task}\n{EFFECT}: {effect}\n{ATTEMPT}: {attempt}\n")
    }
}

/// Files of the tree that differ from the commit.
#[derive(Debug, Default, PartialEq, Eq)]
struct ChangedPaths {
    /// Each ends with a NUL, as git reads them.
    there: Vec<u8>,
    gone: Vec<u8>,
}

impl TaskTree {
    /// Commits what has changed since [`head`](Self::head), as one commit with trailers that name the task, the effect and
    /// the attempt. Commits that an agent made itself become part of it. `None` if nothing has changed.
    ///
    /// It leaves out files that git ignores, sessions of rawko, and files in another repository inside the tree.
    ///
    /// # Errors
    /// If git cannot make the commit.
    pub fn commit(&self, effect: u64, attempt: u32, summary: &str) -> Result<Option<CommitId>, TreeError> {
        let head = self.head();
        self.mend(&head)?;
        self.distrust_index()?;
        // The agent may have staged, committed or switched branches. The files stay as they are.
        self.ask("begin a commit in")?.args(["reset", "--quiet", "--mixed", head.as_str()]).answer()?;
        let changed = self.changed()?;
        if changed == ChangedPaths::default() {
            return Ok(None);
        }
        // First what is gone: a file may have become a folder.
        let doing = "add the changes of";
        if !changed.gone.is_empty() {
            let remove = ["update-index", "-z", "--force-remove", "--stdin"];
            self.ask(doing)?.args(remove).input(&changed.gone).answer()?;
        }
        if !changed.there.is_empty() {
            let add = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
            self.ask(doing)?.args(add).input(&changed.there).answer()?;
        }
        let tree = self.ask("write the files of")?.args(["write-tree"]).text()?;
        if tree == self.ask("read the commit of")?.args(["rev-parse", &format!("{head}^{{tree}}")]).text()? {
            return Ok(None);
        }
        let made_by = MadeBy { task: self.task.clone(), effect, attempt };
        let (name, email) = &self.place.author;
        let ask = self.ask("commit in")?.env("GIT_AUTHOR_NAME", name).env("GIT_AUTHOR_EMAIL", email);
        let ask = ask.env("GIT_COMMITTER_NAME", name).env("GIT_COMMITTER_EMAIL", email);
        let ask = ask.args(["commit-tree", "-p", head.as_str(), "-m", &plain(summary, &made_by)]);
        let commit = ask.args(["-m", &made_by.trailers(), &tree]).text()?.parse::<CommitId>()?;
        let branch = format!("refs/heads/{}", self.branch);
        self.ask("move the branch of")?.args(["update-ref", &branch, commit.as_str()]).answer()?;
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = commit.clone();
        Ok(Some(commit))
    }

    /// An agent can mark entries of the index so that git looks at their files no more: what it does to them would stay out
    /// of the commit, and a verification would still see it. Such an index is made anew.
    pub(super) fn distrust_index(&self) -> Result<(), TreeError> {
        let listed = self.ask("list the files of")?.args(["ls-files", "-v", "-z"]).answer();
        let is_plain = |line: &[u8]| line.is_empty() || line.starts_with(b"H ");
        if listed.is_ok_and(|listed| listed.split(|byte| *byte == 0).all(is_plain)) {
            return Ok(());
        }
        remove(&self.git_folder().join("index"))
    }

    fn changed(&self) -> Result<ChangedPaths, TreeError> {
        let ask = self.ask("list the changes of")?.args(["status", "--porcelain=v2", "-z", "--no-renames"]);
        Ok(ChangedPaths::of(&ask.args(["--untracked-files=all", "--ignore-submodules=all"]).answer()?))
    }
}

impl ChangedPaths {
    /// Reads `git status --porcelain=v2 -z`.
    fn of(status: &[u8]) -> Self {
        let mut changed = Self::default();
        for line in status.split(|byte| *byte == 0) {
            let (path, is_gone) = match line.split_first() {
                // 1 XY sub mH mI mW hH hI path
                Some((b'1', rest)) => {
                    let mut fields = rest.splitn(9, |byte| *byte == b' ').skip(1);
                    let state = fields.next().unwrap_or_default();
                    let submodule = fields.next().unwrap_or_default();
                    if submodule.starts_with(b"S") {
                        continue;
                    }
                    (fields.nth(5).unwrap_or_default(), state.ends_with(b"D"))
                }
                Some((b'?', rest)) => (rest.get(1..).unwrap_or_default(), false),
                _ => continue,
            };
            let is_session = path
                .strip_prefix(SESSIONS.as_bytes())
                .is_some_and(|rest| matches!(rest.first(), None | Some(b'/')));
            // Another repository is listed as a folder.
            if path.is_empty() || is_session || path.ends_with(b"/") {
                continue;
            }
            let list = if is_gone { &mut changed.gone } else { &mut changed.there };
            list.extend_from_slice(path);
            list.push(0);
        }
        changed
    }
}

/// A summary that git takes: without control characters, and not endless.
fn plain(summary: &str, made_by: &MadeBy) -> String {
    let mut end = summary.len().min(MAX_SUMMARY);
    while !summary.is_char_boundary(end) {
        end -= 1;
    }
    let kept = summary.get(..end).unwrap_or_default();
    let plain: String = kept.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    match plain.trim() {
        "" => format!("Effect {} of {}", made_by.effect, made_by.task),
        plain => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_are_read_from_the_last_paragraph() {
        let made_by = MadeBy { task: "fix".to_owned(), effect: 7, attempt: 2 };
        let commit = |message: &str| format!("tree 1\nauthor a\n\n{message}\n\n{}", made_by.trailers());
        assert_eq!(MadeBy::of(&commit("Fix it")), Some(made_by.clone()));
        let forged = "Fix\n\nRawko-Task: other\nRawko-Effect: 9\nRawko-Attempt: 9";
        assert_eq!(MadeBy::of(&commit(forged)), Some(made_by.clone()));
        assert_eq!(MadeBy::of(&format!("tree 1\n\n{forged}\n\nAnd more")), None);
        assert_eq!(MadeBy::of("tree 1\n\nFix it\n"), None);
    }

    #[test]
    fn changes_are_read_from_the_status() {
        let status = b"1 .M N... 100644 100644 100644 1 1 a b\x001 .D N... 100644 100644 000000 1 1 gone\x00\
            1 .M S.M. 160000 160000 160000 1 1 module\x00? new\x00? nested/\x00? .rawko/sessions/1/journal\x00\
            1 .M N... 100644 100644 100644 1 1 .rawko/sessions/2\x00? .rawko/sessions-list\x00";
        let changed = ChangedPaths::of(status);
        assert_eq!(changed.there, b"a b\0new\0.rawko/sessions-list\0");
        assert_eq!(changed.gone, b"gone\0");
    }

    #[test]
    fn a_summary_is_never_empty_or_endless() {
        let made_by = MadeBy { task: "fix".to_owned(), effect: 7, attempt: 2 };
        assert_eq!(plain(" \n", &made_by), "Effect 7 of fix");
        assert_eq!(plain("a\0b\tc\nd", &made_by), "a b c\nd");
        assert!(plain(&"ä".repeat(20_000), &made_by).len() <= MAX_SUMMARY);
    }
}
