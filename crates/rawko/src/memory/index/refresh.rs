//! Bringing the index up to date with the folder, and no more than that.
//!
//! A stamp that was taken within a tick of a change is not believed: the file is read again. Where it says what it said, its stamp alone is brought
//! up. Few changes among many memories are read and kept beside the index; where there are more, or the folder is small, the index is
//! written anew. While a [`Watch`] is quiet, neither the folder nor what is kept beside the index is looked at again.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rawko_core::memory::Memory;
use rustix::fs::{Mode, OFlags, openat};

use super::build::{FolderRow, Folders, Known, beyond, folder_row};
use super::look::{Changed, changed};
use super::make::{BATCH, Item, make, read_items, settle};
use super::read::Index;
use super::{FOLDER, NAME, Watch};
use crate::memory::effort::Effort;
use crate::memory::folder::{self, Listing, Stamp};
use crate::memory::report::Report;

/// Most changes that are kept beside the index.
const MAX_BESIDE: usize = 64;
/// Files up to which the index is always written anew: that is quick. (Tests would be slow with so many.)
const SMALL: usize = if cfg!(test) { 300 } else { 5_000 };

/// The index, and what changed since it was written.
pub(in crate::memory) struct Current {
    pub(super) index: Index,
    /// Which of its files are not as they were.
    pub(super) dead: Vec<bool>,
    /// Memories that are new or changed.
    pub(super) fresh: Vec<Memory>,
    /// About the folders, and about what is new or changed.
    pub(super) reports: Vec<Report>,
}

impl Current {
    pub(super) fn unchanged(index: Index) -> Self {
        let (dead, reports) = (vec![false; index.counts().files as usize], reports(&index, &index.reports));
        Self { index, dead, fresh: Vec::new(), reports }
    }
}

/// What was found out, and what tells whether it still holds: for the next time.
#[derive(Debug)]
pub(in crate::memory) struct Kept {
    watch: Watch,
    /// Of the index that this is kept beside.
    index: Stamp,
    dead: Vec<u32>,
    fresh: Vec<Memory>,
    reports: Vec<Report>,
}

impl Kept {
    fn new(watch: Watch, current: &Current) -> Option<Self> {
        let dead = (0..).zip(&current.dead).filter(|(_, dead)| **dead).map(|(id, _)| id).collect();
        let (fresh, reports) = (current.fresh.clone(), current.reports.clone());
        Some(Self { watch, index: current.index.own_stamp()?, dead, fresh, reports })
    }

    /// Whether nothing happened since.
    fn holds(&mut self, root: &OwnedFd, index: &Index) -> bool {
        index.own_stamp() == Some(self.index) && self.watch.is_quiet(root.as_fd())
    }

    /// What was found out.
    fn current(&self, index: Index) -> Current {
        let mut current = Current::unchanged(index);
        for id in &self.dead {
            if let Some(dead) = current.dead.get_mut(*id as usize) {
                *dead = true;
            }
        }
        Current { fresh: self.fresh.clone(), reports: self.reports.clone(), ..current }
    }
}

/// Reads the index, or makes it, and gives it with what `work` makes of it. It is kept only where the folder's `path` is given. `None` where
/// there is none and none can be made: then everything must be read.
///
/// The work is done while the files are looked at, and again where something has changed. Where what was `kept` still holds, they are not
/// looked at.
pub(in crate::memory) fn current_while<R>(
    root: &OwnedFd,
    path: Option<&Path>,
    kept: &mut Option<Kept>,
    work: impl Fn(&Current) -> R,
) -> Option<(Current, R)> {
    let seen = now();
    let made = |current: Current| {
        let done = work(&current);
        (current, done)
    };
    let before = kept.take();
    let Some(index) = read(root) else { return make(root, path, seen, None).map(made) };
    if let Some(mut before) = before
        && before.holds(root, &index)
    {
        let current = before.current(index);
        *kept = Some(before);
        return Some(made(current));
    }
    // Before the look: what happens during it is either seen or told.
    let watch = Watch::begin(root, index.folders.iter().map(|row| row.path.as_str()));
    let unchanged = Current::unchanged(index);
    let (changed, done) = changed(root, &unchanged.index, || work(&unchanged));
    if !changed.relist && changed.files.is_empty() {
        *kept = watch.and_then(|watch| Kept::new(watch, &unchanged));
        return Some((unchanged, done));
    }
    let (current, watch) = bring_up(root, path, seen, unchanged.index, &changed, watch)?;
    *kept = watch.and_then(|watch| Kept::new(watch, &current));
    Some(made(current))
}

/// Makes the index from the files alone: the one that is there is damaged.
pub(in crate::memory) fn remade(root: &OwnedFd, path: Option<&Path>) -> Option<Current> {
    make(root, path, now(), None)
}

/// What is so now, and the watch over it.
fn bring_up(
    root: &OwnedFd,
    path: Option<&Path>,
    seen: i64,
    index: Index,
    changed: &Changed,
    watch: Option<Watch>,
) -> Option<(Current, Option<Watch>)> {
    let (listing, watch) = list(root, &index, watch);
    let mut dead = vec![false; index.counts().files as usize];
    for id in &changed.files {
        *dead.get_mut(*id as usize)? = true;
    }
    let mut items = items(&index, &listing, &mut dead)?;
    let is_small = dead.len() <= SMALL;
    let unread = items.iter().filter(|item| !item.holds).count();
    let mut known = Vec::new();
    if unread <= BATCH {
        read_items(root, &listing, &mut items, &Effort::compiling());
        known = unchanged(&index, &mut items, &mut dead, seen);
    }
    let fresh = items.iter().filter(|item| !item.holds).count();
    let there = items.iter().filter(|item| item.id.is_some()).count();
    let changes = fresh + dead.len().saturating_sub(there);
    if changes == 0 {
        // Whether something is settled that was not, and whether it is much that is not as the index has it.
        let was_open = |id: &u32| !matches!(index.known(*id), Some(Known::By(_)));
        let is_worth = is_small || known.len() > MAX_BESIDE || known.iter().any(|(id, _)| was_open(id));
        let folders = rows(&index, &listing, seen);
        let reports = reports(&index, &folders.reports);
        let is_other = folders.folders != index.folders || folders.reports != index.reports;
        let settled = if is_other || (is_worth && !known.is_empty()) {
            settle(root, path, &index, &folders, &known)
        } else {
            None
        };
        let current = Current::unchanged(settled.unwrap_or(index));
        return Some((Current { reports, ..current }, watch));
    }
    if is_small || changes > MAX_BESIDE || known.len() > MAX_BESIDE {
        // One that is damaged after all is made from the files alone.
        let made =
            make(root, path, seen, Some((index, listing, items))).or_else(|| make(root, path, seen, None));
        return Some((made?, watch));
    }
    let (mut memories, mut reports) = (Vec::new(), reports(&index, &listing.reports));
    for item in items.into_iter().filter(|item| !item.holds) {
        let Some((entry, _)) = item.read.map(|read| *read) else { continue };
        let folder = listing.folders.get(item.folder).map_or("", |folder| folder.path.as_str());
        let path = folder::below(folder, &item.name);
        reports.extend(entry.reports);
        memories.extend(entry.header.map(|header| Memory { path, header }));
    }
    Some((Current { index, dead, fresh: memories, reports }, watch))
}

/// What is there, with a watch that began before it was listed.
fn list(root: &OwnedFd, index: &Index, watch: Option<Watch>) -> (Listing, Option<Watch>) {
    let listing = folder::list(root.as_fd());
    let is_new = |folder: &folder::Listed| index.folder(&folder.path).is_none();
    let new: Vec<&str> =
        listing.folders.iter().filter(|folder| is_new(folder)).map(|folder| folder.path.as_str()).collect();
    if new.is_empty() {
        return (listing, watch);
    }
    let Some(watch) = watch.and_then(|watch| watch.with(root, new.iter().copied())) else {
        return (listing, None);
    };
    // Once more: what happened before they were watched must be seen.
    let again = folder::list(root.as_fd());
    let is_watched =
        again.folders.iter().all(|folder| !is_new(folder) || new.contains(&folder.path.as_str()));
    (again, is_watched.then_some(watch))
}

/// The folders as they are now. A stamp that cannot be believed yet is not entered.
fn rows(index: &Index, listing: &Listing, seen: i64) -> Folders {
    let mut first = 0;
    let folders = listing.folders.iter().map(|folder| {
        let end = first + u32::try_from(folder.names.len()).unwrap_or_default();
        let racy = folder.stamp.is_racy(seen);
        let row = match index.folder(&folder.path) {
            Some(known) if racy => known.clone(),
            _ => folder_row(&folder.path, folder.stamp, racy),
        };
        let row = FolderRow { first, end, ..row };
        first = end;
        row
    });
    Folders {
        folders: folders.collect(),
        reports: listing.reports.clone(),
        is_partial: listing.is_partial,
        is_beyond: index.is_beyond,
    }
}

/// What is said of the folders, and of all expressions together.
fn reports(index: &Index, of_folders: &[Report]) -> Vec<Report> {
    of_folders.iter().cloned().chain(index.is_beyond.then(beyond)).collect()
}

/// Lets the index hold for files that were read again and say what they said; what is known of them now.
fn unchanged(index: &Index, items: &mut [Item], dead: &mut [bool], seen: i64) -> Vec<(u32, Known)> {
    let mut all = Vec::new();
    for item in items {
        let (Some(id), Some((entry, stamp))) = (item.id, item.read.as_deref()) else { continue };
        let Some(dead) = dead.get_mut(id as usize) else { continue };
        if index.entry(id).as_ref() != Some(entry) {
            continue;
        }
        let known = Known::of(*stamp, seen);
        if known != Known::Racy && index.known(id) != Some(known) {
            all.push((id, known));
        }
        *dead = false;
        item.holds = true;
    }
    all
}

/// The files that are there, each with its number in the index; what is in the index and not there is dead.
fn items(index: &Index, listing: &Listing, dead: &mut [bool]) -> Option<Vec<Item>> {
    let mut alive = vec![false; dead.len()];
    let mut items = Vec::new();
    for (number, folder) in listing.folders.iter().enumerate() {
        let row = index.folder(&folder.path);
        let (mut at, end) = row.map_or((0, 0), |row| (row.first, row.end));
        for name in &folder.names {
            // Both are sorted.
            while at < end && index.name(at)? < name.as_str() {
                at += 1;
            }
            let id = if at < end && index.name(at)? == name { Some(at) } else { None };
            if let Some(id) = id {
                *alive.get_mut(id as usize)? = true;
            }
            let holds = id.is_some_and(|id| !dead.get(id as usize).copied().unwrap_or(true));
            items.push(Item { folder: number, name: name.clone(), id, holds, read: None });
        }
    }
    for (dead, alive) in dead.iter_mut().zip(alive) {
        *dead |= !alive;
    }
    Some(items)
}

fn read(root: &OwnedFd) -> Option<Index> {
    let folder = folder::open_below(root.as_fd(), FOLDER).ok()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(openat(&folder, NAME, flags, Mode::empty()).ok()?);
    Index::open(file)
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
