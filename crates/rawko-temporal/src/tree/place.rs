//! A worker's folder: `mirrors/`, `trees/` and the `locks/` of both.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rawko_tools::program_outside;

use super::error::TreeError;
use super::files::{is_folder, make_folder, remove};
use super::lock::TreeLock;
use super::names::{Repository, check_name, comparable};

/// Who makes the commits of a fleet, by name and address.
pub(crate) const AUTHOR: (&str, &str) = ("rawko", "rawko@localhost");
/// What git may take with the network.
const NETWORK: Duration = Duration::from_secs(30 * 60);
/// How long a tree is waited for: a process that was just killed may not have ended yet.
const PATIENCE: Duration = Duration::from_millis(400);
/// How many trees a task may have on one worker.
const MOST_TREES: usize = 8;

/// Ends the name of a mirror or tree that is being made. `~` is in no other name but those of a task's further trees.
const UNFINISHED: &str = "~new";

/// Where a mirror or tree is made before it takes its place.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

/// Where a worker keeps mirrors and trees. Several workers of a machine may share one.
#[derive(Debug, Clone)]
pub struct WorkPlace {
    folder: PathBuf,
    pub(super) git: PathBuf,
    pub(super) author: (String, String),
    pub(super) network: Duration,
    repositories: Allowed,
}

/// The repositories that a work place is for.
#[derive(Debug, Clone, Default)]
enum Allowed {
    #[default]
    All,
    These(GlobSet),
}

impl WorkPlace {
    /// The work place in this folder, which is made if it is not there.
    ///
    /// # Errors
    /// If it cannot be made, or there is no git program.
    pub fn new(folder: &Path) -> Result<Self, TreeError> {
        for name in ["mirrors", "trees", "locks"] {
            make_folder(&folder.join(name))?;
        }
        let folder = folder.canonicalize().map_err(|error| TreeError::io("find", folder, error))?;
        // It is named in a file that has one path a line.
        if folder.as_os_str().as_encoded_bytes().contains(&b'\n') {
            let why = "it contains a line break";
            return Err(TreeError::Name { what: "work place", given: format!("{folder:?}"), why });
        }
        let path = std::env::var_os("PATH");
        let git = program_outside("git", path.as_deref(), &[&folder]).ok_or(TreeError::NoGit)?;
        let author = (AUTHOR.0.to_owned(), AUTHOR.1.to_owned());
        Ok(Self { folder, git, author, network: NETWORK, repositories: Allowed::All })
    }

    /// Commits are by this author.
    ///
    /// # Errors
    /// If git could not write the name or the address.
    pub fn with_author(mut self, name: &str, email: &str) -> Result<Self, TreeError> {
        for (what, given) in [("name of an author", name), ("address of an author", email)] {
            let is_plain = |c: char| !c.is_control() && !matches!(c, '<' | '>');
            if !given.chars().any(char::is_alphanumeric) || !given.chars().all(is_plain) {
                let why = "it needs a letter or digit, and no `<`, `>` or control character";
                return Err(TreeError::Name { what, given: given.escape_debug().to_string(), why });
            }
        }
        self.author = (name.to_owned(), email.to_owned());
        Ok(self)
    }

    /// A clone, fetch or push may take so long, and as long a mirror is waited for that others fetch into.
    #[must_use]
    pub fn with_network_time(mut self, time: Duration) -> Self {
        self.network = time;
        self
    }

    /// It works on no repositories but those whose addresses match one of these patterns. In a pattern `*` is any text without a
    /// `/`, and `**` any text: `https://git.example.com/shop/*`. Without a pattern, it works on none.
    ///
    /// # Errors
    /// If a pattern is not one.
    pub fn with_repositories(mut self, patterns: &[String]) -> Result<Self, TreeError> {
        let mut all = GlobSetBuilder::new();
        for pattern in patterns {
            let bad = |_| TreeError::Name {
                what: "pattern for addresses of repositories",
                given: pattern.escape_debug().to_string(),
                why: "write it like https://git.example.com/shop/*",
            };
            all.add(GlobBuilder::new(&comparable(pattern)).literal_separator(true).build().map_err(bad)?);
        }
        let all = all.build().map_err(|_| TreeError::Name {
            what: "list of patterns for addresses of repositories",
            given: patterns.join(" ").escape_debug().to_string(),
            why: "it is too large",
        })?;
        self.repositories = Allowed::These(all);
        Ok(self)
    }

    /// Checks that it may work on this repository.
    pub(super) fn check(&self, repository: &Repository) -> Result<(), TreeError> {
        let is_allowed = match &self.repositories {
            Allowed::All => true,
            Allowed::These(patterns) => {
                repository.is_plain() && patterns.is_match(comparable(repository.url()))
            }
        };
        if is_allowed { Ok(()) } else { Err(TreeError::NotAllowed { repository: repository.to_string() }) }
    }

    pub(super) fn mirror(&self, name: &str) -> PathBuf {
        self.folder.join("mirrors").join(name)
    }

    pub(super) fn lock_mirror(&self, name: &str) -> Result<TreeLock, TreeError> {
        let path = self.folder.join("locks").join(format!("mirror-{name}"));
        TreeLock::acquire(&path, self.network)?.ok_or(TreeError::Busy {
            path,
            seconds: self.network.as_secs(),
            hint: "it clones or fetches a large repository, or hangs; give the work place more time, or end it",
        })
    }

    /// A tree for the task that no process works in, locked. As a rule, the first one. If another process has that tree
    /// (perhaps one that hangs and was given up), the next one.
    pub(super) fn take_tree(&self, task: &str) -> Result<(TreeLock, PathBuf), TreeError> {
        let mut patience = PATIENCE;
        for number in 0..MOST_TREES {
            let (lock, tree) = self.tree(task, number);
            if let Some(lock) = TreeLock::acquire(&lock, patience)? {
                return Ok((lock, tree));
            }
            patience = Duration::ZERO;
        }
        let hint =
            "and so are all other trees of the task on this machine: end the processes that work on it";
        Err(TreeError::Busy { path: self.tree(task, 0).0, seconds: 0, hint })
    }

    /// The lock and the folder of one of a task's trees. `~` is in no task's name.
    fn tree(&self, task: &str, number: usize) -> (PathBuf, PathBuf) {
        let name = if number == 0 { task.to_owned() } else { format!("{task}~{number}") };
        (self.folder.join("locks").join(format!("tree-{name}")), self.folder.join("trees").join(name))
    }
}

/// Removes the trees of a task that has ended, with all that is in them.
///
/// # Errors
/// [`TreeError::Busy`] if a process still works in one.
pub fn forget(place: &WorkPlace, task: &str) -> Result<(), TreeError> {
    check_name("name of a task", task)?;
    let mut busy = None;
    for number in 0..MOST_TREES {
        let (lock, tree) = place.tree(task, number);
        if !is_folder(&tree) && lock.symlink_metadata().is_err() {
            continue;
        }
        match TreeLock::acquire(&lock, PATIENCE)? {
            Some(held) => {
                remove(&tree)?;
                remove(&unfinished(&tree))?;
                held.remove();
            }
            None => busy = Some(lock),
        }
    }
    let hint = "the task still runs on this machine: try again when it has ended";
    busy.map_or(Ok(()), |path| Err(TreeError::Busy { path, seconds: 0, hint }))
}

/// Removes the mirrors that no tree borrows from and into which nothing was fetched for so long. Gives how many.
///
/// # Errors
/// If the work place cannot be read, or a mirror not be removed.
pub fn forget_unused_mirrors(place: &WorkPlace, unused_for: Duration) -> Result<usize, TreeError> {
    let mirrors = place.folder.join("mirrors");
    let mut removed = 0;
    for mirror in entries(&mirrors)? {
        let Some(name) = mirror.file_name().and_then(|name| name.to_str()) else { continue };
        // Half of one, which only its lock's holder makes.
        let name = name.strip_suffix(UNFINISHED).unwrap_or(name);
        let lock = place.folder.join("locks").join(format!("mirror-{name}"));
        let Some(lock) = TreeLock::acquire(&lock, Duration::ZERO)? else { continue };
        let used = mirror.symlink_metadata().and_then(|found| found.modified());
        let age = used.ok().and_then(|used| SystemTime::now().duration_since(used).ok()).unwrap_or_default();
        if age < unused_for || is_borrowed(place, &mirror)? {
            continue;
        }
        remove(&mirror)?;
        lock.remove();
        removed += 1;
    }
    Ok(removed)
}

fn is_borrowed(place: &WorkPlace, mirror: &Path) -> Result<bool, TreeError> {
    let borrows = |tree: &PathBuf| {
        let named = std::fs::read_to_string(tree.join(".git/objects/info/alternates")).unwrap_or_default();
        named.lines().any(|line| Path::new(line).starts_with(mirror))
    };
    Ok(entries(&place.folder.join("trees"))?.iter().any(borrows))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, TreeError> {
    let cannot = |error| TreeError::io("list", folder, error);
    let entries = std::fs::read_dir(folder).map_err(cannot)?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(cannot)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_place_is_for_what_its_patterns_match_and_for_nothing_that_only_looks_like_it() {
        let folder = tempfile::tempdir().unwrap();
        let patterns = [
            "https://git.example.com/shop/*",
            "https://*.example.org/**",
            "*@example.com:shop/*",
            "/srv/git/**",
        ];
        let patterns = patterns.map(str::to_owned);
        let all = WorkPlace::new(folder.path()).unwrap();
        let some = all.clone().with_repositories(&patterns).unwrap();
        let none = all.clone().with_repositories(&[]).unwrap();
        let check = |place: &WorkPlace, url: &str| place.check(&url.parse().unwrap()).is_ok();
        for url in [
            "https://git.example.com/shop/web.git",
            "https://a.example.org/x/y",
            "https://me@a.example.org/x",
            "git@example.com:shop/web",
            "/srv/git/a/b",
        ] {
            assert!(check(&all, url) && check(&some, url) && !check(&none, url), "{url}");
        }
        for url in [
            "https://git.example.com/other/web.git",
            "https://git.example.com/shop/../other/web.git",
            "https://git.example.com/shop/a/b",
            "http://git.example.com/shop/web.git",
            "https://git.example.com:8443/shop/web.git",
            "https://a.example.org/%2e%2e/x",
            "https://evil.test#.example.org/x",
            "https://evil.test?.example.org/x",
            "https://x@evil.test@a.example.org/x",
            "https://evil.test\\.example.org/x",
            "git@example.com:other/web",
            "git@example.com:../web",
            "evil:x@example.com:shop/web",
            "evil:git@example.com:shop/web",
            "evil:x/git@example.com:shop/web",
            "file:///srv/git/a",
            "/srv/other",
        ] {
            assert!(check(&all, url) && !check(&some, url), "{url}");
        }
        assert!(all.with_repositories(&["https://[".to_owned()]).is_err());
    }
}
