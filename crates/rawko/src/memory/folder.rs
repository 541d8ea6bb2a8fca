//! The memories' folder as the file system has it: which files there are.
//!
//! Links are not followed, wherever they point: a clone may bring one that leaves the folder. Every folder is opened
//! from the one above it, so that nothing can be slipped in between. Contents are read elsewhere.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use super::report::Report;

/// Deepest folder below the memories' folder.
const MAX_DEPTH: usize = 16;
/// Most memories. Memories beyond this number are not looked at.
pub(super) const MAX_FILES: usize = 10_000;
/// Most folders.
pub(super) const MAX_FOLDERS: usize = 1_000;
/// The ending of a memory's file.
pub(super) const ENDING: &str = ".md";

/// One folder with the memories right in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    /// Below the memories' folder; empty for that folder itself.
    pub(super) path: String,
    /// Names of files, sorted.
    pub(super) names: Vec<String>,
}

/// Everything there is.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The folders, sorted by path.
    pub(super) folders: Vec<Listed>,
    pub(super) reports: Vec<Report>,
}

impl Listing {
    fn unread(&mut self, path: &str, error: Errno) {
        self.reports.push(unreadable(path, error));
    }
}

/// The path of what is called `name` in the folder `parent`.
pub(super) fn below(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}

/// Opens the memories' folder in `above`, a project's `.rawko` or the user's own folder; `None` where there is none.
pub(super) fn open(above: &Path) -> Result<Option<OwnedFd>, Box<Report>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let rawko = match openat(CWD, above, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::NOTDIR) if above.parent().is_some_and(Path::is_dir) => {
            let name = above.file_name().unwrap_or_default().to_string_lossy();
            let message = format!("cannot be there: {name} is a file, but should be a folder");
            return Err(Box::new(Report::error("", message, format!("move the file {name} elsewhere"))));
        }
        Err(Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(Box::new(unreadable("", error))),
    };
    match openat(&rawko, "memories", flags | OFlags::NOFOLLOW, Mode::empty()) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(Box::new(match statat(&rawko, "memories", AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_symlink() => link(""),
            Ok(stat) if !FileType::from_raw_mode(stat.st_mode).is_dir() => Report::error(
                "",
                "is a file, but should be a folder",
                "move the file elsewhere; `rawko memory add` makes the folder",
            ),
            _ => unreadable("", error),
        })),
    }
}

/// Opens the folder `path` below `root`, part by part.
pub(super) fn open_below(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut at = openat(root, ".", flags, Mode::empty())?;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        at = openat(&at, part, flags, Mode::empty())?;
    }
    Ok(at)
}

/// Lists the folder and all below it. Names that are not memories are passed over; what should be one and is not is reported.
///
/// One folder is open at a time, however many there are: a process may have a thousand files open and more folders than that.
pub(super) fn list(root: BorrowedFd<'_>) -> Listing {
    let mut listing = Listing::default();
    let (mut files, mut seen) = (0, 1);
    let mut waiting = vec![(String::new(), 0)];
    while let Some((path, depth)) = waiting.pop() {
        let below = match open_below(root, &path) {
            Ok(folder) => one(folder, &path, depth, &mut files, &mut listing),
            // It went while the one above was read.
            Err(Errno::NOENT) if depth > 0 => Vec::new(),
            Err(error) => {
                listing.unread(&path, error);
                Vec::new()
            }
        };
        for name in below {
            if seen == MAX_FOLDERS {
                let message = format!("more than {MAX_FOLDERS} folders; the rest is not looked at");
                listing.reports.push(Report::warning(&path, message, "put several memories into one folder"));
            }
            seen += 1;
            if seen <= MAX_FOLDERS {
                waiting.push((name, depth + 1));
            }
        }
    }
    listing.folders.sort_by(|a, b| a.path.cmp(&b.path));
    listing
}

/// Lists one folder; the paths of those right below it, the last first.
fn one(folder: OwnedFd, path: &str, depth: usize, files: &mut usize, listing: &mut Listing) -> Vec<String> {
    let entries = match Dir::read_from(&folder) {
        Ok(entries) => entries,
        Err(error) => {
            listing.unread(path, error);
            return Vec::new();
        }
    };
    let (mut names, mut folders) = (Vec::new(), Vec::new());
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                listing.unread(path, error);
                break;
            }
        };
        let raw = entry.file_name();
        // Editors and rawko itself keep hidden files beside the memories.
        if raw.to_bytes().starts_with(b".") {
            continue;
        }
        let is_memory = raw.to_bytes().ends_with(ENDING.as_bytes());
        let Ok(name) = raw.to_str() else {
            let shown = below(path, &raw.to_string_lossy());
            let help = "rename it";
            listing.reports.push(Report::error(&shown, "the file's name is not UTF-8", help));
            continue;
        };
        let kind = match entry.file_type() {
            FileType::Unknown => statat(&folder, raw, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        match kind {
            FileType::RegularFile if is_memory => names.push(name.to_owned()),
            FileType::Directory if depth < MAX_DEPTH => folders.push(below(path, name)),
            FileType::Directory => {
                let message = format!("lies deeper than {MAX_DEPTH} folders and is not looked at");
                listing.reports.push(Report::warning(&below(path, name), message, "move it up"));
            }
            FileType::Symlink => listing.reports.push(link(&below(path, name))),
            _ if is_memory => {
                let message = "is not a regular file";
                listing.reports.push(Report::error(&below(path, name), message, "replace it by a file"));
            }
            _ => {}
        }
    }
    names.sort_unstable();
    let before = *files;
    *files += names.len();
    if before <= MAX_FILES && *files > MAX_FILES {
        let message = format!("more than {MAX_FILES} memories; the rest is not looked at");
        listing.reports.push(Report::warning(path, message, "remove some"));
    }
    names.truncate(MAX_FILES.saturating_sub(before));
    folders.sort_unstable_by(|a, b| b.cmp(a));
    listing.folders.push(Listed { path: path.to_owned(), names });
    folders
}

fn link(path: &str) -> Report {
    let message = "is a link, and links are not followed";
    Report::error(path, message, "put the file itself here")
}

pub(super) fn unreadable(path: &str, error: Errno) -> Report {
    let message = format!("cannot be read: {}", io::Error::from(error));
    Report::error(path, message, "check its permissions")
}
