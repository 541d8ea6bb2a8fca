//! Everything that affects the checks and is not part of the tree: programs, installed packages, files that git
//! ignores, and the user's own settings.
//!
//! It is looked at before the run first changes anything and again when its work is verified. Files are distinguished by
//! size and times; the time of the last status change cannot be set by a program.

mod differences;
mod outside;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::kinds::{CheckFiles, Conventions};
use super::named::is_expectation;
pub(super) use differences::Differences;
use walk::{Walk, entries};

/// Endings of files that tests write.
const WRITTEN: &[&str] =
    &["txt", "log", "out", "xml", "html", "json", "csv", "tap", "db", "sqlite", "info", "tmp"];
/// Largest program whose content is compared.
const MAX_PROGRAM: u64 = 4 * 1024 * 1024;

/// What is known of a file without reading it: size, change of content, change of status, in nanoseconds. It is kept with the
/// session and read by a later process, so it has neither device nor inode, which may have other numbers by then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp(u64, i128, i128);

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = path.symlink_metadata().ok()?;
        let time = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Some(Self(
            if found.is_dir() { 0 } else { found.size() },
            time(found.mtime(), found.mtime_nsec()),
            time(found.ctime(), found.ctime_nsec()),
        ))
    }

    /// Whether it is of a file that tests write, and was written by commands that began then.
    fn is_written(&self, path: &str, commands_began: Option<i128>) -> bool {
        let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
        WRITTEN.contains(&ending)
            && !is_expectation(path)
            && commands_began.is_some_and(|began| self.2 >= began)
    }
}

/// A program as it is found by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Program {
    /// Where it is found.
    path: PathBuf,
    /// Where that leads.
    target: PathBuf,
    stamp: Stamp,
    /// The digest of its content, unless it is large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

/// What a project is run with at one time: programs and installed packages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Toolchain {
    programs: BTreeMap<String, Program>,
    /// Installed packages: a digest of the stamps of each one's files.
    packages: BTreeMap<String, String>,
    /// A digest of the content of each package, as far as these are not too large.
    #[serde(default)]
    contents: BTreeMap<String, String>,
    /// Files that git ignores and that are checks by convention.
    ignored: BTreeMap<String, Stamp>,
    /// Files of data that git ignores.
    #[serde(default)]
    data: BTreeMap<String, Stamp>,
    /// Settings outside of the project: a digest of each one's stamps.
    outside: BTreeMap<String, String>,
    /// When they were looked at, in nanoseconds.
    #[serde(default)]
    at: i128,
    /// Whether there was too much to look at; packages and ignored files are not known then.
    pub(super) truncated: bool,
    /// What git ignores, folders by themselves: what a copy of the project needs besides the tree.
    pub(super) entries: BTreeSet<String>,
}

/// Where to look.
pub(super) struct Place<'a> {
    pub(super) project: &'a Path,
    pub(super) home: Option<&'a Path>,
    /// As in `CARGO_HOME`.
    pub(super) cargo_home: Option<&'a Path>,
    /// As in `PATH`.
    pub(super) path: &'a OsStr,
    /// What git ignores, folders by themselves with a slash at the end.
    pub(super) ignored: Vec<String>,
    pub(super) checks: &'a CheckFiles,
    /// Files that the commands name.
    pub(super) named: BTreeSet<String>,
    /// Words of the commands: a module that Python is asked to run is one.
    pub(super) words: &'a BTreeSet<String>,
}

impl Toolchain {
    /// Records the toolchain. `programs` are looked for besides the usual ones. Where Python has its packages is as
    /// `before`: another program of its name has none.
    pub(super) fn look(place: &Place<'_>, programs: &BTreeSet<String>, before: Option<&Self>) -> Self {
        let table = Conventions::get();
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_nanos());
        let at = at.ok().and_then(|at| i128::try_from(at).ok()).unwrap_or_default();
        let mut found = Self { at, entries: place.ignored.iter().cloned().collect(), ..Self::default() };
        let names = table.programs.iter().chain(programs);
        found.programs = names.filter_map(|name| Some((name.clone(), program(name, place.path)?))).collect();
        let mut walk = Walk::new(place, &mut found);
        for entry in &place.ignored {
            walk.entry(entry.trim_end_matches('/'));
        }
        let python = [before, Some(&*walk.found)].into_iter().flatten().find_map(Self::python);
        let paths = outside::paths(place, python);
        let mut settings = BTreeMap::new();
        for path in paths.into_iter().filter(|path| path.symlink_metadata().is_ok()) {
            let mut digest = Sha256::new();
            walk.digest(&path, &mut digest);
            settings.insert(path.display().to_string(), hex::encode(digest.finalize()));
        }
        let truncated = walk.is_cut();
        Self { outside: settings, truncated, ..found }
    }

    /// The interpreter whose packages are looked at.
    fn python(&self) -> Option<&Program> {
        self.programs.get("python3").or_else(|| self.programs.get("python"))
    }

    /// Names everything in them, except what git ignores and is no check.
    pub(super) fn digest(&self) -> String {
        let (entries, data) = (BTreeSet::new(), BTreeMap::new());
        let checks = Self { entries, data, at: 0, ..self.clone() };
        hex::encode(Sha256::digest(serde_json::to_vec(&checks).unwrap_or_default()))
    }

    /// Whether a module of Python of that name is installed, in the project or for one of its interpreters.
    pub(super) fn has_installed(&self, name: &str) -> bool {
        let is_it = |path: &String| {
            path.contains("-packages/")
                && path
                    .rsplit('/')
                    .next()
                    .is_some_and(|last| last.strip_suffix(".py").unwrap_or(last) == name)
        };
        let programs = self.programs.iter().filter(|(name, _)| name.starts_with("python"));
        let places = programs.flat_map(|(_, program)| [&program.path, &program.target]);
        let mut prefixes = places.filter_map(|path| path.parent()?.parent());
        self.packages.keys().any(is_it)
            || prefixes.any(|prefix| {
                let lib = prefix.join("lib");
                let versions = entries(&lib).into_iter().filter(|name| name.starts_with("python3"));
                let mut folders = versions.flat_map(|version| {
                    ["site-packages", "dist-packages"].map(|it| lib.join(&version).join(it))
                });
                folders.any(|it| it.join(name).is_dir() || it.join(format!("{name}.py")).is_file())
            })
    }
}

impl Program {
    fn at(path: PathBuf) -> Option<Self> {
        let target = path.canonicalize().ok()?;
        let stamp = Stamp::of(&target)?;
        let digest =
            (stamp.0 <= MAX_PROGRAM).then(|| rawko_tools::read_regular(&target, MAX_PROGRAM).ok()).flatten();
        let digest = digest.map(|content| hex::encode(Sha256::digest(content)));
        Some(Self { path, target, stamp, digest })
    }

    fn is_still_there(&self) -> bool {
        Self::at(self.path.clone()).is_some_and(|now| now.is_same(self))
    }

    fn is_same(&self, other: &Self) -> bool {
        let same_content = self.digest.is_some() && self.digest == other.digest;
        self.path == other.path && self.target == other.target && (self.stamp == other.stamp || same_content)
    }
}

fn program(name: &str, path: &OsStr) -> Option<Program> {
    let is_executable =
        |path: &PathBuf| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    Program::at(std::env::split_paths(path).map(|folder| folder.join(name)).find(is_executable)?)
}

#[cfg(test)]
mod tests;
