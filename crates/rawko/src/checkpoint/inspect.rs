//! Measures for the arbiter what the run has changed in the tree, after each execution that may have changed it.
//!
//! Owns the name of the present tree, which shows whether it changed between two looks, and the figures of a
//! difference. It keeps no tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rawko_core::facts::{DiffStat, TreeInspection, runs_later};
use rawko_core::text::{keep_ends, truncate};

use super::Checkpoints;
use super::diff::{self, ChangeKind, DiffDetail, FileChange};
use super::error::CheckpointError;
use super::gaps::Gaps;
use super::listing::{TreeListing, TreePath};
use super::objects::Objects;
use super::scratch::Scratch;
use super::store::Store;

/// Files that are named with their figures.
pub(super) const NAMED: usize = 20;
/// Files of a run that are listed by their paths alone.
pub(super) const LISTED: usize = 1_000;
/// The same for one execution.
pub(super) const LISTED_OF_EXECUTION: usize = 100;
/// Bytes of the patch of a run.
const PATCH_BYTES: usize = 12_000;
/// Most characters of a path that are shown.
const NAME_LENGTH: usize = 200;

impl Checkpoints {
    /// Names the tree as it is now: equal content has equal names, and nothing else has. Ignored files
    /// and what is too large to be kept are no part of it.
    ///
    /// # Errors
    /// If git cannot be asked, or there is too much to be read.
    pub fn tree(&self) -> Result<String, CheckpointError> {
        let store = self.store()?;
        let listing = store.list(&BTreeSet::new())?;
        Present::of(&store, &listing).map(|present| present.tree)
    }

    /// Compares the tree as it is now with what was kept before execution `iteration`, and with what was kept before
    /// the task's first change.
    ///
    /// # Errors
    /// [`CheckpointError::Unknown`] where nothing was kept for it, [`CheckpointError::Gone`] where that is lost.
    pub fn inspect(&self, iteration: u32) -> Result<TreeInspection, CheckpointError> {
        let store = self.store()?;
        self.look(&store, &store.names()?, iteration).map(|(seen, _)| seen)
    }

    /// The same, with the paths of the files that are compared. `names`: all kept trees.
    pub(super) fn look(
        &self,
        store: &Store,
        names: &BTreeMap<String, String>,
        iteration: u32,
    ) -> Result<(TreeInspection, BTreeSet<TreePath>), CheckpointError> {
        let kept = self.of_this_task(names.clone());
        let Some(before) = kept.get(&iteration) else {
            return Err(CheckpointError::Unknown {
                session: self.session.clone(),
                asked: iteration.to_string(),
                kept: kept.keys().map(u32::to_string).collect(),
            });
        };
        let listing = store.list(&BTreeSet::new())?;
        let present = Present::of(store, &listing)?;
        let execution = present.changed_by_session(before, &iteration.to_string(), names)?;
        let run = match kept.iter().next() {
            Some((number, first)) if first != before => {
                Some(present.changed_by_session(first, &number.to_string(), names)?)
            }
            Some(_) | None => None,
        };
        let paths =
            |files: &[FileChange], most| files.iter().take(most).map(|file| file.path.clone()).collect();
        let all = run.as_ref().unwrap_or(&execution);
        let files: Vec<String> = paths(all, LISTED);
        let later = all.iter().filter(|file| file.kind != ChangeKind::Deleted && runs_later(&file.path));
        let runs_later: Vec<String> = later.take(LISTED).map(|file| file.path.clone()).collect();
        let execution_files = paths(&execution, LISTED_OF_EXECUTION);
        let patch = present.patch_since(kept.values().next().unwrap_or(before), files.len());
        let (execution, run) = (figures(&execution), run.as_deref().map(figures));
        let seen = TreeInspection {
            patch,
            tree: present.tree,
            run: run.unwrap_or_else(|| execution.clone()),
            execution,
            files,
            execution_files,
            runs_later,
            outside: None,
        };
        Ok((seen, listing.files.into_keys().collect()))
    }
}

/// The tree as it is now, written where nothing else reads it.
struct Present<'a> {
    store: &'a Store,
    objects: Objects<'a>,
    scratch: Scratch,
    /// Names it.
    tree: String,
}

impl<'a> Present<'a> {
    fn of(store: &'a Store, listing: &TreeListing) -> Result<Self, CheckpointError> {
        let objects = store.objects();
        let scratch = Scratch::new(objects.format(), &store.place.project)?;
        let tree = store.tree_now(&objects, &scratch, listing)?;
        Ok(Self { store, objects, scratch, tree })
    }

    /// What is different from the tree `id`, which was kept under `name`, without what somebody else changed since.
    fn changed_by_session(
        &self,
        id: &str,
        name: &str,
        names: &BTreeMap<String, String>,
    ) -> Result<Vec<FileChange>, CheckpointError> {
        let mut files = self.since(id)?;
        // What a killed command may have done is listed: nothing that the session changed may be missing.
        let gaps = Gaps::since(self.store, names, name, &self.tree)?.certain();
        if files.is_empty() || gaps.is_empty() {
            return Ok(files);
        }
        let (began, now) = (self.store.snapshot(id)?, self.objects.files(&self.scratch, &self.tree)?);
        let is_by_others = |path: &str| gaps.explain(&began, &now, path.as_bytes());
        files.retain(|file| {
            let mut paths = std::iter::once(&file.path).chain(&file.from);
            !paths.all(|path| is_by_others(path))
        });
        Ok(files)
    }

    /// The difference from the kept tree `id` as a patch, if that is of so many files: else others changed some.
    fn patch_since(&self, id: &str, files: usize) -> Option<String> {
        if files == 0 || self.since(id).ok()?.len() != files {
            return None;
        }
        let patch = diff::patch(&self.objects, &self.scratch, id, &self.tree, DiffDetail::Lines).ok()?;
        // The first line of the answer may name the tree.
        Some(keep_ends(&String::from_utf8_lossy(&patch), PATCH_BYTES))
    }

    /// What is different from the kept tree `id`.
    fn since(&self, id: &str) -> Result<Vec<FileChange>, CheckpointError> {
        let files = diff::files(&self.objects, &self.scratch, id, &self.tree);
        let mut files = files.map_err(|error| self.objects.gone(id, error))?;
        // What is still there has not been removed: it is ignored since.
        let project = &self.store.place.project;
        files.retain(|file| file.kind != ChangeKind::Deleted || !is_there(project, &file.path));
        Ok(files)
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
pub(super) fn one_line(path: &str) -> String {
    let plain: String =
        path.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
    truncate(&plain, NAME_LENGTH)
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
}
