//! The repositories inside the project: submodules, clones, linked work trees. Their files are the project's, and each
//! repository says by its own index and its own lists which of them count.
//!
//! A repository is asked as the one around the project is. One that git cannot use is a folder like any other.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::error::CheckpointError;
use super::git::GitProgram;
use super::listing::{Never, TreePath, is_plain, others};
use super::place::{EnclosingRepository, ObjectFormat, UserFolders, WorkTree};
use super::scratch::Scratch;

/// Most repositories inside a project that are entered.
const MAX_REPOSITORIES: usize = 100;
/// Why the files of another one are not kept.
const TOO_MANY: &str = "a repository beyond the hundredth in the project";
/// The mode of the entry for another repository in an index.
const LINK: &[u8] = b"160000";

/// The files of the project's repository, or of one inside it. All paths are below the project.
#[derive(Debug)]
pub(super) struct RepositoryFiles {
    /// Where it is; empty for the project.
    pub(super) inside: TreePath,
    pub(super) place: WorkTree,
    /// What its index has.
    pub(super) tracked: BTreeSet<TreePath>,
    /// All files that no list ignores, tracked or not: with no index, every file is a stranger.
    pub(super) others: BTreeSet<TreePath>,
    /// What looks like a repository in it.
    repositories: BTreeSet<TreePath>,
}

/// A project and the repositories inside it.
#[derive(Debug)]
pub(super) struct ProjectRepositories {
    /// The project.
    pub(super) project: RepositoryFiles,
    /// The others.
    pub(super) nested: Vec<RepositoryFiles>,
    /// Those that are not entered, each with why.
    pub(super) skipped: BTreeMap<TreePath, &'static str>,
    /// Whether a repository around, which ignores the project, was left out of account.
    pub(super) stands_alone: bool,
}

impl ProjectRepositories {
    pub(super) fn of(
        git: &GitProgram,
        place: &WorkTree,
        format: ObjectFormat,
        user: &UserFolders,
        never: &Never,
    ) -> Result<Self, CheckpointError> {
        let look =
            |inside: &TreePath, place: &WorkTree| RepositoryFiles::of(git, inside, place, format, user);
        let mut project = look(&TreePath::new(), place)?;
        let stands_alone =
            project.tracked.is_empty() && project.others.is_empty() && place.toplevel != place.project;
        if stands_alone {
            // A repository around that ignores the project has no say in it: a home folder under version control.
            project = look(&TreePath::new(), &place.alone())?;
        }
        let mut parts = Self { nested: Vec::new(), skipped: BTreeMap::new(), stands_alone, project };
        let mut open: Vec<TreePath> = parts.project.repositories.iter().rev().cloned().collect();
        while let Some(inside) = open.pop() {
            let Some(folder) = folder_of(place, &inside).filter(|_| !never.covers(&inside)) else { continue };
            if parts.nested.len() >= MAX_REPOSITORIES {
                parts.skipped.insert(inside, TOO_MANY);
                continue;
            }
            let repository = EnclosingRepository::at(git, &folder, user);
            let place = WorkTree { project: folder.clone(), toplevel: folder, repository };
            let part = match look(&inside, &place) {
                // Its index is damaged, and then it is as if it had none.
                Err(CheckpointError::Git { .. }) => look(&inside, &place.alone())?,
                part => part?,
            };
            open.extend(part.repositories.iter().rev().cloned());
            parts.nested.push(part);
        }
        Ok(parts)
    }
}

impl RepositoryFiles {
    fn of(
        git: &GitProgram,
        inside: &TreePath,
        place: &WorkTree,
        format: ObjectFormat,
        user: &UserFolders,
    ) -> Result<Self, CheckpointError> {
        let below = |path: &[u8]| below(inside, path);
        let (mut tracked, mut repositories) = (BTreeSet::new(), BTreeSet::new());
        if let Some(repository) = &place.repository {
            let ask = repository.ask(git, "lists the tracked files").within(&place.project);
            let answer = ask.args(["ls-files", "-z", "--stage"]).answer()?;
            for entry in answer.split(|byte| *byte == 0) {
                let mut fields = entry.splitn(2, |byte| *byte == b'\t');
                let (Some(words), Some(path)) = (fields.next(), fields.next()) else { continue };
                let is_link = words.starts_with(LINK);
                if is_link { &mut repositories } else { &mut tracked }.insert(below(path));
            }
        }
        let mut files = BTreeSet::new();
        let answer = others(git, place, &Scratch::new(format, &place.project)?, user)?.answer()?;
        for path in answer.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            match path.strip_suffix(b"/") {
                Some(repository) => repositories.insert(below(repository)),
                None => files.insert(below(path)),
            };
        }
        let (inside, place) = (inside.clone(), place.clone());
        Ok(Self { inside, place, tracked, others: files, repositories })
    }
}

/// A path of the repository at `inside`, as a path below the project.
pub(super) fn below(inside: &[u8], path: &[u8]) -> TreePath {
    if inside.is_empty() { path.to_vec() } else { [inside, b"/", path].concat() }
}

/// A path below the project, as a path of the repository at `inside`.
pub(super) fn below_of<'p>(inside: &[u8], path: &'p [u8]) -> &'p [u8] {
    if inside.is_empty() { path } else { path.get(inside.len() + 1..).unwrap_or_default() }
}

/// The folder of a repository inside the project; `None` where there is none, or where a link leads there.
fn folder_of(project: &WorkTree, inside: &[u8]) -> Option<PathBuf> {
    let folder = project.project.join(OsStr::from_bytes(inside));
    let is_there = is_plain(inside) && folder.join(".git").symlink_metadata().is_ok();
    (is_there && folder.canonicalize().is_ok_and(|real| real == folder)).then_some(folder)
}
