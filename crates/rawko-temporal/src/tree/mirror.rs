//! The mirror of a repository: what its branches and tags hold, but not the branches of tasks.
//!
//! Trees borrow its objects, so none is ever removed: it is not cleaned up by git, and its packs are only put together.

use std::path::{Path, PathBuf};

use super::error::TreeError;
use super::files::{is_folder, make_folder, remove, set, sweep};
use super::git::{self, TreeGit, other_end};
use super::lock::TreeLock;
use super::names::{BRANCHES, CommitId, Repository, check_revision};
use super::place::{WorkPlace, unfinished};

/// From so many packs on they are put together.
const MOST_PACKS: usize = 40;
/// The fewest digits of a shortened id.
const FEWEST_DIGITS: usize = 7;

/// The commit that a branch, tag or commit of a repository is; without a name, the one its `HEAD` is at. Only a commit's
/// id needs the mirror: names are asked of the repository.
///
/// # Errors
/// If the repository cannot be reached or has nothing of that name.
pub fn resolve(
    place: &WorkPlace,
    repository: &Repository,
    revision: Option<&str>,
) -> Result<CommitId, TreeError> {
    let Some(revision) = revision else { return head_of(place, repository) };
    check_revision(revision)?;
    if let Ok(commit) = revision.parse::<CommitId>() {
        return resolve_id(place, repository, &commit);
    }
    if let Some(commit) = named(place, repository, revision)? {
        return Ok(commit);
    }
    let missing = || TreeError::Missing {
        repository: repository.to_string(),
        what: format!("branch, tag or commit `{revision}`"),
    };
    let is_hex = |c: u8| c.is_ascii_digit() || matches!(c, b'a'..=b'f');
    if revision.len() < FEWEST_DIGITS || !revision.bytes().all(is_hex) {
        return Err(missing());
    }
    let format = head_of(place, repository)?;
    let mirror = Mirror::open(place, repository, format.format())?;
    mirror.update()?;
    let ask = mirror.ask("find a commit")?.args(["rev-parse", "--verify", "--quiet"]);
    let ask = ask.args(["--end-of-options", &format!("{revision}^{{commit}}")]);
    ask.text().and_then(|id| id.parse()).map_err(|_| missing())
}

fn resolve_id(place: &WorkPlace, repository: &Repository, commit: &CommitId) -> Result<CommitId, TreeError> {
    let mirror = Mirror::open(place, repository, commit.format())?;
    if !mirror.has(commit) {
        mirror.update()?;
    }
    if !mirror.has(commit) {
        // Held by a branch of a task, or by none.
        fetch_commit(place, &mirror.lock, &mirror.folder, repository, commit)?;
    }
    Ok(commit.clone())
}

fn head_of(place: &WorkPlace, repository: &Repository) -> Result<CommitId, TreeError> {
    let found = listed(place, repository, &["HEAD".to_owned()])?;
    found.into_iter().find(|(name, _)| name == "HEAD").map(|(_, commit)| commit).ok_or_else(|| {
        TreeError::Missing { repository: repository.to_string(), what: "commit at its HEAD".to_owned() }
    })
}

fn named(place: &WorkPlace, repository: &Repository, revision: &str) -> Result<Option<CommitId>, TreeError> {
    // `^{}` is the commit of a tag that is an object of its own.
    let names = if revision.starts_with("refs/") {
        vec![format!("{revision}^{{}}"), revision.to_owned()]
    } else {
        let (branch, tag) = (format!("refs/heads/{revision}"), format!("refs/tags/{revision}"));
        vec![branch, format!("{tag}^{{}}"), tag]
    };
    let found = listed(place, repository, &names)?;
    Ok(names.iter().find_map(|name| Some(found.iter().find(|(found, _)| found == name)?.1.clone())))
}

/// What a repository has of these refs.
fn listed(
    place: &WorkPlace,
    repository: &Repository,
    names: &[String],
) -> Result<Vec<(String, CommitId)>, TreeError> {
    let ask = git::remote(place, None, "list the branches of", None, repository)?;
    let ask = ask.args(["ls-remote", "--quiet"]).args(other_end(place, repository, "upload-pack"));
    let answer = ask.args(["--", repository.url()]).args(names).text()?;
    answer
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(id, name)| Ok((name.to_owned(), id.parse()?)))
        .collect()
}

/// A mirror that no other process writes in the meantime.
pub(super) struct Mirror<'a> {
    place: &'a WorkPlace,
    repository: &'a Repository,
    folder: PathBuf,
    lock: TreeLock,
    is_new: bool,
}

impl<'a> Mirror<'a> {
    /// Opens the mirror, and makes it if there is none. `format` is what git calls the hash of the repository.
    pub(super) fn open(
        place: &'a WorkPlace,
        repository: &'a Repository,
        format: &str,
    ) -> Result<Self, TreeError> {
        let name = repository.mirror_name();
        let folder = place.mirror(&name);
        let lock = place.lock_mirror(&name)?;
        let mut mirror = Self { place, repository, folder, lock, is_new: false };
        if is_whole(&mirror.folder) {
            return Ok(mirror);
        }
        let (at_last, new) = (mirror.folder.clone(), unfinished(&mirror.folder));
        remove(&new)?;
        make_folder(&new)?;
        mirror.folder.clone_from(&new);
        let format = format!("--object-format={format}");
        mirror.ask("make a mirror")?.args(["init", "--quiet", "--bare", "--template=", &format]).answer()?;
        set(&new.join("rawko-url"), &format!("{}\n", repository.url()))?;
        mirror.fetch()?;
        remove(&at_last)?;
        std::fs::rename(&new, &at_last).map_err(|error| TreeError::io("put in place", &new, error))?;
        mirror.folder = at_last;
        mirror.is_new = true;
        Ok(mirror)
    }

    /// Where its objects are.
    pub(super) fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    /// Fetches what the repository has by now.
    pub(super) fn update(&self) -> Result<(), TreeError> {
        if self.is_new {
            return Ok(());
        }
        sweep(&self.folder)?;
        self.fetch()?;
        self.put_together()
    }

    fn fetch(&self) -> Result<(), TreeError> {
        let ask =
            git::remote(self.place, Some(&self.lock), "fetch from", Some(&self.folder), self.repository)?;
        let ask = ask.args(["fetch", "--quiet", "--prune", "--no-tags", "--force", "--no-write-fetch-head"]);
        let ask = ask.args(other_end(self.place, self.repository, "upload-pack"));
        let ask = ask.args(["--", self.repository.url()]);
        let without = format!("^refs/heads/{BRANCHES}*");
        ask.args(["+refs/heads/*:refs/heads/*", &without, "+refs/tags/*:refs/tags/*"]).answer().map(drop)
    }

    /// Many small packs make git slow. No object is lost by this, whether a branch has it or not.
    fn put_together(&self) -> Result<(), TreeError> {
        let packs = std::fs::read_dir(self.objects().join("pack")).into_iter().flatten().flatten();
        let is_pack = |name: std::ffi::OsString| name.as_encoded_bytes().ends_with(b".pack");
        if packs.filter(|entry| is_pack(entry.file_name())).count() < MOST_PACKS {
            return Ok(());
        }
        let args = ["repack", "--quiet", "-d", "--geometric=2", "--no-write-bitmap-index"];
        self.ask("put packs together")?.args(args).answer().map(drop)
    }

    fn has(&self, commit: &CommitId) -> bool {
        let has = || has(self.ask("find a commit")?, commit);
        has().is_ok()
    }

    fn ask(&self, doing: &'static str) -> Result<TreeGit, TreeError> {
        git::local(self.place, &self.lock, doing, &self.folder)
    }
}

/// Whether git has the commit.
pub(super) fn has(ask: TreeGit, commit: &CommitId) -> Result<(), TreeError> {
    ask.args(["cat-file", "-e", &format!("{commit}^{{commit}}")]).answer().map(drop)
}

/// Fetches a commit by its id, which servers give that hold it.
pub(super) fn fetch_commit(
    place: &WorkPlace,
    lock: &TreeLock,
    git_folder: &Path,
    repository: &Repository,
    commit: &CommitId,
) -> Result<(), TreeError> {
    let ask = git::remote(place, Some(lock), "fetch a commit from", Some(git_folder), repository)?;
    let ask = ask.args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"]);
    let ask = ask.args(other_end(place, repository, "upload-pack"));
    ask.args(["--", repository.url(), commit.as_str()]).answer().map(drop).map_err(|error| match error {
        TreeError::Remote { message, .. } if is_unknown(&message) => {
            TreeError::Missing { repository: repository.to_string(), what: format!("commit {commit}") }
        }
        other => other,
    })
}

/// Whether git says that the other end has no such object or ref. It says so in English (`LC_ALL`).
pub(super) fn is_unknown(message: &str) -> bool {
    ["not our ref", "couldn't find remote ref", "unadvertised object"]
        .iter()
        .any(|part| message.contains(part))
}

fn is_whole(folder: &Path) -> bool {
    is_folder(&folder.join("objects")) && is_folder(&folder.join("refs")) && folder.join("HEAD").is_file()
}
