//! Looking at every folder and file that the index knows, on all processors.
//!
//! A folder whose stamp is the same has the same names; a file whose stamp is the same has the same text. What could not be read is tried
//! again: nothing tells when that ends.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, statat};

use super::build::{Known, folder_row};
use super::read::Index;
use crate::memory::folder::{self, Stamp};
use crate::memory::{file, parallel};

/// Files that are looked at by one thread at a time.
const RUN: u32 = 1_024;

/// What of the index does not hold.
pub(super) struct Changed {
    /// Whether the names may be others.
    pub(super) relist: bool,
    /// Files whose stamp is another, or cannot be trusted.
    pub(super) files: Vec<u32>,
}

/// Looks at all folders and files on the other processors, and on this one too once `work` is done.
pub(super) fn changed<R>(root: &OwnedFd, index: &Index, work: impl FnOnce() -> R) -> (Changed, R) {
    let mut relist = index.folders.is_empty() || index.is_partial;
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
    let (Some(folder), Some(known), Some(name)) = (folder, index.known(id), index.name(id)) else {
        return false;
    };
    match known {
        Known::By(stamp) => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
            let now = Stamp::of(&stat);
            FileType::from_raw_mode(stat.st_mode).is_file()
                && now.size.min(u64::from(u32::MAX)) == stamp.size
                && Stamp { size: stamp.size, ..now } == stamp
        }),
        Known::Racy => false,
        Known::Unreadable => !file::can_be_read(folder, name),
    }
}
