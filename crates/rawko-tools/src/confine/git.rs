//! The parts of a repository that decide what git runs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::access::is_repository;
use crate::git::Git;
use crate::program::program_outside;
use crate::regular::text_of;

/// How long git may take to read settings.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest file that names a folder.
const LONGEST_NAME: u64 = 64 * 1024;

/// Files and folders of a repository that name programs, or other places: read-only for every command.
pub(super) const DECIDING: [&str; 6] =
    ["commondir", "config", "config.worktree", "gitdir", "hooks", "info/attributes"];

/// The repository that a project belongs to, as it was before the first command: a command can make another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProjectRepository {
    /// The top of the work tree.
    pub(super) top: PathBuf,
    /// The folders that git writes: the repository's own, and for a linked work tree that of the main one.
    pub(super) folders: Vec<PathBuf>,
    /// The folder that holds the index of this work tree.
    pub(super) own: Option<PathBuf>,
    /// The other files in the work tree that git obeys because of the repository's settings: hooks and more settings.
    pub(super) obeyed: Vec<PathBuf>,
}

/// The repository around `folder`, if there is one.
pub(super) fn repository_of(folder: &Path) -> Option<ProjectRepository> {
    let top = folder.ancestors().find(|top| top.join(".git").symlink_metadata().is_ok())?;
    let (own, shared) = folders_of(&top.join(".git")).unzip();
    let obeyed = shared.iter().flat_map(|folder| obeyed(top, folder)).collect();
    Some(ProjectRepository { top: top.to_owned(), folders: shared.into_iter().collect(), own, obeyed })
}

/// The folder of the work tree whose `.git` is this, and the one that holds all: the same, or that of the main work tree,
/// which knows of a linked one. A file may name any folder, so one that does not name the work tree back grants nothing.
fn folders_of(dot_git: &Path) -> Option<(PathBuf, PathBuf)> {
    if dot_git.symlink_metadata().is_ok_and(|kind| kind.is_dir()) {
        return looks_bare(dot_git).then(|| (dot_git.to_owned(), dot_git.to_owned()));
    }
    if dot_git.is_symlink() && dot_git.is_dir() {
        // One that is elsewhere may be another project's.
        let (folder, top) = (real(dot_git)?, real(dot_git.parent()?)?);
        return (folder.starts_with(top) && looks_bare(&folder)).then(|| (folder.clone(), folder));
    }
    let text = text_of(dot_git, LONGEST_NAME).unwrap_or_default();
    let named = text.strip_prefix("gitdir:").map(str::trim)?;
    let own = real(&dot_git.parent()?.join(named))?;
    let back = text_of(&own.join("gitdir"), LONGEST_NAME).and_then(|back| fs::canonicalize(back.trim()).ok());
    let common = own.parent().filter(|parent| parent.ends_with("worktrees")).and_then(Path::parent)?;
    let is_named_back = back.is_some() && back == fs::canonicalize(dot_git).ok();
    (is_named_back && looks_bare(common)).then(|| (own.clone(), common.to_owned()))
}

/// What must stay as it is in a folder of a repository, those of submodules included.
pub(super) fn deciding(folder: &Path) -> Vec<PathBuf> {
    let Ok(folder) = fs::canonicalize(folder) else { return Vec::new() };
    let project = folder.parent().unwrap_or(&folder);
    let all = with_inner(&folder).into_iter().flat_map(|folder| DECIDING.map(|name| folder.join(name)));
    // Of a link, what it leads to. Only the project is granted.
    all.filter_map(|path| fs::canonicalize(path).ok()).filter(|real| real.starts_with(project)).collect()
}

/// What the work trees of a repository have for themselves but for this one, which is linked to it: their `HEAD`, their
/// index, what they are in the middle of.
pub(super) fn of_other_trees(repository: &ProjectRepository) -> Vec<PathBuf> {
    let Some(own) = &repository.own else { return Vec::new() };
    let mut others = Vec::new();
    for folder in repository.folders.iter().filter(|folder| *folder != own) {
        others.extend(["HEAD", "index"].map(|name| folder.join(name)));
        let trees = fs::read_dir(folder.join("worktrees")).into_iter().flatten().filter_map(Result::ok);
        others.extend(trees.map(|tree| tree.path()).filter(|tree| tree != own));
    }
    others.retain(|path| path.symlink_metadata().is_ok_and(|found| !found.is_symlink()));
    others
}

/// Git, about to list settings, each with a NUL after it: those of the files that the arguments to come name. It does
/// nothing else, and is ended soon: includes may name a FIFO. `home` is what `~` means. No git in `changeable` is taken.
pub(super) fn list_settings(home: Option<&OsStr>, changeable: &[&Path]) -> Option<Git> {
    let program = program_outside("git", std::env::var_os("PATH").as_deref(), changeable)?;
    let git = Git::alone(&program).within_time(PATIENCE).envs(home.map(|home| ("HOME", home)));
    // The user's own settings say which folders are safe, on which conditions of an include may depend.
    Some(git.without_env("GIT_CONFIG_GLOBAL").args(["config", "--null", "--list"]))
}

/// The existing files in the work tree that the settings in the folder of a repository name. Git lists the settings,
/// and does nothing else here.
fn obeyed(top: &Path, folder: &Path) -> Vec<PathBuf> {
    let list = list_settings(std::env::var_os("HOME").as_deref(), &[top]);
    let own = std::env::var_os("XDG_CONFIG_HOME");
    let list = list.map(|git| git.envs(own.map(|own| ("XDG_CONFIG_HOME", own))));
    let list = list.map(|git| git.within(top).args(["--includes", "--show-origin", "--file"]));
    let Some(Ok(listed)) = list.map(|git| git.arg(folder.join("config")).answer()) else { return Vec::new() };
    let mut found = BTreeSet::new();
    let mut parts = listed.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
    while let (Some(origin), Some(entry)) = (parts.next(), parts.next()) {
        let Some((name, value)) = entry.split_once('\n') else { continue };
        let origin = top.join(origin.strip_prefix("file:").unwrap_or(&origin));
        let is_include =
            (name.starts_with("include.") || name.starts_with("includeif.")) && name.ends_with(".path");
        let named = match (is_include, name) {
            (true, _) => origin.parent().map(|around| around.join(value)),
            (false, "core.hookspath") => Some(top.join(value)),
            (false, _) => None,
        };
        found.extend(named.and_then(|path| fs::canonicalize(path).ok()));
    }
    // Files in the repository are protected by its name, and a whole work tree cannot be.
    found.retain(|path| path.starts_with(top) && path != top && !path.starts_with(folder));
    found.into_iter().collect()
}

/// The folder of a repository, and those of its submodules and linked work trees.
pub(super) fn with_inner(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for inner in ["modules", "worktrees"] {
        repositories_below(&folder.join(inner), MAX_DEPTH, &mut found);
    }
    found
}

/// How deep the names of submodules are looked for: a name may contain slashes.
const MAX_DEPTH: usize = 8;

fn repositories_below(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    // A command may have made a link to repositories that are none of this one's.
    if folder.is_symlink() {
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in
        entries.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
    {
        if entry.path().join("HEAD").is_file() {
            found.extend(with_inner(&entry.path()));
        } else if depth > 0 {
            repositories_below(&entry.path(), depth - 1, found);
        }
    }
}

/// Whether git would take the folder itself for a repository.
pub(super) fn looks_bare(folder: &Path) -> bool {
    is_repository(|name| folder.join(name).symlink_metadata().is_ok())
}

fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok().filter(|path| path.is_dir())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::symlink;

    use super::*;

    /// What is protected of a repository with these settings and links.
    #[track_caller]
    fn check(settings: &str, links: &[(&str, &str)], protected: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap().join("project");
        for name in [".git/objects", ".git/refs", ".husky/hooks", "shared", "../outside"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        for name in [".git/HEAD", "shared/more", "../outside/more"] {
            fs::write(top.join(name), "").unwrap();
        }
        fs::write(top.join(".git/config"), settings).unwrap();
        for (link, target) in links {
            symlink(target, top.join(link)).unwrap();
        }
        let repository = repository_of(&top).unwrap();
        let mut found = deciding(&top.join(".git"));
        found.extend(repository.obeyed);
        let mut found: Vec<_> = found.iter().map(|path| path.strip_prefix(&top).unwrap()).collect();
        found.sort();
        assert_eq!(found, protected.iter().map(Path::new).collect::<Vec<_>>());
    }

    #[test]
    fn the_target_of_a_link_in_the_project_is_protected() {
        check("", &[(".git/hooks", "../shared")], &[".git/config", "shared"]);
        check("", &[(".git/hooks", "../../outside"), (".git/info", "../shared")], &[".git/config"]);
    }

    #[test]
    fn what_settings_name_in_the_project_is_protected() {
        let settings = "[core]\n\thooksPath = .husky/hooks\n[include]\n\tpath = ../shared/more\n\tpath = ../../outside/more\n\
                        \tpath = ../shared/none\n[includeIf \"gitdir:/nowhere\"]\n\tpath = ../.husky\n";
        check(settings, &[], &[".git/config", ".husky", ".husky/hooks", "shared/more"]);
        check("[core]\n\thooksPath = .\n", &[], &[".git/config"]);
        check("[core]\n\thooksPath = ../outside\n", &[], &[".git/config"]);
    }
}
