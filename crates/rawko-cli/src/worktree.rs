//! `--worktree`: a run in a work tree of git of its own, beside the project.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

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
}

/// What there is to take over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Changes {
    /// Something is not committed.
    uncommitted: bool,
    /// The branch has commits that the project's does not have.
    commits: bool,
}

/// Git in the work tree at `main`, whatever repository the environment names.
fn git_in(git: &Path, main: &Path) -> Command {
    let mut command = Command::new(git);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
        command.env_remove(name);
    }
    command.arg("-C").arg(main);
    // Nothing of the repository is run, and nothing is fetched.
    let off = ["core.hooksPath=/dev/null", "core.fsmonitor=false"];
    command.args(off.into_iter().flat_map(|setting| ["-c", setting])).env("GIT_NO_LAZY_FETCH", "1");
    command
}

/// The filters that the repository's own settings name. Those of the user are the user's.
fn own_filters(git: &Path, main: &Path) -> std::io::Result<BTreeSet<String>> {
    let mut config = git_in(git, main);
    config.args(["config", "--local", "--includes", "--null", "--name-only", "--get-regexp", r"^filter\."]);
    let listed = config.output()?.stdout;
    let listed = String::from_utf8_lossy(&listed);
    let names = listed.split_terminator('\0').filter_map(|key| key.strip_prefix("filter.")?.rsplit_once('.'));
    Ok(names.map(|(filter, _)| filter.to_owned()).collect())
}

/// Has git run none of these filters.
fn without_filters(command: &mut Command, filters: &BTreeSet<String>) {
    let settings = filters.iter().flat_map(|filter| {
        [("smudge", ""), ("clean", ""), ("process", ""), ("required", "false")]
            .map(|(key, value)| (format!("filter.{filter}.{key}"), value))
    });
    let mut count = 0;
    for (key, value) in settings {
        command.env(format!("GIT_CONFIG_KEY_{count}"), key).env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    command.env("GIT_CONFIG_COUNT", count.to_string());
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
        let made =
            Self { tree: root.join(within), branch: format!("{BRANCHES}{name}"), root, main: main.clone() };
        if made.root.symlink_metadata().is_ok() {
            return made.existing(&project);
        }
        let git = workspace.environment.program_outside("git", &project);
        let git = git.ok_or_else(|| Failure::new(Exit::Failed, "git is not installed"))?;
        let no_git = |error| Failure::new(Exit::Failed, format!("cannot start git: {error}"));
        let filters = own_filters(&git, &main).map_err(no_git)?;
        let mut add = git_in(&git, &main);
        without_filters(&mut add, &filters);
        add.args(["worktree", "add", "--quiet", "-b", &made.branch]).arg(&made.root).arg("HEAD");
        let output = add.output().map_err(no_git)?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(no_tree(format!("git cannot make the work tree {}: {why}", made.root.display())));
        }
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
        format!(
            "work tree: {} (branch {}); it has the last commit, without changes that are not committed\n",
            clean_line(&self.root.to_string_lossy()),
            clean_line(&self.branch)
        )
    }

    /// How to take its changes over, for its end.
    pub(crate) fn end(&self, workspace: &Workspace) -> String {
        let root = quoted(&self.root.to_string_lossy());
        let branch = quoted(&self.branch);
        let remove = format!("git worktree remove {root} && git branch -d {branch}");
        let changes = self.changes(workspace).unwrap_or(Changes { uncommitted: true, commits: true });
        if !changes.uncommitted && !changes.commits {
            return format!(
                "nothing was changed in the work tree {root}, on the branch {branch}\nremove it: {remove}\n"
            );
        }
        let mut text = format!("the changes are in the work tree {root}, on the branch {branch}\n");
        if changes.uncommitted {
            text.push_str(&format!(
                "look at them:   git -C {root} status\n\
                 commit them:    git -C {root} add -A && git -C {root} commit\n"
            ));
        } else {
            text.push_str(&format!("look at them:   git log -p HEAD..{branch}\n"));
        }
        text.push_str(&format!("take them over: git merge {branch}\nremove it then: {remove}\n"));
        text
    }

    /// What there is to take over; `None` where git does not say.
    fn changes(&self, workspace: &Workspace) -> Option<Changes> {
        let git = workspace.environment.program_outside("git", &workspace.project().ok()?)?;
        let filters = own_filters(&git, &self.main).ok()?;
        let said = |mut command: Command, arguments: &[&str]| {
            without_filters(&mut command, &filters);
            let output = command.args(arguments).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let uncommitted =
            said(git_in(&git, &self.root), &["status", "--porcelain", "--ignore-submodules=all"])?;
        let own = said(git_in(&git, &self.root), &["rev-parse", "HEAD"])?;
        let commits = said(git_in(&git, &self.main), &["rev-list", "--count", &format!("HEAD..{own}")])?;
        Some(Changes { uncommitted: !uncommitted.is_empty(), commits: commits != "0" })
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
