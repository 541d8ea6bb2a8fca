//! Lands what a session did in a tree of its own: merges it with what others did in the project since the session began.
//!
//! It lands whole or not at all. What is about to be changed is written down first, so that a landing that was killed is
//! completed by the next call.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rawko_core::session::{Landing, LandingConflict, LandingEnd};
use rawko_tools::open_regular_below;
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use super::error::CheckpointError;
use super::listing::{self, MAX_FILE, TreePath};
use super::restore::shown;
use super::rewind::{RewindPlan, carry_out};
use super::scratch::Scratch;
use super::snapshot::{Snapshot, TreeEntry, TreeEntryKind, same};
use super::store::Store;
use super::{Checkpoints, END, kept_after, objects, own};

/// In a session's folder: a landing that was begun.
const LANDING: &str = "landing.json";
/// The longest record of a landing.
const LONGEST: u64 = 64 * 1024 * 1024;

/// What is about to be changed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LandingRecord {
    /// Names the tree that lands.
    tree: String,
    steps: Vec<LandingStep>,
    merged: Vec<String>,
    left: Vec<String>,
}

/// One path, as hexadecimal digits, with what was there and what will be.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LandingStep {
    path: String,
    before: Option<LandingEntry>,
    after: Option<LandingEntry>,
}

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LandingEntry {
    /// As git writes it.
    kind: String,
    id: String,
    mode: Option<u32>,
}

impl LandingEntry {
    fn of(entry: &TreeEntry) -> Self {
        Self { kind: entry.kind.mode().to_owned(), id: entry.id.clone(), mode: entry.mode }
    }

    fn entry(&self) -> TreeEntry {
        let kind = TreeEntryKind::of_mode(&self.kind).unwrap_or(TreeEntryKind::Folder);
        TreeEntry { kind, id: self.id.clone(), mode: self.mode }
    }
}

impl Checkpoints {
    /// Merges what the session did since execution `since` into the project. Files that others changed since are kept, and
    /// where both changed the same lines, nothing is changed.
    ///
    /// # Errors
    /// [`CheckpointError`]. After one, the next call completes what was begun.
    ///
    /// `None` if nothing was kept in that time: then nothing was changed, or nothing could be kept.
    pub(crate) fn land(&self, since: u32) -> Result<Option<Landing>, CheckpointError> {
        let store = self.store()?;
        let _lock = objects::lock(&store.folder)?;
        if let Some(landed) = self.complete_with(&store)? {
            return Ok(Some(landed));
        }
        let Some(merge) = Merge::of(&store, since)? else { return Ok(None) };
        if let Some(ended) = self.begin_landing(&merge)? {
            return Ok(Some(ended));
        }
        self.complete_with(&store)
    }

    /// Writes down what is about to be changed; or says why nothing is.
    pub(super) fn begin_landing(&self, merge: &Merge<'_>) -> Result<Option<Landing>, CheckpointError> {
        let (mut record, conflicts) = merge.plan()?;
        if !conflicts.is_empty() {
            return Ok(Some(Landing { conflicts, ..Landing::of(LandingEnd::Conflicts) }));
        }
        record.left = merge.left()?;
        if record.steps.is_empty() {
            return Ok(Some(Landing { left: record.left, ..Landing::of(LandingEnd::Nothing) }));
        }
        let content = serde_json::to_vec(&record).unwrap_or_default();
        own::write(&merge.store.folder, &self.directory.join(LANDING), &content)?;
        Ok(None)
    }

    /// Whether a landing was begun in the session's folder, and not completed.
    pub(crate) fn has_begun_landing(directory: &Path) -> bool {
        directory.join(LANDING).is_file()
    }

    /// Has a landing that was begun stay as far as it came.
    pub(crate) fn give_landing_up(&self) -> Result<(), CheckpointError> {
        own::remove(&self.directory.join(LANDING))
    }

    /// Whether the tree at the session's end was never kept.
    pub(crate) fn has_no_end(&self) -> bool {
        self.store().and_then(|store| store.names()).is_ok_and(|names| !names.contains_key(END))
    }

    fn complete_with(&self, store: &Store) -> Result<Option<Landing>, CheckpointError> {
        let place = self.directory.join(LANDING);
        let Some(text) = rawko_tools::text_of(&place, LONGEST) else { return Ok(None) };
        let read = serde_json::from_str::<LandingRecord>(&text);
        let record =
            read.map_err(|error| CheckpointError::io("cannot read", &place, std::io::Error::from(error)))?;
        let steps: BTreeMap<TreePath, &LandingStep> =
            record.steps.iter().filter_map(|step| Some((hex::decode(&step.path).ok()?, step))).collect();
        let now = present(store, &record.tree, steps.keys())?;
        let mut plan = RewindPlan::default();
        let mut landed =
            Landing { merged: record.merged, left: record.left, ..Landing::of(LandingEnd::Landed) };
        for (path, step) in &steps {
            let is = |entry: &Option<LandingEntry>| {
                let entry = entry.as_ref().map(LandingEntry::entry);
                // A folder that is there, or will be with what is in it.
                let is_there = entry.as_ref().is_some_and(|entry| entry.kind == TreeEntryKind::Folder)
                    && is_folder(store, path);
                is_there || same(now.get(path), entry.as_ref())
            };
            match &step.after {
                after if is(after) => {}
                // Somebody changed it since: that is not overwritten.
                _ if !is(&step.before) => {
                    landed.left.push(format!("{} (somebody changed it while it landed)", shown(path)));
                    continue;
                }
                Some(after) => drop(plan.put.insert(path.clone(), after.entry())),
                None => {
                    let kind = step.before.as_ref().map_or(TreeEntryKind::File, |entry| entry.entry().kind);
                    // Somebody has put something into a folder that the run removed.
                    if kind == TreeEntryKind::Folder && !is_empty(store, path) {
                        continue;
                    }
                    plan.take.insert(path.clone(), kind);
                }
            }
            let list = if step.after.is_some() { &mut landed.written } else { &mut landed.removed };
            list.push(shown(path));
        }
        let folders = steps.values().filter_map(|step| Some((step, step.after.as_ref()?)));
        let folders = folders.filter(|(_, after)| after.entry().kind == TreeEntryKind::Folder);
        plan.folders = folders.filter_map(|(step, _)| hex::decode(&step.path).ok()).collect();
        let done = carry_out(store, plan)?;
        if let Some((path, why)) = done.left_alone.into_iter().next() {
            let error = std::io::Error::other(format!("{}: {why}", shown(&path)));
            return Err(CheckpointError::io("cannot land all of it in", &store.place.project, error));
        }
        own::remove(&place)?;
        Ok(Some(landed))
    }
}

/// Three trees that become one.
pub(super) struct Merge<'a> {
    pub(super) store: &'a Store,
    pub(super) scratch: Scratch,
    /// Names the tree that the session began with, and that which it left.
    first: String,
    last: String,
    pub(super) began: Snapshot,
    pub(super) ended: Snapshot,
}

impl<'a> Merge<'a> {
    /// That of a session which kept something since execution `since`; `None` of one that did not.
    ///
    /// # Errors
    /// If the tree that it left was not kept, too.
    pub(super) fn of(store: &'a Store, since: u32) -> Result<Option<Self>, CheckpointError> {
        let mut names = store.names()?;
        let last = names.remove(END);
        let Some(first) = kept_after(since, names).into_values().next() else { return Ok(None) };
        let last = last.ok_or_else(|| CheckpointError::Unknown {
            session: store.session.clone(),
            asked: END.to_owned(),
            kept: vec![first.clone()],
        })?;
        Ok(Some(Self {
            store,
            scratch: store.objects().scratch_for(&last)?,
            began: store.kept_tree(&first)?.entries().clone(),
            ended: store.kept_tree(&last)?.entries().clone(),
            first,
            last,
        }))
    }

    /// What the session left that could not be kept, each with why.
    pub(super) fn left(&self) -> Result<Vec<String>, CheckpointError> {
        let before: BTreeSet<String> = self.store.not_kept(&self.first)?.into_iter().collect();
        let left = self.store.not_kept(&self.last)?.into_iter();
        Ok(left.filter(|line| !before.contains(line)).collect())
    }

    /// The paths that the session changed.
    pub(super) fn changed(&self) -> Vec<&TreePath> {
        let paths: BTreeSet<&TreePath> = self.began.keys().chain(self.ended.keys()).collect();
        paths.into_iter().filter(|path| !same(self.began.get(*path), self.ended.get(*path))).collect()
    }

    /// What has to be changed in the project, and what is in the way.
    fn plan(&self) -> Result<(LandingRecord, Vec<LandingConflict>), CheckpointError> {
        let changed = self.changed();
        let now = present(self.store, &self.last, changed.iter().copied())?;
        let mut record = LandingRecord { tree: self.last.clone(), ..LandingRecord::default() };
        let mut conflicts = Vec::new();
        for path in &changed {
            let (began, ended, present) = (self.began.get(*path), self.ended.get(*path), now.get(*path));
            // Empty folders are not listed.
            let folder = || is_folder(self.store, path);
            let is_unchanged = same(began, present)
                || began.is_some_and(|began| began.kind == TreeEntryKind::Folder) && present.is_none();
            let after = if is_unchanged {
                ended.cloned()
            } else if same(ended, present) {
                continue;
            } else {
                match self.merged(path, (began, ended, present))? {
                    Ok(entry) => {
                        record.merged.push(shown(path));
                        Some(entry)
                    }
                    Err(why) => {
                        conflicts.push(LandingConflict { path: shown(path), why: why.to_owned() });
                        continue;
                    }
                }
            };
            if ended.is_some_and(|ended| ended.kind == TreeEntryKind::Folder) && folder() {
                continue;
            }
            let before = present.or(began.filter(|entry| entry.kind == TreeEntryKind::Folder));
            record.steps.push(LandingStep {
                path: hex::encode(path),
                before: before.map(LandingEntry::of),
                after: after.as_ref().map(LandingEntry::of),
            });
        }
        conflicts.extend(self.in_the_way(&record));
        Ok((record, conflicts))
    }

    /// The content of both changes, or why there is none.
    fn merged(
        &self,
        path: &TreePath,
        (began, ended, present): (Option<&TreeEntry>, Option<&TreeEntry>, Option<&TreeEntry>),
    ) -> Result<Result<TreeEntry, &'static str>, CheckpointError> {
        let is_text =
            |entry: &&TreeEntry| matches!(entry.kind, TreeEntryKind::File | TreeEntryKind::Executable);
        let (ended, present) = match (ended, present) {
            (Some(ended), Some(present)) if is_text(&ended) && is_text(&present) => (ended, present),
            (None, _) => return Ok(Err("the run removed it, and it was changed here since")),
            (_, None) => return Ok(Err("the run changed it, and it was removed here since")),
            _ => return Ok(Err("the run and somebody else made different kinds of files of it")),
        };
        let (objects, was) = (self.store.objects(), began);
        let mut names = Vec::new();
        let kept = |entry: Option<&TreeEntry>| match entry {
            Some(entry) => Ok(objects.contents(&[&entry.id])?.pop().unwrap_or_default()),
            None => Ok(Vec::new()),
        };
        let began = kept(began.filter(is_text))?;
        for (name, content) in [("here", self.now(path)?), ("began", began), ("run", kept(Some(ended))?)] {
            let path = self.scratch.path().join(name);
            std::fs::write(&path, content)
                .map_err(|error| CheckpointError::io("cannot write", &path, error))?;
            names.push(path);
        }
        let ask = objects.read(&self.scratch, "merges").args(["merge-file", "-p", "-q"]).args(names);
        let Some(content) = ask.answer_if_any()? else {
            return Ok(Err("the run and somebody else changed the same lines"));
        };
        let id = objects.keep_content(&self.scratch, &content)?;
        // Who changed the rights wins.
        let is_unchanged = was.is_some_and(|was| was.kind == present.kind && was.mode == present.mode);
        let kept = if is_unchanged { ended } else { present };
        Ok(Ok(TreeEntry { kind: kept.kind, id, mode: kept.mode }))
    }

    /// The content of a file of the project, as it is now.
    fn now(&self, path: &TreePath) -> Result<Vec<u8>, CheckpointError> {
        let inside = Path::new(OsStr::from_bytes(path));
        let mut content = Vec::new();
        let read = open_regular_below(&self.store.place.project, inside)
            .and_then(|file| file.take(MAX_FILE).read_to_end(&mut content));
        read.map_err(|error| CheckpointError::io("cannot read", inside, error))?;
        Ok(content)
    }

    /// What is there now and would have to give way, though nobody knows of it.
    fn in_the_way(&self, record: &LandingRecord) -> Vec<LandingConflict> {
        let project = &self.store.place.project;
        let decoded = |step: &LandingStep| hex::decode(&step.path).ok();
        let removed: BTreeSet<TreePath> =
            record.steps.iter().filter(|step| step.after.is_none()).filter_map(decoded).collect();
        let mut conflicts = Vec::new();
        for path in record.steps.iter().filter_map(decoded) {
            let place = project.join(OsStr::from_bytes(&path));
            let folder = place.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok());
            let may_write = |folder: &Path| access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok();
            if folder.is_some_and(|folder| folder.is_dir() && !may_write(folder)) {
                let why = "you may not write in its folder";
                conflicts.push(LandingConflict { path: shown(&path), why: why.to_owned() });
            }
        }
        for step in record.steps.iter().filter(|step| step.after.is_some()) {
            let Some(path) = decoded(step) else { continue };
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
            for end in ends {
                let above = path.get(..end).unwrap_or_default();
                let place = project.join(OsStr::from_bytes(above));
                let is_file = place.symlink_metadata().is_ok_and(|found| !found.is_dir());
                if is_file && !removed.contains(above) {
                    let why = "it is no folder here, and the run has one in its place";
                    conflicts.push(LandingConflict { path: shown(&above.to_vec()), why: why.to_owned() });
                }
            }
            let is_file =
                step.after.as_ref().is_some_and(|after| after.entry().kind != TreeEntryKind::Folder);
            let place = project.join(OsStr::from_bytes(&path));
            let is_folder = place.symlink_metadata().is_ok_and(|found| found.is_dir());
            if is_file && is_folder && holds_others(&place, project, &removed) {
                let why = "it is a folder here with files of its own, and the run has a file in its place";
                conflicts.push(LandingConflict { path: shown(&path), why: why.to_owned() });
            }
        }
        conflicts.dedup();
        conflicts
    }
}

/// Whether a folder holds something that is not to be removed, or is empty and not to be removed itself.
fn holds_others(folder: &Path, project: &Path, removed: &BTreeSet<TreePath>) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return true };
    let is_removed = |path: &Path| {
        let inside = path.strip_prefix(project).map(|inside| inside.as_os_str().as_bytes().to_vec());
        inside.is_ok_and(|inside| removed.contains(&inside))
    };
    let mut is_empty = true;
    for entry in entries.filter_map(Result::ok) {
        is_empty = false;
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if if is_folder { holds_others(&path, project, removed) } else { !is_removed(&path) } {
            return true;
        }
    }
    is_empty && !is_removed(folder)
}

fn is_folder(store: &Store, path: &TreePath) -> bool {
    let place = store.place.project.join(OsStr::from_bytes(path));
    place.symlink_metadata().is_ok_and(|found| found.is_dir())
}

fn is_empty(store: &Store, path: &TreePath) -> bool {
    let place = store.place.project.join(OsStr::from_bytes(path));
    std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_none())
}

/// What is at these paths now.
fn present<'a>(
    store: &Store,
    like: &str,
    paths: impl Iterator<Item = &'a TreePath>,
) -> Result<Snapshot, CheckpointError> {
    let listing = listing::of_paths(&store.place.project, &store.never, paths)?;
    let mut present = store.present(like, &listing)?;
    for (path, entry) in &mut present {
        entry.mode = listing.files.get(path).copied().flatten();
    }
    // What cannot be read is there all the same, and is like nothing.
    for path in listing.skipped.into_keys() {
        present
            .insert(path, TreeEntry { kind: TreeEntryKind::File, id: "unreadable".to_owned(), mode: None });
    }
    Ok(present)
}
