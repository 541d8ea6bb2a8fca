//! Work trees of git beside the project's own, in which a run works without touching the files that others work with.
//!
//! Configuration, trust, memories and sessions stay those of the project. That a folder is such a tree is believed only where
//! repository and folder name each other: a folder alone could name any repository.

use std::path::{Path, PathBuf};

use rawko_core::session::Event;
use rawko_tools::text_of;

use crate::clock::now;
use crate::error::Error;
use crate::journal::{Journal, Record};
use crate::session_id;

/// The suffix of the folder that holds a project's work trees; it follows the project's own name.
pub const WORKTREES: &str = ".worktrees";

/// The most bytes of a file that names a folder.
const LONGEST_NAME: u64 = 4096;

/// A new name for a work tree. It sorts by time.
#[must_use]
pub fn new_name() -> String {
    session_id::new(now())
}

/// The root of the work tree of git around `folder`, if there is one.
#[must_use]
pub fn toplevel(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok()).map(Path::to_owned)
}

/// The project whose run made the work tree around `folder`: the same place in the repository's main work tree. `None` if
/// the folder is not in such a tree, or the repository does not know it.
#[must_use]
pub fn project_of(folder: &Path) -> Option<PathBuf> {
    let root = toplevel(folder)?;
    let is_named_so =
        |beside: &Path| beside.file_name().is_some_and(|name| name.to_string_lossy().ends_with(WORKTREES));
    root.parent().filter(|beside| is_named_so(beside))?;
    let common = common_of(&root)?;
    let main = common.parent().filter(|_| common.file_name().is_some_and(|name| name == ".git"))?;
    let project = main.join(folder.strip_prefix(&root).ok()?);
    project.is_dir().then_some(project)
}

/// The repository of a linked work tree at `root`, if both name each other.
fn common_of(root: &Path) -> Option<PathBuf> {
    let dot_git = root.join(".git");
    let named = text_of(&dot_git, LONGEST_NAME)?;
    let own = root.join(named.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let back = text_of(&own.join("gitdir"), LONGEST_NAME)?;
    let back = own.join(back.trim()).canonicalize().ok()?;
    if back != dot_git.canonicalize().ok()? {
        return None;
    }
    own.parent().filter(|trees| trees.ends_with("worktrees"))?.parent().map(Path::to_owned)
}

/// The work tree that the session of this journal worked in, if it was not the project at `project` itself.
///
/// # Errors
/// [`Error::Setup`] if that tree is gone.
pub fn tree_of_session(project: &Path, journal: &Journal) -> Result<Option<PathBuf>, Error> {
    let directory = journal.records.iter().rev().find_map(|record| match record {
        Record::Event(stamped) => match &stamped.event {
            Event::TaskStarted { setup, .. } | Event::TaskContinued { setup, .. } => {
                Some(PathBuf::from(&setup.place.directory))
            }
            _ => None,
        },
        Record::Step(_) => None,
    });
    let Some(directory) = directory.filter(|directory| directory != project) else { return Ok(None) };
    if project_of(&directory).is_some_and(|main| main.canonicalize().ok() == project.canonicalize().ok()) {
        return Ok(Some(directory));
    }
    let is_tree = |folder: &Path| folder.to_string_lossy().ends_with(WORKTREES);
    // Any other folder: the project itself, before it was moved.
    if !directory.ancestors().skip(1).any(is_tree) {
        return Ok(None);
    }
    Err(Error::Setup {
        message: format!(
            "session {} worked in the work tree {}, which is gone",
            journal.header.session,
            directory.display()
        ),
        hint: "what it committed is on the tree's branch: git branch --list 'rawko/*'\n\
               to make the tree again: git worktree add FOLDER BRANCH"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A repository at `main` with a linked tree at `beside`, as git makes them.
    fn linked(main: &Path, beside: &Path) {
        let own = main.join(".git/worktrees/one");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(beside.join("sub")).unwrap();
        fs::create_dir_all(main.join("sub")).unwrap();
        fs::write(beside.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        fs::write(own.join("gitdir"), format!("{}\n", beside.join(".git").display())).unwrap();
    }

    #[test]
    fn a_tree_is_believed_where_repository_and_folder_name_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (main, beside) = (root.join("p"), root.join("p.worktrees/one"));
        linked(&main, &beside);
        assert_eq!(project_of(&beside), Some(main.clone()));
        assert_eq!(project_of(&beside.join("sub")), Some(main.join("sub")));
        assert_eq!(project_of(&main), None);
        // A tree that the user made elsewhere is a project of its own.
        let elsewhere = root.join("elsewhere");
        linked(&main, &elsewhere);
        assert_eq!(project_of(&elsewhere), None);
        // A folder that only claims it.
        let planted = root.join("x.worktrees/planted");
        fs::create_dir_all(&planted).unwrap();
        fs::copy(beside.join(".git"), planted.join(".git")).unwrap();
        assert_eq!(project_of(&planted), None);
    }
}
