//! What the run has done to the tree so far, in figures: for the arbiter, after each execution that may have changed it.
//!
//! Owns the name of a tree as it is, by which two looks at it can be told apart, and how differences are put in
//! figures. Nothing is kept here, and no line of a patch is made: this is done once for every execution.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rawko_core::facts::{DiffStat, TreeInspection};
use rawko_core::text::truncate;

use super::copies::is_copy;
use super::diff::{self, ChangeKind, FileChange};
use super::error::CheckpointError;
use super::listing::{Listing, TreePath};
use super::objects::Objects;
use super::scratch::Scratch;
use super::snapshot::Snapshot;
use super::store::{Store, of_snapshots};
use super::{Checkpoints, number};

/// Files that are named with their figures.
const NAMED: usize = 20;
/// Most characters of a path that are shown.
const NAME_LENGTH: usize = 200;
/// Without git: files whose lines are counted, and the largest of them.
const COUNTED: usize = 500;
const COUNTED_BYTES: u64 = 1024 * 1024;

impl Checkpoints {
    /// Names the tree as it is now: equal content has equal names, and nothing else has. Ignored files, repositories inside
    /// it and files that are too large to be kept are no part of it.
    ///
    /// # Errors
    /// If git cannot be asked, or there is too much to be read.
    pub fn tree(&self) -> Result<String, CheckpointError> {
        let store = self.store()?;
        let listing = store.list(&BTreeSet::new())?;
        Present::of(&store, &listing).map(|present| present.name())
    }

    /// Compares the tree as it is now with what was kept before execution `iteration`, and with what was kept before
    /// the session's first change.
    ///
    /// # Errors
    /// [`CheckpointError::Unknown`] where nothing was kept for it, [`CheckpointError::Gone`] where that is lost.
    pub fn inspect(&self, iteration: u32) -> Result<TreeInspection, CheckpointError> {
        let store = self.store()?;
        let names = store.names()?;
        let kept: BTreeMap<u32, &String> =
            names.iter().filter_map(|(name, id)| Some((number(name)?, id))).collect();
        let Some(before) = kept.get(&iteration) else {
            return Err(CheckpointError::Unknown {
                session: self.session.clone(),
                asked: iteration.to_string(),
                kept: kept.keys().map(u32::to_string).collect(),
            });
        };
        let listing = store.list(&BTreeSet::new())?;
        let present = Present::of(&store, &listing)?;
        let execution = present.since(before)?;
        let run = match kept.values().next() {
            Some(first) if first != before => present.since(first)?,
            Some(_) | None => execution.clone(),
        };
        Ok(TreeInspection { tree: present.name(), execution, run })
    }
}

/// The tree as it is now, in the form in which this session keeps trees.
enum Present<'a> {
    Objects { store: &'a Store, objects: Objects<'a>, scratch: Scratch, tree: String },
    Copies { store: &'a Store, snapshot: Snapshot },
}

impl<'a> Present<'a> {
    fn of(store: &'a Store, listing: &Listing) -> Result<Self, CheckpointError> {
        let Some(objects) = store.objects() else {
            return Ok(Self::Copies { store, snapshot: store.copies().present(listing)? });
        };
        let scratch = Scratch::new(objects.format())?;
        let tree = store.tree_now(&objects, &scratch, listing)?;
        Ok(Self::Objects { store, objects, scratch, tree })
    }

    fn name(&self) -> String {
        match self {
            Self::Objects { tree, .. } => tree.clone(),
            Self::Copies { store, snapshot } => store.copies().name_of(snapshot),
        }
    }

    /// What is different from the kept tree `id`.
    fn since(&self, id: &str) -> Result<DiffStat, CheckpointError> {
        let (mut files, project) = match self {
            Self::Objects { store, objects, scratch, tree } if !is_copy(id) => {
                let files = diff::files(objects, scratch, id, tree);
                (files.map_err(|error| objects.gone(id, error))?, &store.place.project)
            }
            Self::Copies { store, snapshot } if is_copy(id) => {
                (counted(store, &store.snapshot(id)?, snapshot), &store.place.project)
            }
            Self::Objects { store, .. } | Self::Copies { store, .. } => {
                return Err(CheckpointError::Gone { id: id.to_owned(), store: store.folder.clone() });
            }
        };
        // What is still there has not been removed: it is ignored since.
        files.retain(|file| file.kind != ChangeKind::Deleted || !is_there(project, &file.path));
        Ok(figures(&files))
    }
}

fn is_there(project: &Path, path: &str) -> bool {
    project.join(path).symlink_metadata().is_ok_and(|found| !found.is_dir())
}

fn figures(files: &[FileChange]) -> DiffStat {
    let sum = |count: fn(&FileChange) -> Option<u64>| files.iter().filter_map(count).sum();
    DiffStat {
        files: u32::try_from(files.len()).unwrap_or(u32::MAX),
        insertions: sum(|file| file.added),
        deletions: sum(|file| file.removed),
        names: files.iter().take(NAMED).map(named).collect(),
    }
}

fn named(file: &FileChange) -> String {
    let path = one_line(&file.path);
    let lines = match (file.added, file.removed) {
        (Some(added), Some(removed)) => format!("+{added} -{removed}"),
        (Some(_) | None, _) => "(not text)".to_owned(),
    };
    let how = match (file.kind, &file.from) {
        (ChangeKind::Added, _) => " (new)".to_owned(),
        (ChangeKind::Deleted, _) => " (deleted)".to_owned(),
        (ChangeKind::Renamed, Some(from)) => format!(" (was {})", one_line(from)),
        (ChangeKind::Modified | ChangeKind::Retyped | ChangeKind::Renamed, _) => String::new(),
    };
    format!("{path} {lines}{how}")
}

/// A name may hold anything, line ends and control characters included.
fn one_line(path: &str) -> String {
    let plain: String =
        path.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    truncate(&plain, NAME_LENGTH)
}

/// What differs between two trees of copies, with lines counted where that is not too much.
fn counted(store: &Store, before: &Snapshot, after: &Snapshot) -> Vec<FileChange> {
    let mut files = of_snapshots(before, after);
    let copies = store.copies();
    let path_of: BTreeMap<String, &TreePath> =
        before.keys().chain(after.keys()).map(|path| (super::restore::shown(path), path)).collect();
    for file in files.iter_mut().take(COUNTED) {
        let Some(path) = path_of.get(&file.path) else { continue };
        let sizes = [before.get(*path), after.get(*path)];
        if sizes.iter().flatten().any(|entry| entry.size > COUNTED_BYTES) {
            continue;
        }
        let old = before.get(*path).map_or(Ok(Vec::new()), |entry| copies.content(&entry.id));
        let new = if after.contains_key(*path) { copies.present_content(path) } else { Some(Vec::new()) };
        if let (Ok(old), Some(new)) = (old, new)
            && let (Ok(old), Ok(new)) = (String::from_utf8(old), String::from_utf8(new))
        {
            let (added, removed) = line_counts(&old, &new);
            (file.added, file.removed) = (Some(added), Some(removed));
        }
    }
    files
}

/// How many lines are new and how many gone. A line that only went elsewhere is neither.
fn line_counts(old: &str, new: &str) -> (u64, u64) {
    let mut lines: BTreeMap<&str, i64> = BTreeMap::new();
    for line in old.lines() {
        *lines.entry(line).or_default() -= 1;
    }
    for line in new.lines() {
        *lines.entry(line).or_default() += 1;
    }
    let sum = |sign: i64| lines.values().map(|count| (count * sign).max(0).unsigned_abs()).sum();
    (sum(1), sum(-1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_line_and_bounded() {
        let file = |path: &str, kind, added, removed| FileChange {
            path: path.to_owned(),
            from: None,
            kind,
            added,
            removed,
        };
        let check = |file: FileChange, expected: &str| assert_eq!(named(&file), expected);
        check(file("src/lib.rs", ChangeKind::Modified, Some(12), Some(3)), "src/lib.rs +12 -3");
        check(
            file("a\nb\u{1b}[2J", ChangeKind::Added, Some(1), Some(0)),
            "a\u{fffd}b\u{fffd}[2J +1 -0 (new)",
        );
        check(file("logo", ChangeKind::Modified, None, None), "logo (not text)");
        let moved = FileChange {
            from: Some("old\r".to_owned()),
            ..file("new", ChangeKind::Renamed, Some(0), Some(0))
        };
        check(moved, "new +0 -0 (was old\u{fffd})");
        let long = file(&"ü".repeat(5_000), ChangeKind::Modified, Some(1), Some(1));
        assert!(named(&long).chars().count() < NAME_LENGTH + 20);
        let many: Vec<FileChange> =
            (0..50).map(|at| file(&at.to_string(), ChangeKind::Added, Some(2), Some(0))).collect();
        let figures = figures(&many);
        assert_eq!((figures.files, figures.insertions, figures.names.len()), (50, 100, NAMED));
    }

    #[test]
    fn lines_are_counted() {
        assert_eq!(line_counts("", ""), (0, 0));
        assert_eq!(line_counts("a\nb\n", "a\nc\nd\n"), (2, 1));
        assert_eq!(line_counts("a\na\nb\n", "b\na\n"), (0, 1));
    }
}
