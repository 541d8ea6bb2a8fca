//! Everything that affects the checks and is not part of the tree: programs, installed packages, files that git
//! ignores, and the user's own settings.
//!
//! It is recorded before the run first changes anything, and compared when its work is verified. Files are
//! distinguished by size and times; the time of the last status change cannot be set by a program.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rawko_core::integrity::{CheckChange, CheckChangeKind};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::kinds::{CheckFiles, Conventions};
use super::manifest;
use super::named::{is_data, is_expectation};

/// Most files that are looked at; beyond, nothing is known.
const MAX_FILES: usize = 400_000;
/// Cargo's configuration, in its folders.
const CARGO: [&str; 2] = ["config.toml", "config"];
/// Where Python keeps what it compiled.
const COMPILED: &str = "__pycache__";
/// Most bytes of installed packages that are read, so that one that is installed anew is known to be the same.
const MAX_CONTENT: u64 = 64 * 1024 * 1024;
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

/// What differs in the toolchain.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// What a copy of the project does not have: files that were added to what git ignores.
    pub(super) avoidable: Vec<CheckChange>,
    /// What cannot be put back.
    pub(super) lasting: Vec<CheckChange>,
    /// Programs that are not found first any more, by name, with where they are.
    pub(super) shadowed: BTreeMap<String, PathBuf>,
}

impl Differences {
    /// The paths that are to be left out of the original checks.
    pub(super) fn avoided(&self) -> BTreeSet<String> {
        self.avoidable.iter().map(|change| change.path.clone()).collect()
    }
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
        let mut walk = Walk { place, found: &mut found, budget: MAX_FILES, bytes: MAX_CONTENT };
        for entry in &place.ignored {
            walk.entry(entry.trim_end_matches('/'));
        }
        let python = [before, Some(&*walk.found)].into_iter().flatten().find_map(Self::python);
        let paths = outside(place, python);
        let mut settings = BTreeMap::new();
        for path in paths.into_iter().filter(|path| path.symlink_metadata().is_ok()) {
            let mut digest = Sha256::new();
            walk.digest(&path, &mut digest);
            settings.insert(path.display().to_string(), hex::encode(digest.finalize()));
        }
        let truncated = walk.budget == 0;
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

    /// A program that was not looked for, if it is found by its name and may have come or changed since.
    pub(super) fn newer_program(&self, name: &str, path: &OsStr) -> Option<CheckChange> {
        let found = program(name, path).filter(|_| !self.programs.contains_key(name))?;
        let is_new = !self.is_older(&found.path) || !self.is_older(&found.target);
        is_new.then(|| change(&found.path.display().to_string(), CheckChangeKind::Added))
    }

    /// A file that git ignores, if it may have come or changed since. Recorded files are compared elsewhere.
    pub(super) fn newer_file(&self, file: &str, project: &Path) -> Option<CheckChange> {
        let is_below = |known: &String| {
            file.strip_prefix(known.as_str()).is_some_and(|it| it.is_empty() || it.starts_with('/'))
        };
        let is_recorded =
            !self.truncated && (self.ignored.contains_key(file) || self.packages.keys().any(is_below));
        let was_ignored = |entry: &String| is_below(&entry.trim_end_matches('/').to_owned());
        let full = project.join(file);
        let target = full.canonicalize().unwrap_or_else(|_| full.clone());
        let is_old = self.entries.iter().any(was_ignored) && self.is_older(&full) && self.is_older(&target);
        (!is_recorded && !is_old).then(|| change(file, CheckChangeKind::Added))
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

    /// Ignored files of data that are not as they were, and that commands which began at `commands_began` did not write.
    pub(super) fn changed_data(&self, now: &Self, commands_began: Option<i128>) -> BTreeSet<String> {
        let changed = changes(&self.data, &now.data).filter(|(path, how)| {
            let is_written = now.data.get(path).is_some_and(|stamp| stamp.is_written(path, commands_began));
            *how != CheckChangeKind::Added && !is_written
        });
        changed.map(|(path, _)| path).collect()
    }

    /// Whether a file has not changed since: no program can set the time of its last status change.
    fn is_older(&self, path: &Path) -> bool {
        Stamp::of(path).is_some_and(|Stamp(_, _, changed)| changed < self.at)
    }

    /// What differs in `now`. Changes of installed packages are explained by a change of the dependencies, those of what tests
    /// write by commands that began at `commands_began`, in nanoseconds.
    pub(super) fn differences(
        &self,
        now: &Self,
        dependencies_changed: bool,
        commands_began: Option<i128>,
    ) -> Differences {
        let mut differences = Differences::default();
        for (name, before) in &self.programs {
            match now.programs.get(name) {
                Some(after) if after.is_same(before) => {}
                Some(after) if after.path != before.path && before.is_still_there() => {
                    differences.shadowed.insert(name.clone(), before.path.clone());
                    differences.avoidable.push(change(name, CheckChangeKind::Shadowed));
                }
                // No command names it any more.
                None if before.is_still_there() => {}
                Some(_) => differences
                    .lasting
                    .push(change(&before.path.display().to_string(), CheckChangeKind::Changed)),
                None => differences
                    .lasting
                    .push(change(&before.path.display().to_string(), CheckChangeKind::Deleted)),
            }
        }
        let outside = changes(&self.outside, &now.outside).map(|(path, how)| change(&path, how));
        differences.lasting.extend(outside);
        if self.truncated || now.truncated {
            return differences;
        }
        let by_commands =
            |path: &String| now.ignored.get(path).is_some_and(|stamp| stamp.is_written(path, commands_began));
        for (path, how) in changes(&self.ignored, &now.ignored) {
            if how == CheckChangeKind::Changed && by_commands(&path) {
                continue;
            }
            let list = if how == CheckChangeKind::Added {
                &mut differences.avoidable
            } else {
                &mut differences.lasting
            };
            list.push(change(&path, how));
        }
        if !dependencies_changed {
            // A folder of packages that was not there before was installed by the run.
            let was_there = |path: &str| self.entries.iter().any(|entry| path.starts_with(entry.as_str()));
            let is_same = |path: &str| {
                self.contents.get(path).is_some_and(|content| now.contents.get(path) == Some(content))
            };
            // One that is found before that of a folder above.
            let is_before = |path: &str| {
                let (folder, name) = path.rsplit_once("node_modules/").unwrap_or_default();
                let is_above = |known: &String| {
                    let above =
                        known.strip_suffix(name).and_then(|above| above.strip_suffix("node_modules/"));
                    above.is_some_and(|above| above != folder && folder.starts_with(above))
                };
                !name.is_empty() && self.packages.keys().any(is_above)
            };
            for (path, how) in changes(&self.packages, &now.packages).filter(|(path, _)| !is_same(path)) {
                if how == CheckChangeKind::Added && !was_there(&path) && is_before(&path) {
                    differences.avoidable.push(change(&path, how));
                } else if was_there(&path) {
                    differences.lasting.push(change(&path, how));
                }
            }
        }
        differences
    }
}

fn change(path: &str, how: CheckChangeKind) -> CheckChange {
    CheckChange { path: path.to_owned(), how }
}

fn changes<'a, T: PartialEq>(
    before: &'a BTreeMap<String, T>,
    after: &'a BTreeMap<String, T>,
) -> impl Iterator<Item = (String, CheckChangeKind)> + 'a {
    let gone = before.iter().filter_map(|(path, old)| match after.get(path) {
        Some(new) if new == old => None,
        Some(_) => Some((path.clone(), CheckChangeKind::Changed)),
        None => Some((path.clone(), CheckChangeKind::Deleted)),
    });
    let new = after.keys().filter(|path| !before.contains_key(*path));
    gone.chain(new.map(|path| (path.clone(), CheckChangeKind::Added)))
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

struct Walk<'a> {
    place: &'a Place<'a>,
    found: &'a mut Toolchain,
    budget: usize,
    /// Bytes that may still be read.
    bytes: u64,
}

impl Walk<'_> {
    fn entry(&mut self, path: &str) {
        if self.budget == 0 {
            return;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let full = self.place.project.join(path);
        let Ok(kind) = full.symlink_metadata().map(|found| found.file_type()) else { return };
        if !kind.is_dir() {
            return self.file(path);
        }
        let table = Conventions::get();
        if table.is_output(name) {
            return;
        }
        if table.is_dependencies(name) {
            return self.dependencies(path, &full);
        }
        for name in entries(&full) {
            self.entry(&format!("{path}/{name}"));
        }
    }

    fn file(&mut self, path: &str) {
        let checks = self.place.checks;
        self.budget = self.budget.saturating_sub(1);
        let is_check = checks.is_config(path) || checks.is_test(path) || checks.shadows(path);
        if (is_check || self.place.named.contains(path))
            && let Some(stamp) = Stamp::of(&self.place.project.join(path))
        {
            self.found.ignored.insert(path.to_owned(), stamp);
        } else if is_data(path)
            && let Some(stamp) = Stamp::of(&self.place.project.join(path))
        {
            self.found.data.insert(path.to_owned(), stamp);
        }
    }

    /// Each package is in a folder of its own: `node_modules/a`, `node_modules/@s/a`,
    /// `.venv/lib/python3/site-packages/a`.
    fn dependencies(&mut self, path: &str, full: &Path) {
        for name in entries(full) {
            let (path, full) = (format!("{path}/{name}"), full.join(&name));
            let holds_packages = name.starts_with('@')
                || matches!(name.as_str(), "lib" | "lib64" | "site-packages" | "dist-packages")
                || name.starts_with("python3");
            if name == COMPILED || (name.starts_with('.') && !matches!(name.as_str(), ".bin" | ".pnpm")) {
                continue;
            }
            if holds_packages && full.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                self.dependencies(&path, &full);
                continue;
            }
            let mut digest = Sha256::new();
            self.digest(&full, &mut digest);
            self.found.packages.insert(path.clone(), hex::encode(digest.finalize()));
            let mut content = Sha256::new();
            if self.content(&full, &mut content) {
                self.found.contents.insert(path, hex::encode(content.finalize()));
            }
        }
    }

    /// Whether all of a package could be read.
    fn content(&mut self, path: &Path, digest: &mut Sha256) -> bool {
        let Ok(found) = path.symlink_metadata() else { return false };
        digest.update(path.as_os_str().as_encoded_bytes());
        digest.update(format!("\0{:o}\0{}\0", found.mode(), if found.is_file() { found.len() } else { 0 }));
        if found.is_dir() {
            return entries(path)
                .iter()
                .all(|name| name == COMPILED || self.content(&path.join(name), digest));
        }
        if found.is_symlink() {
            return std::fs::read_link(path)
                .map(|to| digest.update(to.as_os_str().as_encoded_bytes()))
                .is_ok();
        }
        let is_affordable = found.is_file() && found.len() <= self.bytes;
        self.bytes = self.bytes.saturating_sub(found.len());
        is_affordable && std::fs::read(path).map(|content| digest.update(content)).is_ok()
    }

    fn digest(&mut self, path: &Path, digest: &mut Sha256) {
        if self.budget == 0 {
            return;
        }
        self.budget -= 1;
        let Ok(found) = path.symlink_metadata() else { return };
        if found.is_dir() {
            for name in entries(path) {
                if name != COMPILED && name != ".cache" {
                    self.digest(&path.join(name), digest);
                }
            }
        } else if let Some(stamp) = Stamp::of(path) {
            digest.update(path.as_os_str().as_encoded_bytes());
            digest.update(format!("\0{stamp:?}\0"));
        }
    }
}

/// The names in a folder, in order.
fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Settings of the user, plug-ins of the interpreter, and configuration in the folders above the project.
fn outside(place: &Place<'_>, python: Option<&Program>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    if let Some(home) = place.home {
        paths.extend(Conventions::get().home.iter().map(|name| home.join(name)));
    }
    for folder in site_packages(place.home, python) {
        let affects_checks = |name: &String| {
            let name = name.to_lowercase();
            name.ends_with(".pth")
                || ["sitecustomize", "usercustomize", "pytest", "_pytest", "unittest"]
                    .iter()
                    .any(|known| name.starts_with(known))
                || (!name.contains('-') && place.words.contains(name.trim_end_matches(".py")))
        };
        paths.extend(
            entries(&folder).iter().filter(|name| affects_checks(name)).map(|name| folder.join(name)),
        );
    }
    for above in place.project.ancestors().skip(1).take_while(|above| above.parent().is_some()) {
        let names = entries(above);
        let affects_checks = |name: &&String| place.checks.is_config(name) || manifest::is_manifest(name);
        paths.extend(names.iter().filter(affects_checks).map(|name| above.join(name)));
        paths.extend(CARGO.map(|name| above.join(".cargo").join(name)));
    }
    if let Some(cargo) = place.cargo_home {
        paths.extend(CARGO.map(|name| cargo.join(name)));
    }
    paths
}

/// Where Python finds modules of its own and of the user.
fn site_packages(home: Option<&Path>, python: Option<&Program>) -> Vec<PathBuf> {
    let prefix = python.and_then(|python| python.target.parent()?.parent().map(Path::to_owned));
    let local = home.map(|home| home.join(".local"));
    let prefixes = [prefix, local, Some(PathBuf::from("/usr/local"))].into_iter().flatten();
    let libraries: BTreeSet<PathBuf> = prefixes.map(|prefix| prefix.join("lib")).collect();
    let versions = libraries.iter().flat_map(|library| {
        let names = entries(library).into_iter().filter(|name| name.starts_with("python3"));
        names.map(|name| library.join(name)).collect::<Vec<_>>()
    });
    versions
        .flat_map(|version| [version.join("site-packages"), version.join("dist-packages"), version])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    struct Scene {
        folder: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let scene = Self { folder: tempfile::tempdir().unwrap() };
            scene.program("bin/python3");
            scene.write("p/node_modules/jest/index.js", "1");
            scene.write("p/build/out.bin", "1");
            scene.write("p/.env", "A=1");
            scene.write("home/.npmrc", "");
            scene.write("lib/python3.11/site-packages/pytest/__init__.py", "");
            std::fs::create_dir_all(scene.folder.path().join("early")).unwrap();
            scene
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        fn program(&self, path: &str) {
            self.write(path, "#!/bin/sh\n");
            let path = self.folder.path().join(path);
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn look(&self) -> Toolchain {
            self.look_again(None)
        }

        fn look_again(&self, before: Option<&Toolchain>) -> Toolchain {
            let root = self.folder.path();
            let path = std::env::join_paths([root.join("early"), root.join("bin")]).unwrap();
            let ignored =
                ["node_modules/", "build/", "reports/", ".env", "target/", "proof.local", "unittest.py"]
                    .map(str::to_owned)
                    .to_vec();
            Toolchain::look(
                &Place {
                    project: &root.join("p"),
                    home: Some(&root.join("home")),
                    cargo_home: Some(&root.join("cargo")),
                    path: &path,
                    ignored,
                    checks: &CheckFiles::new(&[]),
                    named: BTreeSet::from(["proof.local".to_owned()]),
                    words: &BTreeSet::from(["green".to_owned()]),
                },
                &BTreeSet::new(),
                before,
            )
        }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&Scene), avoidable: &[&str], lasting: &[&str]) {
        let scene = Scene::new();
        let before = scene.look();
        change(&scene);
        let differences = before.differences(&scene.look_again(Some(&before)), false, None);
        let text = |changes: &[CheckChange]| -> Vec<String> {
            let root = format!("{}/", scene.folder.path().display());
            changes
                .iter()
                .map(|change| format!("{} {}", change.path.replace(&root, ""), change.how.words()))
                .collect()
        };
        assert_eq!(text(&differences.avoidable), avoidable);
        assert_eq!(text(&differences.lasting), lasting);
    }

    #[test]
    fn what_affects_the_checks_is_seen() {
        check(|_| {}, &[], &[]);
        check(|scene| scene.program("early/python3"), &["python3 replaced by another program"], &[]);
        check(|scene| scene.write("bin/python3", "#!/bin/sh\nexit 0\n"), &[], &["bin/python3 changed"]);
        check(|scene| scene.write("p/build/conftest.py", ""), &["build/conftest.py added"], &[]);
        check(|scene| scene.write("p/.env", "A=2"), &[], &[".env changed"]);
        check(|scene| scene.write("p/proof.local", ""), &["proof.local added"], &[]);
        check(|scene| scene.write("p/unittest.py", ""), &["unittest.py added"], &[]);
        check(|scene| scene.write("p/node_modules/.pnpm/a/index.js", ""), &[], &["node_modules/.pnpm added"]);
        check(|scene| scene.write("p/node_modules/jest/index.js", "2"), &[], &["node_modules/jest changed"]);
        check(|scene| scene.write("home/.npmrc", "script-shell=x"), &[], &["home/.npmrc changed"]);
        check(|scene| scene.write("pytest.ini", ""), &[], &["pytest.ini added"]);
        check(|scene| scene.write(".cargo/config.toml", ""), &[], &[".cargo/config.toml added"]);
        check(|scene| scene.write("cargo/config.toml", ""), &[], &["cargo/config.toml added"]);
        check(|scene| scene.write("pyproject.toml", ""), &[], &["pyproject.toml added"]);
        let green = "home/.local/lib/python3.11/site-packages/green";
        check(|scene| scene.write(&format!("{green}/__main__.py"), ""), &[], &[&format!("{green} added")]);
    }

    #[test]
    fn what_builds_write_is_not_looked_at() {
        check(|scene| scene.write("p/build/out.bin", "2"), &[], &[]);
        check(|scene| scene.write("p/target/debug/tests/x.sh", ""), &[], &[]);
        check(|scene| scene.write("p/node_modules/.cache/x", ""), &[], &[]);
        check(|scene| scene.write("p/node_modules/jest/__pycache__/x", ""), &[], &[]);
    }

    #[test]
    fn new_dependencies_explain_new_packages() {
        let scene = Scene::new();
        let before = scene.look();
        scene.write("p/node_modules/jest/index.js", "2");
        assert!(before.differences(&scene.look(), true, None).lasting.is_empty());
    }

    #[test]
    fn a_package_that_is_installed_anew_is_the_same() {
        check(|scene| scene.write("p/node_modules/jest/index.js", "1"), &[], &[]);
    }

    /// These names were not known when the toolchain was recorded.
    #[test]
    fn what_was_not_recorded_is_the_same_if_it_is_older() {
        let scene = Scene::new();
        scene.program("bin/roundup");
        scene.write("p/reports/run", "1");
        let root = scene.folder.path();
        let path = std::env::join_paths([root.join("early"), root.join("bin")]).unwrap();
        let tick = || std::thread::sleep(std::time::Duration::from_millis(30));
        tick();
        let before = scene.look();
        tick();
        let program = |name: &str| before.newer_program(name, &path).is_some();
        let file = |name: &str| before.newer_file(name, &root.join("p")).is_some();
        assert!(!program("roundup") && !program("nothing") && !file("reports/run"));
        assert!(!file("node_modules/jest/index.js"), "that is recorded");
        std::os::unix::fs::symlink(root.join("bin/roundup"), root.join("early/roundup")).unwrap();
        std::os::unix::fs::symlink(root.join("bin/roundup"), root.join("p/reports/link")).unwrap();
        scene.write("p/fresh/run", "1");
        assert!(program("roundup") && file("reports/link") && file("fresh/run"));
        scene.write("p/reports/run", "2");
        assert!(file("reports/run"));
    }

    #[test]
    fn what_tests_write_is_no_check() {
        let scene = Scene::new();
        scene.write("p/reports/tests/last.txt", "1");
        scene.write("p/reports/tests/expected.txt", "1");
        let before = scene.look();
        scene.write("p/reports/tests/last.txt", "2");
        let lasting = |began: Option<i128>| before.differences(&scene.look(), false, began).lasting.len();
        assert_eq!((lasting(None), lasting(Some(0)), lasting(Some(i128::MAX))), (1, 0, 1));
        scene.write("p/reports/tests/expected.txt", "2");
        assert_eq!(lasting(Some(0)), 1);
    }
}
