//! Who changed what since a tree was kept: the session's executions and rewinds, or someone else.
//!
//! Kept trees are in the order in which they were kept. An execution's changes are the difference between the tree
//! before it and the tree after it. Changes between two executions are someone else's. After a rewind, even a killed
//! one, a file is as the rewind found it or as it was to restore it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::error::CheckpointError;
use super::listing::{TreeListing, TreePath};
use super::message::CommitMessage;
use super::snapshot::{Snapshot, TreeEntry, TreeEntryKind, same};
use super::store::Store;
use super::{Checkpoint, RESUMED, REWIND, number, order};

/// The one entry for all folders that hold something.
static FOLDER: TreeEntry = TreeEntry { kind: TreeEntryKind::Folder, id: String::new(), mode: None };

/// A tree with the permissions of its files and its empty folders, as far as they are known.
#[derive(Debug, Clone, Default)]
pub(super) struct WholeTree {
    entries: Snapshot,
    knows_folders: bool,
}

impl WholeTree {
    /// A kept tree; `message` says what git did not keep of it.
    pub(super) fn of(mut entries: Snapshot, message: &CommitMessage) -> Self {
        if let Some(modes) = &message.modes {
            for (path, entry) in entries.iter_mut().filter(|(_, entry)| entry.kind != TreeEntryKind::Link) {
                entry.mode = Some(modes.of_file(path, entry.kind == TreeEntryKind::Executable));
            }
        }
        let folders = message.folders.iter().flatten();
        entries.extend(folders.map(|path| (path.clone(), FOLDER.clone())));
        Self { entries, knows_folders: message.folders.is_some() }
    }

    /// The tree as it is now.
    pub(super) fn present(mut entries: Snapshot, listing: &TreeListing, folders: BTreeSet<TreePath>) -> Self {
        for (path, entry) in &mut entries {
            entry.mode = listing.files.get(path).copied().flatten();
        }
        entries.extend(folders.into_iter().map(|path| (path, FOLDER.clone())));
        Self { entries, knows_folders: true }
    }

    /// What the tree holds for itself: files, links and empty folders.
    pub(super) fn entries(&self) -> &Snapshot {
        &self.entries
    }

    /// What is at a path: also a folder that holds something.
    pub(super) fn at(&self, path: &[u8]) -> Option<&TreeEntry> {
        self.entries.get(path).or_else(|| {
            let below = [path, b"/"].concat();
            let next = self.entries.range(below.clone()..).next();
            next.is_some_and(|(next, _)| next.starts_with(&below)).then_some(&FOLDER)
        })
    }

    fn forget_folders(&mut self) {
        self.entries.retain(|_, entry| entry.kind != TreeEntryKind::Folder);
    }
}

/// What a path has gone through since the tree was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeAuthor {
    /// The session alone changed it.
    BySession,
    /// Someone else changed it, and the session did not.
    ByOthers,
    /// Both the session and someone else changed it.
    ByBoth,
    /// It was changed after the last sign of a session that was killed.
    Unclear,
}

/// A kept tree, everything that happened since, and the tree as it is now.
#[derive(Debug)]
pub(super) struct History {
    pub(super) target: WholeTree,
    works: Vec<Work>,
    pub(super) present: WholeTree,
    project: PathBuf,
    /// When the session was last seen to work, in milliseconds since 1970.
    last_sign: Option<u64>,
}

/// An execution, or a rewind.
#[derive(Debug)]
struct Work {
    before: WholeTree,
    after: After,
}

#[derive(Debug)]
enum After {
    /// This.
    Tree(WholeTree),
    /// What was there before, or what this tree has.
    Restored(WholeTree),
    /// This tree when the session was last seen working, before it was killed. Who made the changes that the next
    /// session found is not known.
    Killed(WholeTree),
    /// What the next one found.
    Next,
    /// Not known, because the session was killed.
    Unknown,
}

impl History {
    /// What happened after `to` was kept, of everything that was `kept`; where the `present` is that of a kept tree, only
    /// `until` then.
    pub(super) fn since(
        store: &Store,
        kept: &[Checkpoint],
        (to, until): (&Checkpoint, Option<&Checkpoint>),
        present: WholeTree,
        last_sign: Option<u64>,
    ) -> Result<Self, CheckpointError> {
        let messages = store.messages(kept)?;
        // Rewinds restore the same trees again and again.
        let mut known: BTreeMap<String, WholeTree> = BTreeMap::new();
        let mut tree = |id: &str| {
            if let Some(known) = known.get(id) {
                return Ok(known.clone());
            }
            let message = messages.get(id).cloned().unwrap_or_default();
            let tree = WholeTree::of(store.snapshot(id)?, &message);
            known.insert(id.to_owned(), tree.clone());
            Ok(tree)
        };
        let mut in_time = in_time(kept, &messages);
        if let Some(end) = until.and_then(|until| in_time.iter().position(|kept| kept.name == until.name)) {
            in_time.truncate(end + 1);
        }
        let from = in_time.iter().position(|kept| kept.name == to.name).unwrap_or_default();
        let mut works = Vec::new();
        let begun =
            |kept: &Checkpoint| is_work(&kept.name) && until.is_none_or(|until| kept.name != until.name);
        for (at, kept) in in_time.iter().enumerate().skip(from).filter(|(_, kept)| begun(kept)) {
            let Some(before) = unless_gone(tree(&kept.id))? else { continue };
            let next = in_time.get(at + 1);
            let (seen, otherwise) = if kept.name.starts_with(REWIND) {
                (messages.get(&kept.id).and_then(|message| message.to.as_deref()), After::Next)
            } else {
                let seen = next.filter(|next| !is_work(&next.name)).map(|next| next.id.as_str());
                (seen, next.map_or(After::Unknown, |_| After::Next))
            };
            let after = match seen.map(&mut tree).map_or(Ok(None), unless_gone)? {
                Some(tree) if kept.name.starts_with(REWIND) => After::Restored(tree),
                Some(tree) if seen.is_some_and(|id| messages.get(id).is_some_and(|it| it.killed)) => {
                    After::Killed(tree)
                }
                Some(tree) => After::Tree(tree),
                None => otherwise,
            };
            works.push(Work { before, after });
        }
        let project = store.place.project.clone();
        let mut history = Self { target: tree(&to.id)?, works, present, project, last_sign };
        let trees = || history.trees();
        if !trees().all(|tree| tree.knows_folders) {
            history.trees_mut().for_each(WholeTree::forget_folders);
        }
        Ok(history)
    }

    fn trees(&self) -> impl Iterator<Item = &WholeTree> {
        let works = self.works.iter().flat_map(|work| {
            let after = match &work.after {
                After::Tree(tree) | After::Restored(tree) | After::Killed(tree) => Some(tree),
                After::Next | After::Unknown => None,
            };
            std::iter::once(&work.before).chain(after)
        });
        [&self.target, &self.present].into_iter().chain(works)
    }

    fn trees_mut(&mut self) -> impl Iterator<Item = &mut WholeTree> {
        let works = self.works.iter_mut().flat_map(|work| {
            let after = match &mut work.after {
                After::Tree(tree) | After::Restored(tree) | After::Killed(tree) => Some(tree),
                After::Next | After::Unknown => None,
            };
            std::iter::once(&mut work.before).chain(after)
        });
        [&mut self.target, &mut self.present].into_iter().chain(works)
    }

    /// Every path at which the tree as it is now differs from the kept one.
    pub(super) fn differences(&self) -> BTreeSet<TreePath> {
        let paths: BTreeSet<&TreePath> =
            self.target.entries.keys().chain(self.present.entries.keys()).collect();
        let differs = |path: &&TreePath| !same(self.target.at(path), self.present.at(path));
        paths.into_iter().filter(differs).cloned().collect()
    }

    /// Who changed what is at `path`.
    pub(super) fn changed(&self, path: &[u8]) -> ChangeAuthor {
        let wanted = self.target.at(path);
        let found = |at: usize| self.works.get(at).map_or(&self.present, |work| &work.before).at(path);
        // What someone else left there last.
        let mut others = if same(wanted, found(0)) { None } else { Some(found(0)) };
        let (mut by_session, mut unclear) = (false, false);
        for (at, work) in self.works.iter().enumerate() {
            let (before, next) = (work.before.at(path), found(at + 1));
            let after = match &work.after {
                After::Tree(tree) | After::Killed(tree) => tree.at(path),
                After::Restored(tree) if same(tree.at(path), next) => next,
                After::Restored(_) => before,
                After::Next => next,
                After::Unknown => {
                    unclear |= !same(before, next) && !self.is_of_session(path);
                    next
                }
            };
            by_session |= !same(before, after);
            match &work.after {
                _ if same(after, next) => {}
                After::Killed(_) => unclear |= !same(next, wanted),
                After::Tree(_) | After::Restored(_) | After::Next | After::Unknown => others = Some(next),
            }
        }
        // What someone else left there is lost only if the rewind restores something different.
        match others {
            _ if unclear => ChangeAuthor::Unclear,
            Some(left) if !same(left, wanted) && by_session => ChangeAuthor::ByBoth,
            Some(left) if !same(left, wanted) => ChangeAuthor::ByOthers,
            Some(_) | None => ChangeAuthor::BySession,
        }
    }

    /// Whether the latest thing that happened was a rewind.
    pub(super) fn ends_with_rewind(&self) -> bool {
        matches!(self.works.last(), Some(Work { after: After::Restored(_), .. }))
    }

    /// What has changed since the session was last seen to work, each with what was there then; `None` if it was not
    /// killed.
    pub(super) fn since_killed(&self) -> Option<BTreeMap<TreePath, Option<TreeEntry>>> {
        let Work { before, after: After::Unknown } = self.works.last()? else { return None };
        let paths: BTreeSet<&TreePath> = before.entries.keys().chain(self.present.entries.keys()).collect();
        let by_others =
            |path: &&TreePath| !same(before.at(path), self.present.at(path)) && !self.is_of_session(path);
        let paths = paths.into_iter().filter(by_others);
        Some(paths.map(|path| (path.clone(), before.entries.get(path).cloned())).collect())
    }

    /// Whether a change must have happened while the session, which was killed, was seen to work.
    fn is_of_session(&self, path: &[u8]) -> bool {
        let Some(last_sign) = self.last_sign else { return true };
        let changed = |path: &Path| {
            let found = path.symlink_metadata().ok()?;
            let ms = found.ctime().checked_mul(1_000)?.checked_add(found.ctime_nsec() / 1_000_000)?;
            u64::try_from(ms).ok()
        };
        let path = self.project.join(OsStr::from_bytes(path));
        // For a file that is gone, the folder's time says when it last lost or got an entry.
        let known = path.ancestors().take_while(|path| path.starts_with(&self.project)).find_map(changed);
        known.is_some_and(|at| at <= last_sign)
    }
}

/// Whether a tree was kept because something was about to change it; else because that was over.
pub(super) fn is_work(name: &str) -> bool {
    number(name).is_some() || name.starts_with(REWIND) || name.starts_with(RESUMED)
}

/// The kept trees, in the order in which they were kept.
pub(super) fn in_time<'a>(
    kept: &'a [Checkpoint],
    messages: &BTreeMap<String, CommitMessage>,
) -> Vec<&'a Checkpoint> {
    let at = |kept: &Checkpoint| messages.get(&kept.id).and_then(|message| message.at).unwrap_or_default();
    let mut in_time: Vec<&Checkpoint> = kept.iter().collect();
    in_time.sort_by_key(|kept| (at(kept), order(&kept.name)));
    in_time
}

/// A tree that is lost says nothing.
fn unless_gone(tree: Result<WholeTree, CheckpointError>) -> Result<Option<WholeTree>, CheckpointError> {
    match tree {
        Ok(tree) => Ok(Some(tree)),
        Err(CheckpointError::Gone { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
