//! Reads what git's index says of hidden files: the data by which git knows, without reading a file, that it did not
//! change (`docs/sandbox.md#denied-files-and-git`, and ADR 49 on why no git and no library does it). A command changes the
//! user's own repository: what it commits stays, the deletion of a hidden file too.
//!
//! The index is read and not asked for, because a git that is started here would obey the repository. It may have been
//! written in the second in which a file was (after a clone it always was): then git reads the file, whatever else it
//! knows. So the time in such an entry is set back. To the user's git that means no more than to read the file once.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rawko_sandbox::{Placeholder, PlaceholderKind};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, Timespec, Timestamps, fstat, futimens, openat, renameat,
    unlinkat,
};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// The longest index that is read.
const MAX_INDEX: u64 = 512 << 20;
/// An entry's length up to the name of its object.
const STAT_LENGTH: usize = 40;
/// The time that git takes for older than any index.
const LONG_AGO: u32 = 1;
/// The objects of empty files, whose size may be 0.
const EMPTY: [&str; 2] = [
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
];

/// One entry, as far as it is needed.
#[derive(Debug, PartialEq, Eq)]
struct IndexEntry {
    /// Where it begins.
    at: usize,
    name: PathBuf,
    mode: u32,
    modified: u32,
    size: u32,
    /// Whether its object is known to be empty.
    is_empty: bool,
}

impl IndexEntry {
    fn kind(&self) -> PlaceholderKind {
        match self.mode & 0o17_0000 {
            0o12_0000 => PlaceholderKind::Link,
            0o16_0000 => PlaceholderKind::Folder,
            _ if self.mode & 0o100 != 0 => PlaceholderKind::Program,
            _ => PlaceholderKind::File,
        }
    }

    /// Whether git believes the entry of an index of that time without reading the file.
    fn is_believed(&self, index_time: i64) -> bool {
        self.kind() == PlaceholderKind::Folder
            || (i64::from(self.modified) < index_time && (self.size > 0 || self.is_empty))
    }
}

/// What the index in the folder of a repository says of the `hidden` files and of the files in such folders, by their
/// paths from the top of the work tree. With `top`, entries that git would not believe are changed so that it does.
///
/// # Errors
/// If there is an index that cannot be understood.
pub(super) fn tracked(
    folder: &Path,
    hidden: &BTreeSet<PathBuf>,
    top: Option<&Path>,
) -> io::Result<Vec<Placeholder>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(CWD, folder, flags, Mode::empty())?;
    let Some((bytes, stat)) = read(&folder)? else { return Ok(Vec::new()) };
    let (mut entries, _) = understood(&bytes, hidden)?;
    let time = stat.st_mtime;
    if let Some(top) = top
        && entries.iter().any(|entry| !entry.is_believed(time))
        && let Some(settled) = settle(&folder, hidden, top)?
    {
        entries = settled;
    }
    let placeholder = |entry: IndexEntry| Placeholder {
        kind: entry.kind(),
        name: entry.name,
        size: entry.size,
        modified: entry.modified,
    };
    Ok(entries.into_iter().map(placeholder).collect())
}

/// The index, if there is one.
fn read(folder: &OwnedFd) -> io::Result<Option<(Vec<u8>, Stat)>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match openat(folder, "index", flags, Mode::empty()) {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_size as u64 > MAX_INDEX {
        return Err(not_understood("it is no regular file, or too large"));
    }
    let mut bytes = Vec::new();
    File::from(file).take(MAX_INDEX).read_to_end(&mut bytes)?;
    Ok(Some((bytes, stat)))
}

fn not_understood(why: &str) -> io::Error {
    let text = format!(
        "what permissions.deny hides cannot be compared with git's index ({why}): run `git update-index --no-split-index`, \
         or deny what git does not track"
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Changes the entries that git would not believe, as git changes an index, and gives all back. `None` if git is about
/// to change it itself. The index keeps its time: with a newer one, git would believe the entries of other files too.
fn settle(folder: &OwnedFd, hidden: &BTreeSet<PathBuf>, top: &Path) -> io::Result<Option<Vec<IndexEntry>>> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let lock = match openat(folder, "index.lock", flags, Mode::from_raw_mode(0o600)) {
        Ok(lock) => lock,
        Err(rustix::io::Errno::EXIST) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let written = rewrite(folder, lock, hidden, top);
    if !matches!(written, Ok(Some(_))) {
        let _ = unlinkat(folder, "index.lock", AtFlags::empty());
    }
    written
}

fn rewrite(
    folder: &OwnedFd,
    lock: OwnedFd,
    hidden: &BTreeSet<PathBuf>,
    top: &Path,
) -> io::Result<Option<Vec<IndexEntry>>> {
    let Some((mut bytes, stat)) = read(folder)? else { return Ok(None) };
    let (mut entries, hash_length) = understood(&bytes, hidden)?;
    for entry in entries.iter_mut().filter(|entry| !entry.is_believed(stat.st_mtime)) {
        entry.modified = LONG_AGO;
        if entry.size == 0 && !entry.is_empty {
            // Git takes a file of another size for changed without reading it.
            let size = top.join(&entry.name).symlink_metadata().map_or(1, |file| file.len());
            entry.size = u32::try_from(size).unwrap_or(u32::MAX).max(1);
        }
        set(&mut bytes, entry.at, 0);
        set(&mut bytes, entry.at + 4, 0);
        set(&mut bytes, entry.at + 8, entry.modified);
        set(&mut bytes, entry.at + 12, 0);
        set(&mut bytes, entry.at + 36, entry.size);
    }
    let end = bytes.len().saturating_sub(hash_length);
    let (content, sum) = bytes.split_at_mut(end);
    // Git writes zeros where it is to be quick.
    if sum.iter().any(|byte| *byte != 0) {
        match hash_length {
            20 => sum.copy_from_slice(&Sha1::digest(&*content)),
            _ => sum.copy_from_slice(&Sha256::digest(&*content)),
        }
    }
    let mut file = File::from(lock);
    file.write_all(&bytes)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(stat.st_mode & 0o777))?;
    if rustix::process::geteuid().is_root() {
        let (user, group) = (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
        rustix::fs::fchown(&file, Some(user), Some(group))?;
    }
    let time = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ };
    futimens(&file, &Timestamps { last_access: time, last_modification: time })?;
    renameat(folder, "index.lock", folder, "index")?;
    Ok(Some(entries))
}

fn set(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// The entries of what is hidden, and how long the name of an object is: the index does not say.
fn understood(bytes: &[u8], hidden: &BTreeSet<PathBuf>) -> io::Result<(Vec<IndexEntry>, usize)> {
    for hash_length in [20, 32] {
        if let Some((entries, rest)) = entries(bytes, hash_length, hidden)
            && let Some(has_base) = has_base(bytes, rest, hash_length)
        {
            // The other entries are in another file.
            return if has_base { Err(not_understood("it is split")) } else { Ok((entries, hash_length)) };
        }
    }
    Err(not_understood("its format is not known"))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The entries of what is hidden, and where the extensions begin.
fn entries(bytes: &[u8], hash_length: usize, hidden: &BTreeSet<PathBuf>) -> Option<(Vec<IndexEntry>, usize)> {
    let version =
        number(bytes, 4).filter(|version| bytes.starts_with(b"DIRC") && (2..=4).contains(version))?;
    let (mut at, mut found, mut name) = (12, Vec::new(), Vec::new());
    for _ in 0..number(bytes, 8)? {
        let hash = bytes.get(at + STAT_LENGTH..at + STAT_LENGTH + hash_length)?;
        let after = at + STAT_LENGTH + hash_length;
        let flags = number(bytes, after)? >> 16;
        let is_extended = version >= 3 && flags & 0x4000 != 0;
        // Only intended to be added: there is nothing yet that git could compare with.
        let is_intended = is_extended && number(bytes, after + 2)? >> 16 & 0x2000 != 0;
        let mut begin = after + if is_extended { 4 } else { 2 };
        if version == 4 {
            let (cut, next) = variable(bytes, begin)?;
            name.truncate(name.len().checked_sub(cut)?);
            begin = next;
        } else {
            name.clear();
        }
        let end = begin + memchr::memchr(0, bytes.get(begin..)?)?;
        name.extend_from_slice(bytes.get(begin..end)?);
        let length = usize::try_from(flags & 0xfff).ok()?;
        // In a split index, an entry that replaces one of the other file has no name.
        if length < 0xfff && length != name.len() {
            return None;
        }
        let stage = flags >> 12 & 3;
        if stage == 0 && !is_intended && is_hidden(&name, hidden) {
            found.push(IndexEntry {
                at,
                name: PathBuf::from(OsStr::from_bytes(&name)),
                mode: number(bytes, at + 24)?,
                modified: number(bytes, at + 8)?,
                size: number(bytes, at + 36)?,
                is_empty: EMPTY.contains(&hex::encode(hash).as_str()),
            });
        }
        // All but the newest format pad an entry to a multiple of 8, with at least one NUL.
        at = if version == 4 { end + 1 } else { at + (end - at) / 8 * 8 + 8 };
    }
    Some((found, at))
}

fn is_hidden(name: &[u8], hidden: &BTreeSet<PathBuf>) -> bool {
    Path::new(OsStr::from_bytes(name)).ancestors().any(|path| hidden.contains(path))
}

/// A number of variable length, and where it ends.
fn variable(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 127);
    while byte & 128 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 127);
    }
    Some((value, at + 1))
}

/// Whether there is an extension that names another index. `None` if the extensions do not end where the checksum begins.
fn has_base(bytes: &[u8], mut at: usize, hash_length: usize) -> Option<bool> {
    let (end, mut has_base) = (bytes.len().checked_sub(hash_length)?, false);
    while at < end {
        has_base |= bytes.get(at..at + 4)? == b"link";
        at = at.checked_add(8)?.checked_add(usize::try_from(number(bytes, at + 4)?).ok()?)?;
    }
    (at == end).then_some(has_base)
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
