//! The tree that a session began with and the present one, to compare them or to write them elsewhere.
//!
//! It keeps no tree, and writes nothing into the project.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::Checkpoints;
use super::error::CheckpointError;
use super::gaps::Gaps;
use super::listing::{TreeListing, TreePath};
use super::place::{EnclosingRepository, WorkTree};
use super::restore::Restorer;
use super::scratch::Scratch;
use super::snapshot::{Snapshot, TreeEntry};
use super::store::Store;

/// Files whose contents are in memory at once.
const BATCH: usize = 200;

/// Two trees: the one that the checks are compared with, and the present one.
#[derive(Debug)]
pub(crate) struct Trees {
    store: Store,
    scratch: Scratch,
    first: Snapshot,
    /// The tree that the task began with, where that is another one.
    began: Option<Snapshot>,
    now: Snapshot,
    /// What someone else changed in the task.
    gaps: Gaps,
    name: String,
    /// Whether the repository around ignores the project.
    is_alone: bool,
    /// The repositories inside the project.
    nested: BTreeMap<TreePath, WorkTree>,
    /// What could not be read.
    faults: Mutex<BTreeSet<Fault>>,
}

/// Something that was kept, and cannot be read as it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// The object; nothing where that is not known.
    pub(crate) object: String,
    /// Whether it is gone; else it is something else now.
    pub(crate) is_gone: bool,
    /// What is wrong, for people.
    pub(crate) why: String,
}

impl Fault {
    /// `None` where it is not known that it is what was kept that failed.
    pub(crate) fn of(error: &CheckpointError) -> Option<Self> {
        let (object, is_gone) = match error {
            CheckpointError::Gone { id, .. } => (id.clone(), true),
            CheckpointError::Altered { id, .. } => (id.clone(), false),
            _ => return None,
        };
        Some(Self { object, is_gone, why: error.to_string() })
    }
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Same,
    Changed,
    Deleted,
    Added,
}

/// Which version of a file is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Version {
    /// That of the first tree, if it has the file.
    First,
    /// The present one, if there is one.
    Now,
    /// None.
    Neither,
    /// This content.
    Content(Vec<u8>),
}

impl Checkpoints {
    /// The tree that the checks are compared with, and the present one; `None` if nothing was kept in this task,
    /// because nothing was changed.
    ///
    /// # Errors
    /// If git cannot be asked, or what was kept is gone.
    pub(crate) fn trees(&self) -> Result<Option<Trees>, CheckpointError> {
        let store = self.store()?;
        let names = store.names()?;
        let kept = super::kept_after(self.checks_since, names.clone());
        let kept_now = self.of_this_task(names.clone());
        let (Some(id), Some((number, began))) = (kept.values().next(), kept_now.iter().next()) else {
            return Ok(None);
        };
        let first = store.snapshot(id)?;
        let began = (began != id).then(|| store.snapshot(began)).transpose()?;
        let listing = store.list(&first.keys().cloned().collect())?;
        let objects = store.objects();
        let scratch = objects.scratch_for(id)?;
        let tree = store.tree_now(&objects, &scratch, &listing)?;
        let now = objects.files(&scratch, &tree)?;
        let gaps = Gaps::since(&store, &names, &number.to_string(), &tree)?;
        let name = store.tree_of(id)?;
        let TreeListing { stands_alone: is_alone, nested, .. } = listing;
        let faults = Mutex::default();
        Ok(Some(Trees { store, scratch, first, began, now, gaps, name, is_alone, nested, faults }))
    }

    /// Where the session's directory keeps the toolchain from before the first change of the task that the checks are
    /// compared with.
    pub(crate) fn name_of_record(&self) -> String {
        match self.checks_since {
            0 => "checks.json".to_owned(),
            since => format!("checks-{since}.json"),
        }
    }

    /// What git ignores, relative to the project; a folder that is ignored as a whole is one entry, which ends with a
    /// slash. Files that are kept all the same are left out.
    ///
    /// # Errors
    /// If git cannot be asked.
    pub(crate) fn ignored(&self) -> Result<Vec<String>, CheckpointError> {
        let store = self.store()?;
        let listing = store.list(&BTreeSet::new())?;
        let ignored = store.ignored(&listing)?;
        let text = |path: Vec<u8>| String::from_utf8(path).ok();
        Ok(ignored.into_iter().filter(|path| !listing.files.contains_key(path)).filter_map(text).collect())
    }
}

/// Where a repository keeps what it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GitFolders {
    /// Of this work tree alone: what is checked out.
    pub(crate) own: PathBuf,
    /// Of all its work trees: objects and references.
    pub(crate) common: PathBuf,
}

impl GitFolders {
    fn of(repository: &EnclosingRepository) -> Option<Self> {
        let common = repository.objects.parent()?.to_owned();
        let dot_git = &repository.dot_git;
        let own = if dot_git.is_dir() {
            dot_git.clone()
        } else {
            // An added work tree, or a submodule.
            let text = rawko_tools::text_of(dot_git, 64 * 1024)?;
            dot_git.parent()?.join(text.strip_prefix("gitdir:")?.trim())
        };
        Some(Self { own, common })
    }
}

impl Trees {
    /// The project's real path.
    pub(crate) fn project(&self) -> &Path {
        &self.store.place.project
    }

    /// The work tree that the project is part of; the project itself where there is no repository.
    pub(crate) fn toplevel(&self) -> &Path {
        if self.is_alone { self.project() } else { &self.store.place.toplevel }
    }

    /// The folders of the repository around the project, if there is one.
    pub(crate) fn git_folders(&self) -> Option<GitFolders> {
        let repository = self.store.place.repository.as_ref().filter(|_| !self.is_alone)?;
        GitFolders::of(repository)
    }

    /// The folders of the repositories inside the project, by their place.
    pub(crate) fn nested_git_folders(&self) -> impl Iterator<Item = (&Path, GitFolders)> {
        self.nested.iter().filter_map(|(inside, place)| {
            let folders = GitFolders::of(place.repository.as_ref()?)?;
            Some((Path::new(OsStr::from_bytes(inside)), folders))
        })
    }

    /// Names the content of the first tree.
    pub(crate) fn first_name(&self) -> &str {
        &self.name
    }

    /// Whether the session changed no file since the task began, except those that are `passed_over`. Changes that
    /// someone else made while no execution was under way are not the session's.
    pub(crate) fn is_as_the_task_began(&self, passed_over: &dyn Fn(&str) -> bool) -> bool {
        let began = self.began.as_ref().unwrap_or(&self.first);
        let mut paths = began.keys().chain(self.now.keys());
        paths.all(|path| {
            let is_passed_over = || std::str::from_utf8(path).is_ok_and(passed_over);
            began.get(path) == self.now.get(path)
                || self.gaps.explain(began, &self.now, path)
                || is_passed_over()
        })
    }

    /// The files of the first tree whose paths are text.
    pub(crate) fn first_paths(&self) -> impl Iterator<Item = String> + '_ {
        self.first.keys().filter_map(|path| String::from_utf8(path.clone()).ok())
    }

    /// All files of either tree, with what became of them. Paths that are no text are left out.
    pub(crate) fn fates(&self) -> BTreeMap<String, Fate> {
        let paths: BTreeSet<&Vec<u8>> = self.first.keys().chain(self.now.keys()).collect();
        let fate = |path: &Vec<u8>| match (self.first.get(path), self.now.get(path)) {
            (Some(before), Some(after)) if before == after => Fate::Same,
            (Some(_), Some(_)) => Fate::Changed,
            (Some(_), None) => Fate::Deleted,
            (None, _) => Fate::Added,
        };
        let text = |path: &Vec<u8>| String::from_utf8(path.clone()).ok();
        paths.into_iter().filter_map(|path| Some((text(path)?, fate(path)))).collect()
    }

    /// The content of a file in the first tree, or in the present one.
    pub(crate) fn content(&self, path: &str, version: &Version) -> Option<Vec<u8>> {
        let entry = match version {
            Version::First => self.first.get(path.as_bytes()),
            Version::Now => self.now.get(path.as_bytes()),
            Version::Neither => None,
            Version::Content(content) => return Some(content.clone()),
        };
        self.contents(&[entry?.id.as_str()]).ok()?.pop()
    }

    /// The contents of these files in the first tree, as far as they are there and can be read.
    pub(crate) fn first_contents(&self, paths: &[String]) -> Vec<(String, Vec<u8>)> {
        let entries = paths.iter().filter_map(|path| Some((path, self.first.get(path.as_bytes())?)));
        let (paths, ids): (Vec<&String>, Vec<&str>) =
            entries.map(|(path, entry)| (path, entry.id.as_str())).unzip();
        let contents = self.contents(&ids).unwrap_or_default();
        paths.into_iter().cloned().zip(contents).collect()
    }

    fn contents(&self, ids: &[&str]) -> Result<Vec<Vec<u8>>, CheckpointError> {
        let contents = self.store.objects().contents_in(&self.scratch, ids);
        if let Err(error) = &contents {
            let unknown = || Fault { object: String::new(), is_gone: false, why: error.to_string() };
            let fault = Fault::of(error).unwrap_or_else(unknown);
            self.faults.lock().unwrap_or_else(PoisonError::into_inner).insert(fault);
        }
        contents
    }

    /// The faults until now. If there are any, findings since the trees were made prove nothing.
    pub(crate) fn faults(&self) -> BTreeSet<Fault> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes what `choose` picks into the empty folder `to`, as far as it differs from what is there now. Returns the
    /// files that are there now and are not picked.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(crate) fn write_over(
        &self,
        to: &Path,
        choose: &dyn Fn(&str) -> Version,
    ) -> Result<Vec<String>, CheckpointError> {
        let entries = |path: &str| (self.first.get(path.as_bytes()), self.now.get(path.as_bytes()));
        let differs = |path: &str| match (choose(path), entries(path)) {
            (Version::Now, _) => Version::Neither,
            (Version::First, (first, now)) if first == now => Version::Neither,
            (version, _) => version,
        };
        self.write(to, &differs, &mut |_| Ok(()))?;
        let present = self.now.keys().filter_map(|path| String::from_utf8(path.clone()).ok());
        let is_gone = |path: &String| match choose(path) {
            Version::Neither => true,
            Version::First => entries(path).0.is_none(),
            Version::Now | Version::Content(_) => false,
        };
        Ok(present.filter(is_gone).collect())
    }

    /// Writes a tree into the empty folder `to`, of the version that `choose` names for each file. `spend` is asked before
    /// so many bytes are written.
    ///
    /// # Errors
    /// If a file cannot be read or written, and what `spend` says.
    pub(crate) fn write(
        &self,
        to: &Path,
        choose: &dyn Fn(&str) -> Version,
        spend: &mut dyn FnMut(u64) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let restorer = Restorer::new(to, self.scratch.path())?;
        let put = |path: &[u8], entry: &TreeEntry, content: &[u8]| {
            let wrong = |why: String| {
                CheckpointError::io(
                    "cannot write",
                    &to.join(String::from_utf8_lossy(path).as_ref()),
                    std::io::Error::other(why),
                )
            };
            restorer.put_new(path, entry.kind, content).map_err(wrong)
        };
        let mut chosen: Vec<(&Vec<u8>, &TreeEntry)> = Vec::new();
        let paths: BTreeSet<&Vec<u8>> = self.first.keys().chain(self.now.keys()).collect();
        for path in paths {
            let version = std::str::from_utf8(path).map_or(Version::Now, choose);
            let entry = match version {
                Version::First => self.first.get(path),
                Version::Now => self.now.get(path),
                Version::Neither => None,
                Version::Content(content) => {
                    if let Some(entry) = self.now.get(path).or_else(|| self.first.get(path)) {
                        spend(content.len() as u64)?;
                        put(path, entry, &content)?;
                    }
                    None
                }
            };
            chosen.extend(entry.map(|entry| (path, entry)));
        }
        for batch in chosen.chunks(BATCH) {
            let ids: Vec<&str> = batch.iter().map(|(_, entry)| entry.id.as_str()).collect();
            for ((path, entry), content) in batch.iter().zip(self.contents(&ids)?) {
                spend(content.len() as u64)?;
                put(path, entry, &content)?;
            }
        }
        Ok(())
    }
}
