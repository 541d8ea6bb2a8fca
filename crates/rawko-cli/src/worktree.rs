//! `--worktree`: a run in a work tree of git of its own, beside the project.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rawko::tools::{Git, GitError};
use rawko::worktree::{WORKTREES, project_of, toplevel};
use rawko_core::text::is_plain_name;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{clean_line, quoted};
use crate::workspace::Workspace;

/// What the branches of such trees begin with.
const BRANCHES: &str = "rawko/";
/// The longest name of a tree.
const MAX_NAME: usize = 60;

/// A work tree beside the project.
#[derive(Debug, Clone)]
pub(crate) struct Worktree {
    /// Its root.
    root: PathBuf,
    /// The project's folder in it.
    pub(crate) tree: PathBuf,
    branch: String,
    /// The repository's own work tree.
    main: PathBuf,
    /// Submodules that the project has and git could not check out here, each with why.
    missing: Vec<(PathBuf, String)>,
}

/// A submodule as its parent's index names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Submodule {
    /// Below its parent.
    path: PathBuf,
    commit: String,
}

/// What there is to take over.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UnmergedWork {
    has_submodules: bool,
    /// The trees in which something is not committed: submodules, each before the one around it, and the work tree.
    uncommitted: Vec<PathBuf>,
    /// The branch has commits that the project's does not have.
    commits: bool,
}

/// Git in the work tree at `main`. Nothing is fetched.
fn git_in(git: &Path, main: &Path) -> Git {
    Git::as_user(git).within(main)
}

/// The same with none of the filters run that the repository's own settings name. Those of the user are the user's.
fn git_without_filters(git: &Path, main: &Path) -> Result<Git, GitError> {
    let list = ["config", "--local", "--includes", "--null", "--name-only", "--get-regexp", r"^filter\."];
    let listed = git_in(git, main).args(list).answer_if_any()?.unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    let names = listed.split_terminator('\0').filter_map(|key| key.strip_prefix("filter.")?.rsplit_once('.'));
    let filters: BTreeSet<&str> = names.map(|(filter, _)| filter).collect();
    let settings = filters.iter().flat_map(|filter| {
        [("smudge", ""), ("clean", ""), ("process", ""), ("required", "false")]
            .map(|(key, value)| (format!("filter.{filter}.{key}"), value))
    });
    // Not on the command line, where a name with `=` in it would be another one.
    let (mut command, mut count) = (git_in(git, main), 0);
    for (key, value) in settings {
        command = command.env(format!("GIT_CONFIG_KEY_{count}"), key);
        command = command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    Ok(command.env("GIT_CONFIG_COUNT", count.to_string()))
}

/// Git's work tree `root`, new, of the repository at `main`, with nothing of the repository run. Gives why git refuses.
fn add(
    git: &Path,
    main: &Path,
    options: &[&str],
    root: &Path,
    commit: &str,
) -> Result<Result<(), String>, GitError> {
    // A tree that was removed with what was around it is still registered. Pruning would drop others, on a disk that is not
    // there now.
    let listed =
        git_in(git, main).args(["worktree", "list", "--porcelain"]).answer_if_any()?.unwrap_or_default();
    let own = [b"worktree ", root.as_os_str().as_bytes()].concat();
    let force = listed.split(|byte| *byte == b'\n').any(|line| line == own).then_some("--force");
    let add = git_without_filters(git, main)?.args(["worktree", "add", "--quiet"]).args(force).args(options);
    match add.arg(root).arg(commit).answer() {
        Ok(_) => Ok(Ok(())),
        Err(GitError::Refused(why)) => Ok(Err(why)),
        Err(error) => Err(error),
    }
}

/// The submodules of the work tree at `root`, without those of submodules.
fn submodules(git: &Path, root: &Path) -> Result<Vec<Submodule>, GitError> {
    let listed = git_in(git, root).args(["ls-files", "--stage", "-z"]).answer_if_any()?.unwrap_or_default();
    let entry = |line: &[u8]| {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        let (said, path) = line.split_at_checked(tab)?;
        let commit = std::str::from_utf8(said).ok()?.strip_prefix("160000 ")?.split(' ').next()?.to_owned();
        Some(Submodule { path: OsString::from_vec(path.get(1..)?.to_vec()).into(), commit })
    };
    Ok(listed.split(|byte| *byte == 0).filter_map(entry).collect())
}

/// Whether the root of a work tree of git is at `folder`. A link may lead anywhere.
fn is_root(folder: &Path) -> bool {
    folder.symlink_metadata().is_ok_and(|found| found.is_dir())
        && toplevel(folder).is_some_and(|root| root == folder)
}

/// The submodules that are checked out below `root`, however deep.
fn checked_out(git: &Path, root: &Path) -> Result<Vec<PathBuf>, GitError> {
    let mut found = Vec::new();
    for submodule in submodules(git, root)? {
        let folder = root.join(&submodule.path);
        if is_root(&folder) {
            found.push(folder.clone());
            found.extend(checked_out(git, &folder)?);
        }
    }
    Ok(found)
}

/// Checks the submodules out that `main` has, below the new work tree `root`. Their commits stay in the repositories of
/// `main`'s, so that nothing is fetched, and what is committed here can be taken over there. Gives those that git could
/// not check out, each with why.
fn check_out(git: &Path, main: &Path, root: &Path) -> Result<Vec<(PathBuf, String)>, GitError> {
    let mut missing = Vec::new();
    for Submodule { path, commit } in submodules(git, root)? {
        let (there, here) = (main.join(&path), root.join(&path));
        if !is_root(&there) {
            continue;
        }
        match add(git, &there, &["--detach"], &here, &commit)? {
            Ok(()) => missing.extend(check_out(git, &there, &here)?),
            Err(why) => missing.push((here, why)),
        }
    }
    Ok(missing)
}

impl Worktree {
    /// Makes a tree of this name, on a new branch at the last commit; or takes the one that is there.
    ///
    /// # Errors
    /// If the project is no git work tree with a commit, or git cannot make the tree.
    pub(crate) fn make(workspace: &Workspace, name: Option<&str>) -> Result<Self, Failure> {
        let project = workspace.project()?;
        let name = match name {
            Some(name) => checked(name)?,
            None => rawko::worktree::new_name(),
        };
        let no_tree = |message: String| {
            Failure::usage(message)
                .with_hint("--worktree needs a git repository with a commit: git init, git commit")
        };
        let Some(main) = toplevel(&project) else {
            return Err(no_tree(format!("{} is no git work tree", project.display())));
        };
        let within = project.strip_prefix(&main).unwrap_or(Path::new("")).to_owned();
        let (Some(parent), Some(own)) = (main.parent(), main.file_name()) else {
            return Err(no_tree(format!("there is no folder beside {}", main.display())));
        };
        let root = parent.join(format!("{}{WORKTREES}", own.to_string_lossy())).join(&name);
        let (tree, branch) = (root.join(within), format!("{BRANCHES}{name}"));
        let mut made = Self { tree, branch, root, main: main.clone(), missing: Vec::new() };
        if made.root.symlink_metadata().is_ok() {
            return made.existing(&project);
        }
        let git = workspace.environment.program_outside("git", &project);
        let git = git.ok_or_else(|| Failure::new(Exit::Failed, "git is not installed"))?;
        let no_git = |error: GitError| Failure::new(Exit::Failed, error.to_string());
        if let Err(why) = add(&git, &main, &["-b", &made.branch], &made.root, "HEAD").map_err(no_git)? {
            return Err(no_tree(format!("git cannot make the work tree {}: {why}", made.root.display())));
        }
        made.missing = check_out(&git, &main, &made.root).map_err(no_git)?;
        std::fs::create_dir_all(&made.tree).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot create {}: {error}", made.tree.display()))
        })?;
        Ok(made)
    }

    fn existing(self, project: &Path) -> Result<Self, Failure> {
        if project_of(&self.tree).is_some_and(|main| main == project) {
            return Ok(self);
        }
        let message = format!("{} is there, and no work tree of this project", self.root.display());
        Err(Failure::usage(message).with_hint("give another name: --worktree=NAME"))
    }

    /// Where the run works, for its beginning.
    pub(crate) fn beginning(&self) -> String {
        let mut text = format!(
            "work tree: {} (branch {}); it has the last commit, without changes that are not committed\n",
            clean_line(&self.root.to_string_lossy()),
            clean_line(&self.branch)
        );
        for (folder, why) in &self.missing {
            let (folder, why) = (clean_line(&folder.to_string_lossy()), clean_line(why));
            text.push_str(&format!("the submodule {folder} is empty: {why}\n"));
        }
        text
    }

    /// How to take its changes over, for its end.
    pub(crate) fn end(&self, workspace: &Workspace) -> String {
        let root = quoted(&self.root.to_string_lossy());
        let branch = quoted(&self.branch);
        let unknown =
            || UnmergedWork { has_submodules: false, uncommitted: vec![self.root.clone()], commits: true };
        let changes = self.changes(workspace).unwrap_or_else(unknown);
        // Git removes no tree with submodules without it.
        let (force, note) = if changes.has_submodules {
            ("--force ", "--force drops what is not committed in it, too\n")
        } else {
            ("", "")
        };
        let remove = format!("git worktree remove {force}{root} && git branch -d {branch}");
        if changes.uncommitted.is_empty() && !changes.commits {
            return format!(
                "nothing was changed in the work tree {root}, on the branch {branch}\nremove it: {remove}\n"
            );
        }
        let mut text = format!("the changes are in the work tree {root}, on the branch {branch}\n");
        if changes.uncommitted.is_empty() {
            text.push_str(&format!("look at them:   git log -p HEAD..{branch}\n"));
        } else {
            text.push_str(&format!("look at them:   git -C {root} status\n"));
        }
        for folder in changes.uncommitted {
            let folder = quoted(&folder.to_string_lossy());
            text.push_str(&format!("commit them:    git -C {folder} add -A && git -C {folder} commit\n"));
        }
        let update = if changes.has_submodules { " && git submodule update --recursive" } else { "" };
        text.push_str(&format!(
            "take them over: git merge {branch}{update}\nremove it then: {remove}\n{note}"
        ));
        text
    }

    /// What there is to take over; `None` where git does not say.
    fn changes(&self, workspace: &Workspace) -> Option<UnmergedWork> {
        let git = workspace.environment.program_outside("git", &workspace.project().ok()?)?;
        let said = |root: &Path, arguments: &[&str]| {
            git_without_filters(&git, root).ok()?.args(arguments).text().ok()
        };
        // Git would run in submodules what they say; each is asked by itself.
        let status = |root: &Path| said(root, &["status", "--porcelain", "--ignore-submodules=dirty"]);
        let submodules = checked_out(&git, &self.root).ok()?;
        let mut uncommitted: Vec<PathBuf> = Vec::new();
        for folder in submodules.iter().rev().chain([&self.root]) {
            // A commit in a submodule changes the trees around it.
            if uncommitted.iter().any(|inside| inside.starts_with(folder)) || !status(folder)?.is_empty() {
                uncommitted.push(folder.clone());
            }
        }
        let own = said(&self.root, &["rev-parse", "HEAD"])?;
        let commits = said(&self.main, &["rev-list", "--count", &format!("HEAD..{own}")])?;
        Some(UnmergedWork { has_submodules: !submodules.is_empty(), uncommitted, commits: commits != "0" })
    }
}

fn checked(name: &str) -> Result<String, Failure> {
    if is_plain_name(name, MAX_NAME) {
        return Ok(name.to_owned());
    }
    Err(Failure::usage(format!("`{}` is no name for a work tree", clean_line(name)))
        .with_hint("use letters, digits, `-`, `_` and `.`, as in --worktree=fix-parser"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folders_and_branches() {
        for name in ["one", "fix-parser", "v1.2_x"] {
            assert!(checked(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "-x", "a/b", "a..b", "x.lock", "a b", "x.", &"x".repeat(61)] {
            assert!(checked(name).is_err(), "{name}");
        }
    }
}
