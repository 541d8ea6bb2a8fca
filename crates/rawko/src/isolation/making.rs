//! Makes the tree of a session: copies the project, and says how the copy is shown.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rawko_tools::{NamespaceStep, can_hold_layers, may_mount};
use rustix::fs::FileType;

use super::copy::{Share, copy};
use super::manifest::Manifest;
use super::repository::{Mounts, Repository, named_by};
use super::{
    IsolatedTree, LandingPolicy, MANIFEST, RECORD, SPARE, TREE, TreeRecord, Within, lock, strip, trees_of,
};
use crate::checkpoint::{Checkpoints, work_tree};
use crate::error::Error;
use crate::private;

/// What to do where there can be no tree.
const NO_TREE: &str = "work in the project's own files: leave out --isolated, or set `workspace: project`";
/// In the folder of a tree: what was changed in ignored folders.
const LAYERS: &str = "layers";
/// A folder that git ignores is copied if it has no more entries and bytes than this: to mount one costs as much.
const SMALL_ENTRIES: usize = 200;
const SMALL_BYTES: u64 = 8 * 1024 * 1024;
/// How old the tree of no session is before it is removed.
const ORPHANED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// Most bytes of a tree for which everything has to be copied.
const MOST_BYTES: u64 = 4 * 1024 * 1024 * 1024;

impl IsolatedTree {
    /// Makes the tree of a session.
    ///
    /// # Errors
    /// [`Error::Setup`] with what is missing.
    pub(crate) fn make(
        project: &Path,
        (session, directory): (&str, &Path),
        (since, land): (u32, LandingPolicy),
    ) -> Result<Self, Error> {
        let failed = |what: String| Error::Setup {
            message: format!("the run cannot have a tree of its own: {what}"),
            hint: NO_TREE.to_owned(),
        };
        let wrong = |path: &Path, error: io::Error| failed(format!("{}: {error}", path.display()));
        let project = project.canonicalize().map_err(|error| wrong(project, error))?;
        let beside = trees_of(&project).ok_or_else(|| {
            failed("there is no folder for it: neither XDG_STATE_HOME nor HOME is set".to_owned())
        })?;
        private::create_private_dir(&beside).map_err(|error| wrong(&beside, error))?;
        let beside = beside.canonicalize().map_err(|error| wrong(&beside, error))?;
        if beside.starts_with(&project) {
            return Err(failed(format!("its folder {} would be inside the project", beside.display())));
        }
        remove_orphans(&beside, directory.parent().unwrap_or(Path::new(".")));
        let folder = beside.join(session);
        if folder.symlink_metadata().is_ok() && !folder.join(RECORD).exists() {
            // A process was killed while it made or removed this one.
            rawko_tools::temporary::remove_all(&folder).map_err(|error| wrong(&folder, error))?;
        }
        let _lock = lock(&beside).map_err(|error| wrong(&beside, error))?;
        if std::fs::rename(beside.join(SPARE), &folder).and_then(|()| strip(&folder)).is_err() {
            private::create_private_dir(&folder).map_err(|error| wrong(&folder, error))?;
        }
        let made = Making { project: &project, folder: &folder, session, directory, since, land }.make();
        if made.is_err() {
            // What cannot be removed stays.
            let _ = rawko_tools::temporary::remove_all(&folder);
        }
        made.map_err(failed)
    }
}

struct Making<'a> {
    project: &'a Path,
    folder: &'a Path,
    session: &'a str,
    directory: &'a Path,
    since: u32,
    land: LandingPolicy,
}

impl Making<'_> {
    fn make(&self) -> Result<IsolatedTree, String> {
        let top = work_tree(self.project).to_owned();
        let checkpoints = Checkpoints::new(&top, self.directory, self.session);
        let ignored = checkpoints.ignored().map_err(|error| error.to_string())?;
        let tree = self.folder.join(TREE);
        let within_top = self.project.strip_prefix(&top).unwrap_or(Path::new(""));
        let copy = tree.join(within_top);
        let steps = self.shown(&top, &tree, &ignored)?;
        let record = TreeRecord {
            session: self.session.to_owned(),
            project: self.project.to_owned(),
            head: checkpoints.head(),
            since: self.since,
            land: self.land,
            steps,
            copy,
        };
        let within = Within::new(&record.steps);
        let place = self.folder.join(RECORD);
        let written = serde_json::to_vec(&record).map_err(io::Error::other);
        let written = written.and_then(|content| private::replace(&place, &content));
        written.map_err(|error| format!("{}: {error}", place.display()))?;
        let (folder, directory) = (self.folder.to_owned(), self.directory.to_owned());
        Ok(IsolatedTree { folder, directory, record, within, fate: Mutex::default() })
    }

    /// Copies what is not shown otherwise, and gives the mounts that show the tree at the project's path.
    fn shown(&self, top: &Path, tree: &Path, ignored: &[String]) -> Result<Vec<NamespaceStep>, String> {
        let layers = self.folder.join(LAYERS);
        private::create_private_dir(&layers).map_err(|error| format!("{}: {error}", layers.display()))?;
        let are_possible = may_mount();
        let can_layer = are_possible && can_hold_layers(&layers).is_ok();
        let mut mounts = Mounts { are_possible, layers: can_layer.then_some(layers), steps: Vec::new() };
        // What rawko keeps of the project stays the project's.
        let own = self.project.join(".rawko");
        if are_possible {
            std::fs::create_dir_all(&own).map_err(|error| format!("{}: {error}", own.display()))?;
            mounts.bind(top, tree);
            mounts.bind(&own, &own);
        }
        let mut layered = BTreeSet::new();
        let folders = ignored.iter().filter_map(|path| path.strip_suffix('/')).map(PathBuf::from);
        for path in folders.filter(|path| top.join(path).is_dir() && !own.starts_with(top.join(path))) {
            let folder = top.join(&path);
            if !is_small(&folder) && mounts.layer(&folder).map_err(|error| error.to_string())? {
                layered.insert(path);
            }
        }
        let most = if can_layer { u64::MAX } else { MOST_BYTES };
        self.copy_tree(top, tree, most, &mut mounts, &layered)?;
        Ok(mounts.steps)
    }

    fn copy_tree(
        &self,
        top: &Path,
        tree: &Path,
        most: u64,
        mounts: &mut Mounts,
        layered: &BTreeSet<PathBuf>,
    ) -> Result<(), String> {
        let own = self.project.join(".rawko");
        // Of all projects: a home may be kept in git.
        let trees = self.folder.ancestors().nth(2);
        let repositories = Mutex::new((Vec::new(), Vec::new()));
        let share = |path: &Path, kind: FileType| {
            let is_git = path.file_name().is_some_and(|name| name == ".git");
            if is_git {
                let (folders, files) = &mut *repositories.lock().unwrap_or_else(PoisonError::into_inner);
                if kind.is_dir() { folders.push(path.to_owned()) } else { files.push(path.to_owned()) }
            }
            if (is_git && kind.is_dir()) || layered.contains(path) || top.join(path) == own {
                Share::Empty
            } else if path.ends_with(".rawko/sessions") || trees == Some(&top.join(path)) {
                Share::Nothing
            } else {
                Share::Copied
            }
        };
        let place = self.folder.join(MANIFEST);
        let earlier = Manifest::read(&place);
        // Without it, all of it would be copied.
        let _ = std::fs::remove_file(&place);
        let copied = copy(top, tree, most, &earlier, &share).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => format!("{}: {error} would have to be copied", top.display()),
            _ => format!("copying {}: {error}", top.display()),
        })?;
        copied.write(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let (folders, files) = repositories.into_inner().unwrap_or_else(PoisonError::into_inner);
        let inside =
            folders.into_iter().map(|path| Repository { place: top.join(&path), copy: tree.join(path) });
        let mut all: Vec<Repository> = inside.collect();
        // A linked work tree, or a submodule whose repository is around the project.
        let outside: BTreeSet<PathBuf> = files
            .iter()
            .filter_map(|path| named_by(top.join(path).parent()?))
            .filter(|folder| !folder.starts_with(top) && !top.starts_with(folder))
            .collect();
        for (place, number) in outside.into_iter().zip(1..) {
            if !mounts.are_possible {
                return Err(format!(
                    "{} belongs to it and would not be the run's own: this user can make no mount namespaces here",
                    place.display()
                ));
            }
            let copy = self.folder.join(format!("repository-{number}"));
            mounts.bind(&place, &copy);
            all.push(Repository { place, copy });
        }
        for repository in all {
            let failed = |error: io::Error| format!("copying {}: {error}", repository.place.display());
            repository.copy(mounts).map_err(failed)?;
        }
        Ok(())
    }
}

/// Removes the trees whose sessions are gone: a process was killed before it had begun one, or somebody removed its folder. A
/// new one may belong to a session that is only about to begin.
fn remove_orphans(trees: &Path, sessions: &Path) {
    for entry in std::fs::read_dir(trees).into_iter().flatten().filter_map(Result::ok) {
        let made = entry.metadata().and_then(|found| found.modified());
        let is_old = made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > ORPHANED_AFTER));
        let is_spare = entry.file_name() == SPARE;
        if is_old && !is_spare && !sessions.join(entry.file_name()).exists() {
            let _ = rawko_tools::temporary::remove_all(&entry.path());
        }
    }
}

/// Whether a folder has little in it.
fn is_small(folder: &Path) -> bool {
    let (mut entries, mut bytes, mut folders) = (0, 0, vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let Ok(listed) = std::fs::read_dir(&folder) else { return false };
        for entry in listed.filter_map(Result::ok) {
            entries += 1;
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) => bytes += found.len(),
                Err(_) => {}
            }
            if entries > SMALL_ENTRIES || bytes > SMALL_BYTES {
                return false;
            }
        }
    }
    true
}
