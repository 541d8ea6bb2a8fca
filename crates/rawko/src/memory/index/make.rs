//! Writing the index: anew, from what still holds of the old one and the files themselves, or with other stamps alone.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::build::{Builder, Folders, Known, folder_row};
use super::read::Index;
use super::{Current, FOLDER, NAME};
use crate::memory::effort::Effort;
use crate::memory::file::{self, Entry};
use crate::memory::folder::{self, Listing, Stamp};
use crate::memory::parallel;
use crate::memory::store::ignore_derived;

/// Files that are read before they are entered.
pub(super) const BATCH: usize = 4_096;

/// A file that is there.
pub(super) struct Item {
    /// The number of its folder in the listing.
    pub(super) folder: usize,
    pub(super) name: String,
    /// The number of the file of this name in the index.
    pub(super) id: Option<u32>,
    /// Whether the index still holds for it.
    pub(super) holds: bool,
    /// What it says, where it was read already.
    pub(super) read: Option<Box<(Entry, Option<Stamp>)>>,
}

/// Writes the index anew, from what still holds of the old one and the files themselves.
pub(super) fn make(
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
                .map(|(folder, name)| Item { folder, name, id: None, holds: false, read: None })
                .collect();
            (None, listing, items)
        }
    };
    let kept = home.and_then(|home| Some((part(&home)?, home.join(NAME))));
    // Nowhere to keep it: it serves this once.
    let (part, name) = match kept {
        Some((part, name)) => (part, Some(name)),
        None => (NamedTempFile::new().ok()?, None),
    };
    let written = write(root, part.as_file(), seen, old.as_ref(), &listing, items).ok()?;
    drop(old);
    match name {
        // One that cannot take its name serves this once, too.
        Some(name) => drop(part.persist(name)),
        None => drop(part),
    }
    Index::open(written).map(Current::unchanged)
}

/// Writes the index with other folders and stamps, and everything else as it is. `None` where it cannot be kept: then there is no need to.
pub(super) fn settle(
    root: &OwnedFd,
    path: Option<&Path>,
    index: &Index,
    folders: &Folders,
    known: &[(u32, Known)],
) -> Option<Index> {
    let home = home(root, path?)?;
    let part = part(&home)?;
    let written = index.copied(part.as_file().try_clone().ok()?, folders, known).ok()?;
    part.persist(home.join(NAME)).ok()?;
    Index::open(written)
}

fn part(home: &Path) -> Option<NamedTempFile> {
    tempfile::Builder::new().prefix(".new-").tempfile_in(home).ok()
}

fn write(
    root: &OwnedFd,
    file: &File,
    seen: i64,
    old: Option<&Index>,
    listing: &Listing,
    mut items: Vec<Item>,
) -> io::Result<File> {
    let mut builder = Builder::new(file.try_clone()?)?;
    let effort = Effort::compiling();
    let mut opened = 0;
    for batch in items.chunks_mut(BATCH) {
        read_items(root, listing, batch, &effort);
        for item in batch {
            while opened <= item.folder {
                let folder = &listing.folders[opened];
                builder.folder(folder_row(&folder.path, folder.stamp, folder.stamp.is_racy(seen)));
                opened += 1;
            }
            let damaged = || io::Error::from(io::ErrorKind::InvalidData);
            let (entry, known) = match item.read.take().map(|read| *read) {
                Some((entry, stamp)) => (entry, Known::of(stamp, seen)),
                None => old
                    .zip(item.id)
                    .and_then(|(old, id)| Some((old.entry(id)?, old.known(id)?)))
                    .ok_or_else(damaged)?,
            };
            builder.file(&item.name, known, &entry)?;
        }
    }
    for folder in &listing.folders[opened..] {
        builder.folder(folder_row(&folder.path, folder.stamp, folder.stamp.is_racy(seen)));
    }
    builder.finish(listing)
}

/// Reads those of which the index does not hold, unless they were read already.
pub(super) fn read_items(root: &OwnedFd, listing: &Listing, items: &mut [Item], effort: &Effort) {
    let mut unread: Vec<&mut Item> =
        items.iter_mut().filter(|item| !item.holds && item.read.is_none()).collect();
    let paths: Vec<(&str, &str)> =
        unread.iter().map(|item| (listing.folders[item.folder].path.as_str(), item.name.as_str())).collect();
    let read = read_entries(root, &paths, effort);
    drop(paths);
    for (item, (_, entry, stamp)) in unread.iter_mut().zip(read) {
        item.read = Some(Box::new((entry, stamp)));
    }
}

/// Reads the front matter of files, given as folder and name; what it says, with its path, and the stamp of what was read.
pub(in crate::memory) fn read_entries(
    root: &OwnedFd,
    files: &[(&str, &str)],
    effort: &Effort,
) -> Vec<(String, Entry, Option<Stamp>)> {
    parallel::in_runs(files, |files| {
        let mut read = Vec::with_capacity(files.len());
        let mut open: Option<(&str, Result<OwnedFd, rustix::io::Errno>)> = None;
        for (parent, name) in files {
            let path = folder::below(parent, name);
            if open.as_ref().is_none_or(|(at, _)| at != parent) {
                open = Some((*parent, folder::open_below(root.as_fd(), parent)));
            }
            let (entry, stamp) = match &open {
                Some((_, Ok(folder))) => file::read_entry(folder.as_fd(), name, &path, effort),
                Some((_, Err(error))) => (file::refused(*file::unreadable(&path, &(*error).into())), None),
                None => (Entry { header: None, reports: Vec::new() }, None),
            };
            read.push((path, entry, stamp));
        }
        read
    })
}

/// The folder of the index, made where it is not there; `None` where that is not possible, or would lead elsewhere.
fn home(root: &OwnedFd, path: &Path) -> Option<PathBuf> {
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
