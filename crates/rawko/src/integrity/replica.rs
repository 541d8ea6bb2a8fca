//! A copy of the project, in a temporary folder, in which commands are run.
//!
//! It holds a tree, what commands need of what git ignores (installed packages, local settings), and a repository with the
//! same history, which commands may write to without harm. A project that is a part of its repository is at the same
//! place as there, with links to its neighbours.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rawko_core::facts::CommandRun;
use rawko_core::text::without_digits;
use rawko_tools::CommandRunner;

use super::bounds::{Allowance, Bounds};
use super::kinds::Conventions;
use super::trial_folder::{TrialFolder, cannot_create};
use crate::checkpoint::{CheckpointError, GitFolders, Trees, Version};
use rawko_tools::temporary;

/// Where builds of Rust keep what they made: using it spares building every dependency again.
const TARGET: &str = "target";
/// Most files and folders beside the repository that are linked.
const MAX_NEIGHBOURS: usize = 1000;
/// Most folders of packages that commands may write to.
const MAX_LAYERED: usize = 32;
/// Largest ignored file that is copied; a larger one is linked.
const MAX_COPIED: u64 = 16 * 1024 * 1024;

/// A copy of the project.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) folder: TrialFolder,
    /// The top of the copy, and the project in it.
    root: PathBuf,
    project: PathBuf,
    /// The repository that it is a copy of.
    toplevel: PathBuf,
    /// Folders of the original that commands may write to for themselves: installed packages, in which runners keep caches,
    /// and what builds of Rust left, where it is used.
    layered: Vec<PathBuf>,
}

impl Replica {
    /// Writes the tree that `choose` picks, and adds the ignored `entries` that do not hold what is `avoided`.
    /// `with_target`: also what builds of Rust left.
    ///
    /// # Errors
    /// If something cannot be read or written, or the copy would exceed its bounds.
    pub(super) fn new(
        trees: &Trees,
        choose: &dyn Fn(&str) -> Version,
        entries: &BTreeSet<String>,
        avoided: &BTreeSet<&str>,
        with_target: bool,
        bounds: Bounds,
    ) -> Result<Self, CheckpointError> {
        let mut allowance = Allowance::new(bounds);
        let folder = TrialFolder::new(trees)?;
        let (original, toplevel) = (trees.project(), trees.toplevel());
        let root = folder.path().join("tree").join(toplevel.file_name().unwrap_or("project".as_ref()));
        let inside = original.strip_prefix(toplevel).unwrap_or(Path::new(""));
        let project = if inside.as_os_str().is_empty() { root.clone() } else { root.join(inside) };
        std::fs::create_dir_all(&project).map_err(cannot_create(&project))?;
        let is_left_out = |name: &str| is_left_out(name, with_target);
        surround(toplevel, &root, inside, &is_left_out).map_err(cannot_create(&root))?;
        // Without its neighbours, a project that needs them says so.
        let _ = beside(toplevel, &root);
        let too_much = |error| CheckpointError::io("cannot copy", original, error);
        trees.write(&project, choose, &mut |bytes| allowance.spend(bytes).map_err(too_much))?;
        // Without a repository, commands that ask git say so.
        let _ = trees.git_folders().map(|from| repository(&from, &root.join(".git")));
        for (inside, from) in trees.nested_git_folders() {
            let to = project.join(inside);
            // The chosen tree need not have it.
            let _ = to.is_dir().then(|| repository(&from, &to.join(".git")));
        }
        let target = with_target.then(|| original.join(TARGET));
        let mut layered: Vec<PathBuf> = target.into_iter().filter(|target| target.is_dir()).collect();
        for entry in entries {
            let path = entry.trim_end_matches('/');
            let name = path.rsplit('/').next().unwrap_or(path);
            let holds = |avoided: &&&str| **avoided == path || avoided.starts_with(&format!("{path}/"));
            if is_left_out(name) || avoided.iter().any(|path| holds(&path)) {
                continue;
            }
            let to = project.join(path);
            if let Some(parent) = to.parent() {
                std::fs::create_dir_all(parent).map_err(cannot_create(parent))?;
            }
            if to.symlink_metadata().is_err() {
                allowance.spend(copied(&original.join(path))).map_err(too_much)?;
                take_over(original, Path::new(path), &to).map_err(cannot_create(&to))?;
                if Conventions::get().is_dependencies(name) && to.is_symlink() && layered.len() < MAX_LAYERED
                {
                    layered.push(original.join(path));
                }
            }
        }
        Ok(Self { folder, root, project, toplevel: toplevel.to_owned(), layered })
    }

    /// Runs commands in it, in order. What they print names the copy's folder as if it were the original.
    pub(super) async fn run(
        &self,
        runner: &CommandRunner,
        commands: &[String],
        timeout: Duration,
    ) -> Vec<CommandRun> {
        // Around the project there are links, and what they lead to is in the repository.
        // Beside the copy are links to the neighbours of the project.
        let around = self.root.parent().unwrap_or(&self.root);
        let mut runner = runner.within(&self.project).seeing(around).seeing(&self.toplevel);
        if runner.has_layers() {
            runner = self.layered.iter().fold(runner, |runner, folder| runner.layering(folder));
        }
        let runner = self.folder.finding_programs(runner);
        let mut runs = runner.run_all(commands, timeout).await;
        let (copy, original) = (self.root.display().to_string(), self.toplevel.display().to_string());
        for run in &mut runs {
            run.output = run.output.replace(&copy, &original);
            // A failure has no digits.
            for failure in &mut run.failures {
                *failure = failure.replace(&without_digits(&copy), &without_digits(&original));
            }
        }
        runs
    }
}

/// Whether a folder of that name holds what builds and test runs write: it was made from other sources.
pub(super) fn is_left_out(name: &str, with_target: bool) -> bool {
    let table = Conventions::get();
    (table.is_output(name) || table.is_build(name)) && !(with_target && name == TARGET)
}

/// Links what is around the project in its repository: `inside` is the project's place in it.
fn surround(
    toplevel: &Path,
    root: &Path,
    inside: &Path,
    is_left_out: &dyn Fn(&str) -> bool,
) -> std::io::Result<()> {
    let (mut from, mut to) = (toplevel.to_owned(), root.to_owned());
    for part in inside {
        for neighbour in std::fs::read_dir(&from)? {
            let neighbour = neighbour?;
            let name = neighbour.file_name();
            if name != *part && name != ".git" && !is_left_out(&name.to_string_lossy()) {
                symlink(neighbour.path(), to.join(&name))?;
            }
        }
        from.push(part);
        to.push(part);
    }
    Ok(())
}

/// Links the folders beside the repository: tests may read `../shared`. A file that commands write there, such as a
/// log, is not part of the copy.
fn beside(toplevel: &Path, root: &Path) -> std::io::Result<()> {
    let (Some(from), Some(to)) = (toplevel.parent(), root.parent()) else { return Ok(()) };
    for neighbour in std::fs::read_dir(from)?.take(MAX_NEIGHBOURS) {
        let neighbour = neighbour?;
        let name = neighbour.file_name();
        if neighbour.path().is_dir()
            && to.join(&name).symlink_metadata().is_err()
            && !name.to_string_lossy().starts_with(temporary::VERIFY)
        {
            symlink(neighbour.path(), to.join(&name))?;
        }
    }
    Ok(())
}

/// Brings in something that git ignores. Commands may write to files, so these are copied; folders are large.
fn take_over(root: &Path, inside: &Path, to: &Path) -> std::io::Result<()> {
    let from = root.join(inside);
    if is_copied(&from) { copy_file(root, inside, to) } else { symlink(from, to) }
}

fn is_copied(from: &Path) -> bool {
    from.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() <= MAX_COPIED)
}

/// How many bytes of it are copied.
fn copied(from: &Path) -> u64 {
    if is_copied(from) { from.symlink_metadata().map_or(0, |found| found.len()) } else { 0 }
}

/// Copies a file below `root`, and nothing that a link leads to: agents make links, and may not read all that rawko can. The
/// kernel lets both share their blocks where the file system can do that.
fn copy_file(root: &Path, inside: &Path, to: &Path) -> std::io::Result<()> {
    let mut from = rawko_tools::open_regular_below(root, inside)?;
    let mode = from.metadata()?.permissions();
    std::io::copy(&mut from, &mut std::fs::File::create(to)?)?;
    std::fs::set_permissions(to, mode)
}

/// Makes a repository at `to` that borrows its objects. Nothing of its configuration is taken over: it could name programs.
fn repository(from: &GitFolders, to: &Path) -> std::io::Result<()> {
    let GitFolders { own, common } = from;
    std::fs::create_dir_all(to.join("objects/info"))?;
    copy_files(common, Path::new("refs"), to)?;
    for (folder, name) in [(common, "packed-refs"), (common, "shallow"), (own, "HEAD"), (own, "index")] {
        if folder.join(name).symlink_metadata().is_ok_and(|found| found.is_file()) {
            copy_file(folder, Path::new(name), &to.join(name))?;
        }
    }
    std::fs::write(to.join("objects/info/alternates"), format!("{}\n", common.join("objects").display()))?;
    std::fs::write(to.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
}

/// Copies the files of the folder `inside` of `root` to the same place in `to`.
fn copy_files(root: &Path, inside: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to.join(inside))?;
    for entry in std::fs::read_dir(root.join(inside))? {
        let entry = entry?;
        let (kind, inside) = (entry.file_type()?, inside.join(entry.file_name()));
        if kind.is_dir() {
            copy_files(root, &inside, to)?;
        } else if kind.is_file() {
            copy_file(root, &inside, &to.join(&inside))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_links_in_a_repository_lead_to_is_not_copied() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(path("git/refs/heads")).unwrap();
        std::fs::write(path("git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(path("git/refs/heads/main"), "0\n").unwrap();
        std::fs::write(path("key"), "secret").unwrap();
        for link in ["git/shallow", "git/packed-refs", "git/index", "git/refs/heads/other", "ignored"] {
            symlink(path("key"), path(link)).unwrap();
        }
        let folders = GitFolders { own: path("git"), common: path("git") };
        repository(&folders, &path("copy")).unwrap();
        assert_eq!(std::fs::read_to_string(path("copy/refs/heads/main")).unwrap(), "0\n");
        assert!(path("copy/HEAD").is_file());
        for link in ["shallow", "packed-refs", "index", "refs/heads/other"] {
            assert!(path("copy").join(link).symlink_metadata().is_err(), "{link}");
        }
        std::fs::create_dir(path("folder")).unwrap();
        std::fs::remove_dir_all(path("git/refs")).unwrap();
        symlink(path("folder"), path("git/refs")).unwrap();
        std::fs::write(path("folder/key"), "secret").unwrap();
        assert!(repository(&folders, &path("again")).is_err());
        assert!(!path("again/refs/key").exists());
        take_over(dir.path(), Path::new("ignored"), &path("taken")).unwrap();
        assert!(path("taken").is_symlink());
    }
}
