//! Bringing the index up to date with the folder, and no more than that.
//!
//! A folder whose stamp is the same has the same names; a file whose stamp is the same has the same text. A stamp that was taken within a tick of
//! a change is not believed. Few changes are read and kept beside the index; where there are more, or the folder is small, the index is
//! written anew, from itself and the files that changed.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rawko_core::memory::Memory;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};

use super::build::{Builder, folder_row};
use super::read::Index;
use super::{FOLDER, NAME, Watch};
use crate::memory::file::{self, Entry};
use crate::memory::folder::{self, Listing, Stamp};
use crate::memory::parallel;
use crate::memory::report::Report;
use crate::memory::store::ignore_derived;

/// Files that are looked at by one thread at a time.
const RUN: u32 = 1_024;
/// Files that are read before they are entered.
const BATCH: usize = 4_096;
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

/// A file that is there.
struct Item {
    folder: usize,
    name: String,
    /// Its number in the index, where that still holds.
    known: Option<u32>,
}

/// Reads the index, or makes it, and gives it with what `work` makes of it. It is kept only where the folder's `path` is given. `None` where
/// there is none and none can be made: then everything must be read.
///
/// The work is done while the files are looked at, and again where something has changed. Where a watch says that nothing did, they are not
/// looked at; the watch is kept for the next time.
pub(in crate::memory) fn current_while<R>(
    root: &OwnedFd,
    path: Option<&Path>,
    watch: &mut Option<Watch>,
    work: impl Fn(&Current) -> R,
) -> Option<(Current, R)> {
    let seen = now();
    let made = |current: Current| {
        let done = work(&current);
        (current, done)
    };
    let quiet = watch.take().and_then(|mut watch| watch.is_quiet(root.as_fd()).then_some(watch));
    let Some(index) = read(root) else { return make(root, path, seen, None).map(made) };
    let (dead, reports) = (vec![false; index.counts().files as usize], index.reports.clone());
    let unchanged = Current { index, dead, fresh: Vec::new(), reports };
    if quiet.is_some() {
        *watch = quiet;
        let done = work(&unchanged);
        return Some((unchanged, done));
    }
    // Before the look: what happens during it is either seen or told.
    let begun = Watch::begin(root, &unchanged.index.folders);
    let (changed, done) = changed(root, &unchanged.index, || work(&unchanged));
    if !changed.relist && changed.files.is_empty() {
        *watch = begun;
        return Some((unchanged, done));
    }
    bring_up(root, path, seen, unchanged.index, &changed).map(made)
}

/// Makes the index from the files alone: the one that is there is damaged.
pub(in crate::memory) fn remade(root: &OwnedFd, path: Option<&Path>) -> Option<Current> {
    make(root, path, now(), None)
}

/// What of the index does not hold.
struct Changed {
    /// Whether the names may be others.
    relist: bool,
    /// Files whose stamp is another, or cannot be trusted.
    files: Vec<u32>,
}

/// Looks at all folders and files on the other processors, and on this one too once `work` is done.
fn changed<R>(root: &OwnedFd, index: &Index, work: impl FnOnce() -> R) -> (Changed, R) {
    let mut relist = index.folders.is_empty()
        || index.reports.iter().any(|report| report.message.starts_with("cannot be read"));
    let mut runs: Vec<(usize, u32, u32)> = Vec::new();
    for (number, row) in index.folders.iter().enumerate() {
        let same = |folder: &OwnedFd| {
            folder::stamp_of(folder.as_fd())
                .is_ok_and(|stamp| folder_row("", stamp, false).stamp == row.stamp)
        };
        match folder::open_below(root.as_fd(), &row.path) {
            Ok(folder) => relist |= row.racy || !same(&folder),
            Err(_) => relist = true,
        }
        let mut first = row.first;
        while first < row.end {
            let end = row.end.min(first + RUN);
            runs.push((number, first, end));
            first = end;
        }
    }
    let look = |(number, first, end): &(usize, u32, u32)| {
        let path = index.folders.get(*number).map_or("", |row| row.path.as_str());
        let folder = folder::open_below(root.as_fd(), path).ok();
        (*first..*end)
            .filter(|id| !is_same(folder.as_ref().map(OwnedFd::as_fd), index, *id))
            .collect::<Vec<u32>>()
    };
    let (files, done) = parallel::while_working(&runs, look, work);
    let mut files: Vec<u32> = files.into_iter().flatten().collect();
    files.sort_unstable();
    (Changed { relist, files }, done)
}

fn is_same(folder: Option<BorrowedFd<'_>>, index: &Index, id: u32) -> bool {
    let (Some(folder), Some(Some(stamp)), Some(name)) = (folder, index.stamp(id), index.name(id)) else {
        return false;
    };
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file() && cut(Stamp::of(&stat)) == stamp)
}

/// A stamp as the index keeps it: a file of 4 GB and more is none.
fn cut(stamp: Stamp) -> Stamp {
    Stamp { size: stamp.size.min(u64::from(u32::MAX)), ..stamp }
}

fn bring_up(
    root: &OwnedFd,
    path: Option<&Path>,
    seen: i64,
    index: Index,
    changed: &Changed,
) -> Option<Current> {
    let total = index.counts().files as usize;
    let mut dead = vec![false; total];
    let mut moved = 0;
    for id in &changed.files {
        // A file that was only looked at too early is read again, and is the same most often.
        moved += usize::from(index.stamp(*id).flatten().is_some());
        *dead.get_mut(*id as usize)? = true;
    }
    let listing = folder::list(root.as_fd());
    let items = items(&index, &listing, &mut dead)?;
    let new = items.iter().filter(|item| item.known.is_none()).count();
    let gone = dead.iter().filter(|dead| **dead).count();
    let is_settling = moved == 0 && new == changed.files.len() && gone == new;
    if total <= SMALL || new + gone > MAX_BESIDE || is_settling {
        // One that is damaged after all is made from the files alone.
        return make(root, path, seen, Some((index, listing, items)))
            .or_else(|| make(root, path, seen, None));
    }
    let paths: Vec<(&str, &str)> = items
        .iter()
        .filter(|item| item.known.is_none())
        .map(|item| (listing.folders[item.folder].path.as_str(), item.name.as_str()))
        .collect();
    let (mut fresh, mut reports) = (Vec::new(), listing.reports.clone());
    for (path, entry, _) in read_entries(root, &paths) {
        reports.extend(entry.reports);
        fresh.extend(entry.header.map(|header| Memory { path, header }));
    }
    Some(Current { index, dead, fresh, reports })
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
            let is_known = at < end && index.name(at)? == name;
            if is_known {
                *alive.get_mut(at as usize)? = true;
            }
            let known = Some(at).filter(|at| is_known && !dead.get(*at as usize).copied().unwrap_or(true));
            items.push(Item { folder: number, name: name.clone(), known });
        }
    }
    for (dead, alive) in dead.iter_mut().zip(alive) {
        *dead |= !alive;
    }
    Some(items)
}

/// Writes the index anew, from what still holds of the old one and the files themselves.
fn make(
    root: &OwnedFd,
    path: Option<&Path>,
    seen: i64,
    old: Option<(Index, Listing, Vec<Item>)>,
) -> Option<Current> {
    // Before the folder is listed: making it changes the folder's stamp.
    let home = path.and_then(|path| home(root, path));
    let (old, listing, items) = match old {
        Some((index, listing, items)) => (Some(index), listing, items),
        None => {
            let listing = folder::list(root.as_fd());
            let names = listing.folders.iter().enumerate();
            let items = names
                .flat_map(|(folder, listed)| listed.names.iter().map(move |name| (folder, name.clone())))
                .map(|(folder, name)| Item { folder, name, known: None })
                .collect();
            (None, listing, items)
        }
    };
    let place = |home: &std::path::PathBuf| tempfile::Builder::new().prefix(".new-").tempfile_in(home).ok();
    let kept = home.and_then(|home| Some((place(&home)?, home.join(NAME))));
    // Nowhere to keep it: it serves this once.
    let (part, name) = match kept {
        Some((part, name)) => (part, Some(name)),
        None => (tempfile::NamedTempFile::new().ok()?, None),
    };
    let written = write(root, part.as_file(), seen, old.as_ref(), &listing, &items).ok()?;
    drop((old, items));
    match name {
        // One that cannot take its name serves this once, too.
        Some(name) => drop(part.persist(name)),
        None => drop(part),
    }
    let index = Index::open(written)?;
    let dead = vec![false; index.counts().files as usize];
    Some(Current { dead, fresh: Vec::new(), reports: listing.reports, index })
}

fn write(
    root: &OwnedFd,
    file: &File,
    seen: i64,
    old: Option<&Index>,
    listing: &Listing,
    items: &[Item],
) -> io::Result<File> {
    let mut builder = Builder::new(file.try_clone()?)?;
    let mut opened = 0;
    for batch in items.chunks(BATCH) {
        let unread: Vec<(&str, &str)> = batch
            .iter()
            .filter(|item| old.is_none() || item.known.is_none())
            .map(|item| (listing.folders[item.folder].path.as_str(), item.name.as_str()))
            .collect();
        let mut read = read_entries(root, &unread).into_iter();
        for item in batch {
            while opened <= item.folder {
                let folder = &listing.folders[opened];
                builder.folder(folder_row(&folder.path, folder.stamp, folder.stamp.is_racy(seen)));
                opened += 1;
            }
            let known = old.zip(item.known).map(|(old, id)| Some((old.entry(id)?, old.stamp(id)??, false)));
            let damaged = || io::Error::from(io::ErrorKind::InvalidData);
            let (entry, stamp, racy) = match known {
                Some(known) => known.ok_or_else(damaged)?,
                None => {
                    let (_, entry, stamp) = read.next().ok_or_else(damaged)?;
                    (entry, stamp, stamp.is_racy(seen))
                }
            };
            builder.file(&item.name, cut(stamp), racy, &entry)?;
        }
    }
    for folder in &listing.folders[opened..] {
        builder.folder(folder_row(&folder.path, folder.stamp, folder.stamp.is_racy(seen)));
    }
    builder.finish(listing.reports.clone())
}

/// Reads the front matter of files, given as folder and name.
pub(in crate::memory) fn read_entries(root: &OwnedFd, files: &[(&str, &str)]) -> Vec<(String, Entry, Stamp)> {
    parallel::in_runs(files, |files| {
        let mut read = Vec::with_capacity(files.len());
        let mut open: Option<(&str, Result<OwnedFd, rustix::io::Errno>)> = None;
        for (parent, name) in files {
            let path = if parent.is_empty() { (*name).to_owned() } else { format!("{parent}/{name}") };
            if open.as_ref().is_none_or(|(at, _)| at != parent) {
                open = Some((*parent, folder::open_below(root.as_fd(), parent)));
            }
            let (entry, stamp) = match &open {
                Some((_, Ok(folder))) => file::read_entry(folder.as_fd(), name, &path),
                _ => (Entry { header: None, reports: Vec::new() }, Stamp::default()),
            };
            read.push((path, entry, stamp));
        }
        read
    })
}

fn read(root: &OwnedFd) -> Option<Index> {
    let folder = folder::open_below(root.as_fd(), FOLDER).ok()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(openat(&folder, NAME, flags, Mode::empty()).ok()?);
    Index::open(file)
}

/// The folder of the index, made where it is not there; `None` where that is not possible, or would lead elsewhere.
fn home(root: &OwnedFd, path: &Path) -> Option<std::path::PathBuf> {
    let home = path.join(FOLDER);
    if folder::open_below(root.as_fd(), FOLDER).is_err() {
        ignore_derived(path).ok()?;
        fs::create_dir(&home).ok()?;
        folder::open_below(root.as_fd(), FOLDER).ok()?;
        // Never committed, also where the memories' folder has a `.gitignore` of somebody's own.
        fs::write(home.join(".gitignore"), "*\n").ok()?;
    }
    Some(home)
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
