//! Repositories that commands make.
//!
//! Git looks into each repository that an index names, with the settings and hooks of that one: a `git status` of the
//! user's would run what a command wrote there. So would the first git command in a new repository, or a prompt that shows
//! the branch. So new repositories keep the settings that run nothing, and no hooks: those that an index names when a
//! command has ended, the others when the run has. What was there before the first command is the user's, and no command
//! changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, renameat, statat, unlinkat};
use rustix::io::{Errno, Result};

use super::absent::{allowed, descend, identity_of, kind_of, names_in, open_folder, remove};
use super::git::{Repository, answer_of, with_inner};
use super::git_settings;
use super::survey::{Survey, Wanted};

/// Longest file of settings that is kept, and longest file that names a folder.
const LONGEST: u64 = 256 * 1024;
/// What git obeys in the folder of a repository besides its settings.
const OBEYED: [&str; 2] = ["config.worktree", "hooks"];

/// How far the clock of a file system may lag behind, in seconds.
const TICK: i64 = 1;

/// Device and inode.
type Identity = (u64, u64);

/// What is known of the repositories in a project.
#[derive(Debug, Default)]
pub(super) struct NewRepositories {
    /// The project.
    root: PathBuf,
    /// The repository that it belongs to, as it was before the first command.
    repository: Option<Repository>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The folders that commands may write.
    wanted: Vec<Wanted>,
    /// When the first command began, in seconds. What did not change since is no command's work, known or not: no survey
    /// of a very large folder is complete.
    since: i64,
    /// The repositories that were there before the first command, and the links and files that lead to them.
    theirs: BTreeSet<Identity>,
    /// The repositories that an index names, and the index that was read.
    indexes: BTreeMap<Identity, (Stamp, Vec<PathBuf>)>,
}

/// By what a changed index is known: the files that it is made of, and when they changed.
type Stamp = Vec<(OsString, u64, i64, i64, u64)>;

/// A folder that commands write in.
struct Base {
    path: PathBuf,
    opened: OwnedFd,
}

/// Where the `.git` of a work tree leads.
enum Leads {
    /// To a folder that commands could write.
    Inside(OwnedFd),
    /// To any other.
    Outside,
}

impl NewRepositories {
    pub(super) fn new(root: Option<&Path>, repository: Option<Repository>) -> Self {
        Self { root: root.map(Path::to_owned).unwrap_or_default(), repository, known: Mutex::default() }
    }

    /// The project; empty where there is none.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Notes what is there before the first command that may write it.
    pub(super) fn begin(&self, root: &Path, survey: &Survey) {
        self.begin_at(root, survey, SystemTime::now());
    }

    fn begin_at(&self, root: &Path, survey: &Survey, now: SystemTime) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |wanted: &&Wanted| known.wanted.iter().any(|other| other.folder == wanted.folder);
        let added: Vec<Wanted> = survey.wanted().iter().filter(|wanted| !is_known(wanted)).cloned().collect();
        if root != self.root || added.is_empty() {
            return;
        }
        if known.wanted.is_empty() {
            let now =
                now.duration_since(SystemTime::UNIX_EPOCH).map_or(i64::MAX, |time| time.as_secs() as i64);
            known.since = now.saturating_sub(TICK);
            let own = self.repository.iter().flat_map(|own| own.folders.iter().chain(&own.own));
            for folder in own.flat_map(|own| with_inner(own)) {
                let opened = open_folder(None, folder.as_os_str());
                known.theirs.extend(opened.and_then(|folder| identity_of(&folder)));
            }
        }
        known.wanted.extend(added.iter().cloned());
        let bases = self.bases(&known.wanted);
        for dot_git in survey.protected.iter().filter(|path| path.ends_with(".git")) {
            let Some(tree) = dot_git.parent() else { continue };
            let is_added = added.iter().any(|wanted| tree.starts_with(&wanted.folder));
            let Some((around, leads)) = look(&bases, tree).filter(|_| is_added) else { continue };
            known.theirs.extend(entry(&around).map(|(identity, _)| identity));
            if let Leads::Inside(folder) = leads {
                known.theirs.extend(identity_of(&folder));
            }
        }
    }

    /// Takes what git would run from each new repository that the project's index names, and from a new one of the project.
    pub(super) fn disarm_named(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let bases = self.bases(&known.wanted);
        let top = self.repository.as_ref().map_or(&self.root, |own| &own.top);
        let mut left = vec![top.clone()];
        let mut seen = BTreeSet::new();
        while let Some(tree) = left.pop() {
            let is_users = self.repository.is_some() && tree == *top;
            let folder = match self.repository.as_ref().and_then(|own| own.own.as_ref()).filter(|_| is_users)
            {
                Some(own) => open_folder(None, own.as_os_str()).ok(),
                None => known.settle(&bases, &tree),
            };
            let Some(folder) = folder else { continue };
            if identity_of(&folder).is_ok_and(|identity| seen.insert(identity)) {
                left.extend(known.named_by(&folder, &tree).into_iter().map(|name| tree.join(name)));
            }
        }
    }

    fn bases(&self, wanted: &[Wanted]) -> Vec<Base> {
        let granted = wanted.iter().map(|wanted| &wanted.folder);
        let own = self
            .repository
            .iter()
            .flat_map(|own| std::iter::once(&own.top).chain(&own.folders).chain(&own.own));
        let opened = granted.chain(own).filter_map(|path| {
            Some(Base { path: path.clone(), opened: open_folder(None, path.as_os_str()).ok()? })
        });
        opened.collect()
    }
}

impl Drop for NewRepositories {
    /// The run has ended: takes what git would run from all that is new.
    fn drop(&mut self) {
        let known = std::mem::take(self.known.get_mut().unwrap_or_else(PoisonError::into_inner));
        if known.wanted.is_empty() {
            return;
        }
        let bases = self.bases(&known.wanted);
        let survey = Survey::again(&known.wanted);
        for dot_git in survey.protected.iter().filter(|path| path.ends_with(".git")) {
            if let Some(tree) = dot_git.parent() {
                known.settle(&bases, tree);
            }
        }
    }
}

impl Known {
    /// Takes what git would run from the repository of a work tree, if it is new. Its folder, if a command could write it.
    fn settle(&self, bases: &[Base], tree: &Path) -> Option<OwnedFd> {
        let (around, leads) = look(bases, tree)?;
        let is_new = |identity: &Identity| !self.theirs.contains(identity);
        match leads {
            Leads::Inside(folder) => {
                if identity_of(&folder).is_ok_and(|identity| is_new(&identity)) {
                    let is_shared = common(&folder).is_some_and(|common| self.theirs.contains(&common));
                    disarm(&folder, is_shared, self.since);
                }
                Some(folder)
            }
            Leads::Outside => {
                if entry(&around).is_ok_and(|(identity, when)| is_new(&identity) && when >= self.since) {
                    let _ = remove(&around, OsStr::new(".git"));
                }
                None
            }
        }
    }

    /// The repositories that the index of this one names, by their paths in its work tree.
    fn named_by(&mut self, folder: &OwnedFd, tree: &Path) -> Vec<PathBuf> {
        let (Ok(identity), Ok(stamp)) = (identity_of(folder), stamp(folder)) else { return Vec::new() };
        if stamp.is_empty() {
            return Vec::new();
        }
        match self.indexes.get(&identity) {
            Some((known, names)) if *known == stamp => names.clone(),
            _ => {
                let names = listed(folder, tree);
                self.indexes.insert(identity, (stamp, names.clone()));
                names
            }
        }
    }
}

fn stamp(folder: &OwnedFd) -> Result<Stamp> {
    let mut found = Stamp::new();
    for name in names_in(folder)? {
        let text = name.to_string_lossy();
        if text == "index" || text.starts_with("sharedindex.") {
            let stat = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            found.push((name, stat.st_ino, stat.st_ctime, stat.st_ctime_nsec as i64, stat.st_size as u64));
        }
    }
    found.sort();
    Ok(found)
}

/// Asks git, which reads the index and runs nothing for it.
fn listed(folder: &OwnedFd, tree: &Path) -> Vec<PathBuf> {
    let mut git = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
        git.env_remove(name);
    }
    // By its descriptor: a path could lead elsewhere by now.
    let place = format!("/proc/{}/fd/{}", std::process::id(), folder.as_raw_fd());
    git.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "ls-files", "--stage", "-z"]);
    git.env("GIT_DIR", place).env("GIT_WORK_TREE", tree).env("GIT_OPTIONAL_LOCKS", "0").current_dir(tree);
    let links = answer_of(git, Stdio::null(), |answer| {
        let entries = BufReader::new(answer).split(0).map_while(std::io::Result::ok);
        let links = entries.filter_map(|entry| {
            let tab = entry.strip_prefix(b"160000 ")?.iter().position(|byte| *byte == b'\t')?;
            Some(PathBuf::from(OsString::from_vec(entry.get(b"160000 ".len() + tab + 1..)?.to_vec())))
        });
        links.collect::<Vec<_>>()
    });
    links.unwrap_or_default()
}

/// The folder of a work tree, and where its `.git` leads.
fn look(bases: &[Base], tree: &Path) -> Option<(OwnedFd, Leads)> {
    let around = open_in(bases, tree)?;
    let named = match kind_of(&around, ".git").ok()? {
        FileType::Directory => {
            let folder = open_folder(Some(&around), OsStr::new(".git")).ok()?;
            return Some((around, Leads::Inside(folder)));
        }
        FileType::RegularFile => {
            let text = text_in(&around, ".git")?;
            tree.join(text.strip_prefix("gitdir:")?.trim_end_matches(['\n', '\r']).trim_start())
        }
        FileType::Symlink => tree.join(".git"),
        _ => return None,
    };
    // To a folder that is not there, git is not led either.
    let named = std::fs::canonicalize(named).ok()?;
    let leads = open_in(bases, &named).map_or(Leads::Outside, Leads::Inside);
    Some((around, leads))
}

/// The folder at a path below one of these, if no link leads there.
fn open_in(bases: &[Base], path: &Path) -> Option<OwnedFd> {
    bases.iter().find_map(|base| descend(&base.opened, path.strip_prefix(&base.path).ok()?).ok())
}

/// By what the `.git` of a work tree is known, and when it changed.
fn entry(around: &OwnedFd) -> Result<(Identity, i64)> {
    let found = statat(around, ".git", AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(((found.st_dev, found.st_ino), found.st_ctime))
}

/// The folder that a repository shares with others, if it names one.
fn common(folder: &OwnedFd) -> Option<Identity> {
    let text = text_in(folder, "commondir")?;
    let path = Path::new(text.trim_end_matches(['\n', '\r']));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    identity_of(&openat(folder, path, flags, Mode::empty()).ok()?).ok()
}

/// The text of a short regular file.
fn text_in(folder: &OwnedFd, name: &str) -> Option<String> {
    let mut text = String::new();
    open_file(folder, name).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

fn open_file(folder: &OwnedFd, name: &str) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = allowed(folder, || openat(folder, name, flags, Mode::empty()))?;
    let stat = fstat(&file)?;
    let is_plain =
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size as u64 <= LONGEST;
    if is_plain { Ok(File::from(file)) } else { Err(Errno::INVAL) }
}

/// Takes from a repository what git would run and what changed `since`. `is_shared`: what counts lies in one of the user's.
fn disarm(folder: &OwnedFd, is_shared: bool, since: i64) {
    let is_new = |name: &str| changed(folder, name).is_some_and(|when| when >= since);
    for name in OBEYED.into_iter().filter(|name| is_new(name)) {
        let _ = remove(folder, OsStr::new(name));
    }
    if is_shared {
        return;
    }
    if is_new("commondir") {
        let _ = remove(folder, OsStr::new("commondir"));
    }
    if !is_new("config") {
        return;
    }
    // Settings that cannot be read, and a link to others, are not kept.
    let kept = open_file(folder, "config").ok().and_then(reduced);
    match kept {
        Some(None) => {}
        Some(Some(text)) if replace(folder, &text).is_ok() => {}
        Some(Some(_)) | None => drop(remove(folder, OsStr::new("config"))),
    }
}

/// When something last changed, in seconds; of a folder also what is in it. No command can set that time.
fn changed(folder: &OwnedFd, name: &str) -> Option<i64> {
    let own = allowed(folder, || statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)).ok()?.st_ctime;
    let inner = open_folder(Some(folder), OsStr::new(name));
    let names = inner.as_ref().ok().and_then(|inner| Some((inner, allowed(inner, || names_in(inner)).ok()?)));
    let times = names.into_iter().flat_map(|(inner, names)| {
        let time = |name: OsString| Some(statat(inner, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_ctime);
        names.into_iter().filter_map(time).collect::<Vec<_>>()
    });
    times.chain([own]).max()
}

/// The settings without those that run something, or include others; `Some(None)` where there are none of these.
fn reduced(mut config: File) -> Option<Option<String>> {
    config.rewind().ok()?;
    let mut git = Command::new("git");
    git.args(["config", "--no-includes", "--null", "--list", "--file", "-"]).env("GIT_CONFIG_NOSYSTEM", "1");
    let listed = answer_of(git, Stdio::from(config), |mut answer| {
        let mut text = Vec::new();
        answer.read_to_end(&mut text).map(|_| text)
    })?;
    let listed = String::from_utf8(listed.ok()?).ok()?;
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

#[cfg(test)]
#[path = "new_repositories_tests.rs"]
mod tests;
