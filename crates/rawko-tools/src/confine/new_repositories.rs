//! Repositories that commands make.
//!
//! Git takes any folder with the right things in it for a repository, and runs what its settings and hooks name: the user's
//! `git status` there would run what a command wrote, and so would a prompt that shows the branch. So when a command has
//! ended, each folder that git takes for one now, and that was none before the first command, loses what runs. A folder
//! that was one before is the user's: no command changes what git obeys there.
//!
//! The earlier repositories are kept in a file too. A process that is killed while a command runs cannot look at what
//! that made, and the next one that removes its temporary folder does (`crate::temporary`).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Result;
use serde::{Deserialize, Serialize};

use super::absent::missing_in;
use super::disarm::{self, Checked, TimeWindow, seconds, text_in};
use super::every_folder::{ListedFolder, each_folder};
use super::git::{DECIDING, ProjectRepository};
use super::survey::{MAX_ENTRIES, MAX_FIRST};
use crate::access::is_repository;
use crate::file_stamp::FileId;
use crate::folder::{descend, identity_of, kind_of, open_folder, remove};

/// How far the clock of a file system may lag behind, in seconds.
const TICK: i64 = 1;
/// How often a run that runs commands says that it is alive.
const BEAT: Duration = Duration::from_secs(1);
/// How late that may come on a busy machine, in seconds.
const LATE: i64 = 5;
/// The name of the file that says what was there before the first command.
const RECORD: &str = "repositories.json";
/// Longest such file.
const LONGEST_RECORD: u64 = 64 * 1024 * 1024;

/// What is known of the repositories in a project.
#[derive(Debug)]
pub(super) struct NewRepositories {
    /// The project; empty where there is none.
    root: PathBuf,
    /// The folders of the repository that it belongs to.
    own: Vec<PathBuf>,
    /// What is kept for the case that this process is killed.
    record: PathBuf,
    known: Mutex<KnownRepositories>,
    beat: Mutex<Option<Beat>>,
    running: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct KnownRepositories {
    /// The folders that commands may write.
    bases: Vec<PathBuf>,
    /// When the first command began, in seconds.
    since: i64,
    /// The repositories that were there before the first command, and the links and files that lead to them.
    theirs: BTreeMap<FileId, Theirs>,
    /// Whether a folder was too large to see all of it then. What did not change since is no command's work, known or not.
    is_partial: bool,
    /// Whether the machine was started anew since: devices have other numbers now.
    is_restarted: bool,
    checked: Checked,
}

/// A repository of the user's, or a link or file that leads to one.
#[derive(Debug)]
struct Theirs {
    path: PathBuf,
    /// What git would obey there, and was not there.
    missing: Vec<String>,
}

/// The same in a file. Paths are bytes.
#[derive(Debug, Serialize, Deserialize)]
struct KnownRepositoriesFile {
    boot: String,
    bases: Vec<Vec<u8>>,
    since: i64,
    theirs: Vec<(u64, u64, Vec<u8>, Vec<String>)>,
    is_partial: bool,
}

/// Changes the time of the record while commands run. Ends when it is dropped.
#[derive(Debug)]
struct Beat {
    file: File,
    _end: Sender<()>,
}

/// A folder that commands write in.
struct Base {
    path: PathBuf,
    opened: OwnedFd,
}

/// Where the `.git` of a work tree leads.
enum Leads {
    /// To a folder that commands could write.
    Inside(OwnedFd, PathBuf),
    /// To any other.
    Outside,
    /// To none: git is not led there either.
    Nowhere,
}

impl NewRepositories {
    /// `folder` is where the run keeps what ends with it.
    pub(super) fn new(root: Option<&Path>, repository: Option<&ProjectRepository>, folder: &Path) -> Self {
        Self {
            root: root.map(Path::to_owned).unwrap_or_default(),
            own: repository
                .map(|own| own.folders.iter().chain(&own.own).cloned().collect())
                .unwrap_or_default(),
            record: folder.join(RECORD),
            known: Mutex::default(),
            beat: Mutex::default(),
            running: Arc::default(),
        }
    }

    /// The project; empty where there is none.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Notes what is there before the first command that may write these folders.
    pub(super) fn begin(&self, root: &Path, writable: &[PathBuf]) {
        self.begin_at(root, writable, SystemTime::now(), MAX_FIRST);
    }

    fn begin_at(&self, root: &Path, writable: &[PathBuf], now: SystemTime, most: usize) {
        if root != self.root {
            return;
        }
        let mut known = self.known();
        let is_first = known.bases.is_empty();
        // All of a project is looked at, however little of it is granted: what is granted may be a part of a repository.
        let mut wanted: Vec<&Path> =
            writable.iter().map(|path| if path.starts_with(root) { root } else { path.as_path() }).collect();
        if !wanted.is_empty() {
            wanted.extend(self.own.iter().map(PathBuf::as_path));
        }
        let mut is_new = false;
        for base in wanted {
            if known.bases.iter().any(|other| base.starts_with(other)) || !base.is_dir() {
                continue;
            }
            if is_first && !is_new {
                known.since = seconds(now).saturating_sub(TICK);
            }
            is_new = true;
            let mut theirs = std::mem::take(&mut known.theirs);
            let is_whole = each_folder(base, most, &mut |listed| note(listed, &mut theirs));
            known.theirs = theirs;
            known.is_partial |= !is_whole;
            known.bases.push(base.to_owned());
        }
        if is_new && known.write(&self.record).is_ok() {
            let mut beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
            *beat = Beat::start(&self.record, &self.running);
        }
    }

    /// The repositories that were there before the first command.
    pub(super) fn theirs(&self) -> Vec<PathBuf> {
        self.known().theirs.values().map(|theirs| theirs.path.clone()).collect()
    }

    /// Whether a command made this repository, or the `.git` that leads to one.
    pub(super) fn is_new(&self, path: &Path) -> bool {
        let known = self.known();
        let is_in = known.bases.iter().any(|base| path.starts_with(base));
        if known.is_partial || !is_in {
            return false;
        }
        let Ok(found) = rustix::fs::lstat(path) else { return false };
        let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        let is_dot_git = path.file_name().is_some_and(|name| name == ".git");
        (!is_folder || is_dot_git || is_repository(|name| path.join(name).symlink_metadata().is_ok()))
            && !known.theirs.contains_key(&(found.st_dev, found.st_ino))
    }

    /// A command begins.
    pub(super) fn command_begins(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
        if let Some(beat) = &*self.beat.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = touch(&beat.file);
        }
    }

    /// A command has ended. If it could write: takes what git would run from each new repository.
    pub(super) fn command_ended(&self, wrote: bool) {
        if wrote {
            self.known().settle(MAX_ENTRIES, i64::MAX);
        }
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    fn known(&self) -> MutexGuard<'_, KnownRepositories> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NewRepositories {
    /// The run has ended: looks at all that there is, however much.
    fn drop(&mut self) {
        self.known().settle(usize::MAX, i64::MAX);
        let _ = fs::remove_file(&self.record);
    }
}

/// Looks at what a run left that was killed. `folder` is where it kept what should have ended with it.
pub(crate) fn settle_after(folder: &Path) {
    let Some((mut known, until)) = KnownRepositories::read(&folder.join(RECORD)) else { return };
    known.restore(until);
    known.settle(usize::MAX, until);
}

impl Beat {
    fn start(record: &Path, running: &Arc<AtomicUsize>) -> Option<Self> {
        let file = File::options().write(true).open(record).ok()?;
        let (beating, running) = (file.try_clone().ok()?, Arc::clone(running));
        let (end, ended) = channel();
        let beat = move || {
            while ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                if running.load(Ordering::Relaxed) > 0 {
                    let _ = touch(&beating);
                }
            }
        };
        std::thread::Builder::new().name("beat of a run".to_owned()).spawn(beat).ok()?;
        Some(Self { file, _end: end })
    }
}

fn touch(file: &File) -> std::io::Result<()> {
    file.set_times(FileTimes::new().set_modified(SystemTime::now()))
}

/// Notes what a folder holds of the user's.
fn note(listed: &ListedFolder<'_>, theirs: &mut BTreeMap<FileId, Theirs>) {
    let dot_git = listed.kind_of(".git");
    if dot_git.is_some_and(|kind| kind != FileType::Directory)
        && let Ok((identity, _)) = entry(listed.folder)
    {
        theirs.insert(identity, Theirs { path: listed.path.join(".git"), missing: Vec::new() });
    }
    if is_listed_repository(listed)
        && let Ok(identity) = identity_of(listed.folder)
    {
        let missing: Vec<String> = missing_in(listed.folder).into_iter().map(str::to_owned).collect();
        // A `.git` without anything that git obeys is as good as none: what a `git init` of a command makes there stays.
        if missing.len() == DECIDING.len() && !is_opened_repository(listed.folder) {
            return;
        }
        theirs.insert(identity, Theirs { path: listed.path.to_owned(), missing });
    }
}

/// Whether git obeys what is in a folder, now or after a `git init` beside it, which keeps the hooks and settings of a
/// `.git` that is none yet.
fn is_listed_repository(listed: &ListedFolder<'_>) -> bool {
    if listed.path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git")) {
        return true;
    }
    // The names alone, in whatever case, before the file system is asked.
    is_repository(|name| listed.kind_of(name).is_some()) && is_opened_repository(listed.folder)
}

fn is_opened_repository(folder: &OwnedFd) -> bool {
    is_repository(|name| kind_of(folder, name).is_ok())
}

impl KnownRepositories {
    fn write(&self, record: &Path) -> std::io::Result<()> {
        let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        let theirs = self.theirs.iter().map(|((device, inode), Theirs { path, missing })| {
            (*device, *inode, bytes(path), missing.clone())
        });
        let written = KnownRepositoriesFile {
            boot: boot(),
            bases: self.bases.iter().map(bytes).collect(),
            since: self.since,
            theirs: theirs.collect(),
            is_partial: self.is_partial,
        };
        let part = record.with_extension("part");
        fs::write(&part, serde_json::to_vec(&written)?)?;
        fs::rename(part, record)
    }

    /// What a killed run knew, and when its commands ended at the latest.
    fn read(record: &Path) -> Option<(Self, i64)> {
        let text = crate::regular::text_of(record, LONGEST_RECORD)?;
        let until = seconds(fs::symlink_metadata(record).ok()?.modified().ok()?).saturating_add(LATE);
        let KnownRepositoriesFile { boot: then, bases, since, theirs, is_partial } =
            serde_json::from_str(&text).ok()?;
        let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
        let known = Self {
            bases: bases.into_iter().map(path).collect(),
            since,
            theirs: theirs
                .into_iter()
                .map(|(device, inode, bytes, missing)| {
                    ((device, inode), Theirs { path: path(bytes), missing })
                })
                .collect(),
            is_partial,
            is_restarted: then != boot(),
            checked: Checked::new(),
        };
        Some((known, until))
    }

    fn is_theirs(&self, identity: &FileId, path: &Path) -> bool {
        if self.is_restarted {
            self.theirs.values().any(|known| known.path == path)
        } else {
            self.theirs.contains_key(identity)
        }
    }

    /// Removes from the user's repositories what was not there before and was made `until` then.
    fn restore(&self, until: i64) {
        let window = TimeWindow { since: self.since, until };
        for (identity, Theirs { path, missing }) in
            self.theirs.iter().filter(|(_, theirs)| !theirs.missing.is_empty())
        {
            let Ok(folder) = open_folder(None, path.as_os_str()) else { continue };
            if self.is_restarted || identity_of(&folder) == Ok(*identity) {
                disarm::restore(&folder, missing, window);
            }
        }
    }

    /// Takes what git would run from all that is new and was made `until` then, among the first `most` entries of a folder.
    fn settle(&mut self, most: usize, until: i64) {
        let opened = |path: &PathBuf| {
            Some(Base { path: path.clone(), opened: open_folder(None, path.as_os_str()).ok()? })
        };
        let bases: Vec<Base> = self.bases.iter().filter_map(opened).collect();
        let window = TimeWindow { since: self.since, until };
        for base in &bases {
            each_folder(&base.path, most, &mut |listed| {
                if listed.kind_of(".git").is_some_and(|kind| kind != FileType::Directory) {
                    self.settle_link(&bases, listed, window);
                }
                if is_listed_repository(listed) {
                    self.settle_repository(&bases, listed.folder, listed.path, window);
                }
            });
        }
    }

    /// Follows a new `.git` that leads elsewhere.
    fn settle_link(&mut self, bases: &[Base], listed: &ListedFolder<'_>, window: TimeWindow) {
        let Ok((identity, when)) = entry(listed.folder) else { return };
        if self.is_theirs(&identity, &listed.path.join(".git")) {
            return;
        }
        let is_commands = when <= window.until && (!self.is_partial || when >= window.since);
        match leads(bases, listed) {
            Leads::Inside(folder, path) if is_opened_repository(&folder) => {
                self.settle_repository(bases, &folder, &path, window);
            }
            // `git init` follows a link to what is no repository yet, and obeys what is there.
            Leads::Inside(..) if is_commands && listed.kind_of(".git") == Some(FileType::Symlink) => {
                let _ = remove(listed.folder, OsStr::new(".git"));
            }
            Leads::Outside if is_commands => {
                let _ = remove(listed.folder, OsStr::new(".git"));
            }
            Leads::Inside(..) | Leads::Outside | Leads::Nowhere => {}
        }
    }

    fn settle_repository(&mut self, bases: &[Base], folder: &OwnedFd, path: &Path, window: TimeWindow) {
        let shares_well = match common(bases, folder, path) {
            None => true,
            Some(Leads::Inside(common, place)) if is_opened_repository(&common) => {
                // It is no matter what that shares itself: git looks no further.
                self.settle_one(&common, &place, window, true);
                true
            }
            Some(_) => false,
        };
        self.settle_one(folder, path, window, shares_well);
    }

    fn settle_one(&mut self, folder: &OwnedFd, path: &Path, window: TimeWindow, shares_well: bool) {
        let Ok(identity) = identity_of(folder) else { return };
        if !self.is_theirs(&identity, path) {
            let (changeable, checked) = (&self.bases, &mut self.checked);
            disarm::disarm(folder, window, shares_well, !self.is_partial, changeable, checked);
        }
    }
}

/// Where the file or link `.git` leads.
fn leads(bases: &[Base], listed: &ListedFolder<'_>) -> Leads {
    let named = match kind_of(listed.folder, ".git") {
        Ok(FileType::RegularFile) => {
            // Too long, or no text: git may read it all the same.
            let Some(text) = text_in(listed.folder, ".git") else { return Leads::Outside };
            let Some(named) = text.strip_prefix("gitdir:") else { return Leads::Nowhere };
            listed.path.join(named.trim_end_matches(['\n', '\r']).trim_start())
        }
        Ok(FileType::Symlink) => listed.path.join(".git"),
        Ok(_) | Err(_) => return Leads::Nowhere,
    };
    place(bases, &named)
}

/// The folder that a repository shares with others, if it names one.
fn common(bases: &[Base], folder: &OwnedFd, path: &Path) -> Option<Leads> {
    kind_of(folder, "commondir").ok()?;
    let Some(text) = text_in(folder, "commondir") else { return Some(Leads::Outside) };
    Some(place(bases, &path.join(text.trim_end_matches(['\n', '\r']))))
}

/// A folder that no link leads to in those that commands write.
fn place(bases: &[Base], path: &Path) -> Leads {
    let Ok(real) = fs::canonicalize(path) else { return Leads::Nowhere };
    let found = bases.iter().find_map(|base| descend(&base.opened, real.strip_prefix(&base.path).ok()?).ok());
    found.map_or(Leads::Outside, |folder| Leads::Inside(folder, real))
}

/// By what the `.git` of a work tree is known, and when it changed.
fn entry(around: &OwnedFd) -> Result<(FileId, i64)> {
    let found = statat(around, ".git", AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(((found.st_dev, found.st_ino), found.st_ctime))
}

/// Which start of the machine this is.
fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

#[cfg(test)]
#[path = "new_repositories_tests.rs"]
mod tests;
