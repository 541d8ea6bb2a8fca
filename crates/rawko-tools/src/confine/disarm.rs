//! Disarms a repository that a command made: removes what git would run.
//!
//! Such a folder may hold things that were there before the first command: a folder `hooks` of a project's own, a file
//! `config` that has nothing to do with git. Those are the user's and stay. Only what was added is removed, so that the
//! folder is no repository any more.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, renameat, statat, unlinkat};
use rustix::io::{Errno, Result};

use super::absent::remove_new;
use super::git::list_settings;
use super::{git_settings, rebase};
use crate::access::is_repository;
use crate::file_stamp::FileStamp;
use crate::folder::{allowed, kind_of, names_in, open_folder, remove};

/// Longest file of settings that is kept, and longest file that names a folder.
const LONGEST: u64 = 256 * 1024;
/// What makes a folder a repository, in the order in which it is taken away.
const PARTS: [&str; 4] = ["refs", "objects", "commondir", "HEAD"];

/// When a command may have made something, in seconds of the time of the last change of an inode: that is the kernel's, and
/// no command sets it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeWindow {
    pub(super) since: i64,
    pub(super) until: i64,
}

/// The settings that were looked at and run nothing.
pub(super) type Checked = BTreeSet<FileStamp>;

/// When the parts of something changed, the first of them and the last.
#[derive(Debug, Clone, Copy)]
struct Times {
    first: i64,
    last: i64,
}

/// What git would run because of one name in a repository.
struct Armed {
    name: &'static str,
    times: Times,
    /// What is kept of it.
    kept: Option<String>,
}

/// Takes away what git would run. `shares_well`: the folder that it shares with others, if there is one, is looked after.
/// `knows_all`: what is not known to be the user's is none of theirs. `changeable`: the folders that commands could write,
/// in which no git is taken for the user's.
pub(super) fn disarm(
    folder: &OwnedFd,
    window: TimeWindow,
    shares_well: bool,
    knows_all: bool,
    changeable: &[PathBuf],
    checked: &mut Checked,
) {
    let mut armed: Vec<Armed> = Vec::new();
    let named = ["hooks", "config.worktree", "commondir"]
        .into_iter()
        .filter(|name| *name != "commondir" || !shares_well);
    armed.extend(named.filter_map(|name| Some(Armed { name, times: times(folder, name)?, kept: None })));
    armed.extend(settings(folder, changeable, checked));
    armed.retain(|found| found.times.last <= window.until);
    if knows_all && armed.iter().any(|found| found.times.first < window.since) {
        unmake(folder, window, &armed);
        return;
    }
    for Armed { name, kept, .. } in armed.into_iter().filter(|found| found.times.last >= window.since) {
        let is_replaced = kept.is_some_and(|text| replace(folder, &text).is_ok());
        if !is_replaced {
            let _ = remove(folder, OsStr::new(name));
        }
    }
    let _ = rebase::disarm(folder, &[]);
}

/// Removes from a repository of the user's what git would obey, was not there and was made in this time.
pub(super) fn restore(folder: &OwnedFd, missing: &[String], window: TimeWindow) {
    let is_new = |name: &&String| {
        times(folder, name).is_some_and(|times| times.first >= window.since && times.last <= window.until)
    };
    missing.iter().filter(is_new).for_each(|name| remove_new(folder, name));
}

/// Makes a folder none that git takes for a repository. Files in the way are renamed, in case they are needed. One that is
/// none yet loses what git would obey once it is.
fn unmake(folder: &OwnedFd, window: TimeWindow, armed: &[Armed]) {
    let is_one = || is_repository(|name| kind_of(folder, name).is_ok());
    if !is_one() {
        armed.iter().for_each(|found| set_aside(folder, found.name));
        return;
    }
    for _ in PARTS {
        if !is_one() {
            return;
        }
        let when = |name: &str| Some(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_ctime);
        let is_new =
            |name: &&str| when(name).is_some_and(|when| (window.since..=window.until).contains(&when));
        set_aside(folder, PARTS.into_iter().find(is_new).unwrap_or("HEAD"));
    }
}

/// Renames something; an empty folder, which is of no use, is removed.
fn set_aside(folder: &OwnedFd, name: &str) {
    if allowed(folder, || unlinkat(folder, name, AtFlags::REMOVEDIR)).is_ok() {
        return;
    }
    let aside = (0..100).map(|number| format!("{name}.disarmed-{number}"));
    if let Some(aside) = aside.into_iter().find(|aside| kind_of(folder, aside) == Err(Errno::NOENT)) {
        let _ = allowed(folder, || renameat(folder, name, folder, &aside));
    }
}

/// When something changed that git would obey; `None` where there is nothing of the kind. Examples of hooks are none.
fn times(folder: &OwnedFd, name: &str) -> Option<Times> {
    let own = allowed(folder, || statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)).ok()?;
    let (own, kind) = (own.st_ctime, FileType::from_raw_mode(own.st_mode));
    if kind != FileType::Directory {
        return Some(Times { first: own, last: own });
    }
    let inner = open_folder(Some(folder), OsStr::new(name)).ok()?;
    let is_example = |name: &OsString| name.as_encoded_bytes().ends_with(b".sample");
    let names = allowed(&inner, || names_in(&inner)).unwrap_or_default();
    let time = |name: OsString| Some(statat(&inner, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_ctime);
    let inside: Vec<i64> = names.into_iter().filter(|name| !is_example(name)).filter_map(time).collect();
    let (first, last) = (inside.iter().min()?, inside.iter().max()?);
    Some(Times { first: *first, last: own.max(*last) })
}

/// The settings, if they have git run something, or cannot be read.
fn settings(folder: &OwnedFd, changeable: &[PathBuf], checked: &mut Checked) -> Option<Armed> {
    const NAME: &str = "config";
    let times = times(folder, NAME)?;
    let Ok(file) = open_file(folder, NAME) else { return Some(Armed { name: NAME, times, kept: None }) };
    let stamp = file.metadata().ok().map(|found| FileStamp::of(&found));
    if stamp.is_some_and(|stamp| checked.contains(&stamp)) {
        return None;
    }
    match reduced(file, changeable) {
        None => Some(Armed { name: NAME, times, kept: None }),
        Some(Some(text)) => Some(Armed { name: NAME, times, kept: Some(text) }),
        Some(None) => {
            checked.extend(stamp.filter(FileStamp::is_settled));
            None
        }
    }
}

/// A time as the kernel gives it.
pub(super) fn seconds(time: SystemTime) -> i64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

/// The text of a short regular file.
pub(super) fn text_in(folder: &OwnedFd, name: &str) -> Option<String> {
    let mut text = String::new();
    open_file(folder, name).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

fn open_file(folder: &OwnedFd, name: &str) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = allowed(folder, || openat(folder, name, flags, Mode::empty()))?;
    let stat = fstat(&file)?;
    let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && u64::try_from(stat.st_size).is_ok_and(|size| size <= LONGEST);
    if is_plain { Ok(File::from(file)) } else { Err(Errno::INVAL) }
}

/// The settings without those that run something, or include others; `Some(None)` where there are none of these.
fn reduced(mut config: File, changeable: &[PathBuf]) -> Option<Option<String>> {
    config.rewind().ok()?;
    // A command that may write everything may change any git.
    let changeable: Vec<&Path> =
        changeable.iter().map(PathBuf::as_path).filter(|folder| folder.parent().is_some()).collect();
    let git = list_settings(None, &changeable)?.args(["--no-includes", "--file", "-"]);
    let listed = String::from_utf8(git.reading(config).answer().ok()?).ok()?;
    Some(git_settings::of_a_new_repository(&listed))
}

fn replace(folder: &OwnedFd, text: &str) -> Result<()> {
    let name = format!("config.rawko-{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let written = allowed(folder, || openat(folder, &name, flags, Mode::from_raw_mode(0o644)))
        .and_then(|file| File::from(file).write_all(text.as_bytes()).map_err(|_| Errno::IO))
        .and_then(|()| renameat(folder, &name, folder, "config"));
    if written.is_err() {
        let _ = unlinkat(folder, &name, AtFlags::empty());
    }
    written
}
