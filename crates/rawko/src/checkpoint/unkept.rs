//! Changes that no checkpoint keeps: in folders outside the project that agents may write to, and in ignored files that
//! programs on the user's machine obey later.
//!
//! They can be named, but neither shown nor restored. A change shows in the time that the kernel writes on a file,
//! which no program can choose. Who made it is not known.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rawko_core::facts::{DiffStat, TreeInspection, runs_later};
use rawko_core::text::hex;
use rawko_tools::protected_name;
use sha2::{Digest as _, Sha256};

use super::Checkpoints;
use super::error::CheckpointError;
use super::inspect::{LISTED, LISTED_OF_EXECUTION, NAMED, one_line};

/// Files and folders that are looked at.
const MAX_ENTRIES: usize = 20_000;
/// How far the times of files may lag the clock, in milliseconds: the kernel takes them from its last tick.
const CLOCK_LAG_MS: u64 = 10;
/// Folders that tools fill, with too much to be looked through.
const FILLED: [&str; 5] = ["__pycache__", "node_modules", "target", "venv", ".venv"];
/// Added to the name of what lies outside the project.
const OUTSIDE: &str = "(outside the project)";

/// Seconds since 1970, and their fraction in nanoseconds.
type Time = (i64, i64);

/// A file that was changed, or a folder in which something was removed or that was not looked through: its path ends in `/`.
#[derive(Debug, PartialEq, Eq)]
struct UnkeptChange {
    path: String,
    at: Time,
}

impl Checkpoints {
    /// The same as [`Self::inspect`], with what is not kept: what was changed in `folders` outside the project, and files that
    /// git ignores and programs obey later.
    ///
    /// # Errors
    /// As for [`Self::inspect`].
    pub(crate) fn inspect_with(
        &self,
        iteration: u32,
        folders: &[PathBuf],
    ) -> Result<TreeInspection, CheckpointError> {
        let store = self.store()?;
        let names = store.names()?;
        let (mut seen, kept_now) = self.look(&store, &names, iteration)?;
        // What all programs of the user, or of the machine, change there says nothing of the run.
        let home = self.user.home.as_ref().map(Path::new);
        let holds_all = |folder: &&PathBuf| {
            folder.parent().is_none() || home.is_some_and(|home| home.starts_with(folder))
        };
        let folders: Vec<&PathBuf> = folders.iter().filter(|folder| !holds_all(folder)).collect();
        // The comparison of the trees has judged the others.
        let is_ignored = |it: &UnkeptChange| !kept_now.contains(it.path.as_bytes());
        let later: Vec<UnkeptChange> =
            run_later(&store.place.project).into_iter().filter(is_ignored).collect();
        if folders.is_empty() && later.is_empty() {
            return Ok(seen);
        }
        let kept = self.of_this_task(names);
        let began = |id: Option<&String>| -> Result<Option<Time>, CheckpointError> {
            let Some(id) = id else { return Ok(None) };
            Ok(store.message(id)?.at.map(time_of))
        };
        let (run, execution) = (began(kept.values().next())?, began(kept.get(&iteration))?);
        let Some(run) = run else { return Ok(seen) };
        seen.runs_later.extend(later.into_iter().filter(|it| it.at >= run).map(|it| it.path));
        let changed = changed_since(&folders, &store.place.project, run, MAX_ENTRIES);
        seen.runs_later.extend(changed.iter().filter(|it| runs_later(&it.path)).map(|it| it.path.clone()));
        let of_execution = |it: &&UnkeptChange| execution.is_some_and(|since| it.at >= since);
        let by_execution: Vec<&UnkeptChange> = changed.iter().filter(of_execution).collect();
        add(&mut seen.execution, &mut seen.execution_files, LISTED_OF_EXECUTION, &by_execution);
        let by_run: Vec<&UnkeptChange> = changed.iter().collect();
        add(&mut seen.run, &mut seen.files, LISTED, &by_run);
        seen.outside = (!changed.is_empty()).then(|| name_of(&changed));
        Ok(seen)
    }
}

fn add(figures: &mut DiffStat, files: &mut Vec<String>, most: usize, changed: &[&UnkeptChange]) {
    figures.files = figures.files.saturating_add(u32::try_from(changed.len()).unwrap_or(u32::MAX));
    let names = changed.iter().map(|it| format!("{} {OUTSIDE}", one_line(&it.path)));
    figures.names.extend(names.take(NAMED.saturating_sub(figures.names.len())));
    let room = most.saturating_sub(files.len());
    files.extend(changed.iter().take(room).map(|it| it.path.clone()));
}

/// The time of a kept tree, in milliseconds since 1970, as files have it.
fn time_of(kept_at: u64) -> Time {
    let earliest = i64::try_from(kept_at.saturating_sub(CLOCK_LAG_MS)).unwrap_or(i64::MAX);
    (earliest / 1_000, earliest % 1_000 * 1_000_000)
}

/// Names a state of what was changed.
fn name_of(changed: &[UnkeptChange]) -> String {
    let mut hash = Sha256::new();
    for UnkeptChange { path, at } in changed {
        hash.update(format!("{path}\0{at:?}\0"));
    }
    hex(&hash.finalize())
}

/// What was changed in `folders` since then, by path; at most `most` entries of each are looked at. The project is left out.
fn changed_since(folders: &[&PathBuf], project: &Path, since: Time, most: usize) -> Vec<UnkeptChange> {
    let folders: BTreeSet<&Path> = folders.iter().map(|folder| folder.as_path()).collect();
    let mut changed = Vec::new();
    for root in &folders {
        if folders.iter().any(|other| other != root && root.starts_with(other)) {
            continue;
        }
        let (mut entries, begin) = (0, changed.len());
        let mut open = vec![root.to_path_buf()];
        while let Some(path) = open.pop() {
            let Ok(found) = path.symlink_metadata() else { continue };
            let at = changed_at(&found);
            let is_new = at >= since;
            let shown = path.to_string_lossy();
            if !found.is_dir() {
                changed.extend(is_new.then(|| UnkeptChange { path: shown.into_owned(), at }));
                continue;
            }
            let mut inside: Vec<PathBuf> =
                std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            // What git, rawko and other agents keep for themselves is no work.
            inside.retain(|path| {
                path != project
                    && path.file_name().is_none_or(|name| protected_name(Path::new(name)).is_none())
            });
            entries += inside.len();
            if entries > most {
                // There may be more, if there is something.
                if changed.len() > begin {
                    changed.push(folder(root, at));
                }
                break;
            }
            // What is new in it explains why the folder is.
            let is_explained = || {
                inside
                    .iter()
                    .any(|path| path.symlink_metadata().is_ok_and(|found| changed_at(&found) >= since))
            };
            if is_new && !is_explained() {
                changed.push(folder(&path, at));
            }
            open.extend(inside);
        }
    }
    changed.sort_by(|one, other| one.path.cmp(&other.path));
    changed
}

/// The files of the project that programs obey later, by their paths below it.
fn run_later(project: &Path) -> Vec<UnkeptChange> {
    let (mut found, mut entries) = (Vec::new(), 0);
    let mut open = vec![project.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                return found;
            }
            let (path, name) = (entry.path(), entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !name.to_str().is_some_and(|name| FILLED.contains(&name))
                    && protected_name(Path::new(&name)).is_none()
                {
                    open.push(path);
                }
                continue;
            }
            let Some(inside) = path.strip_prefix(project).ok().and_then(Path::to_str) else { continue };
            if runs_later(inside)
                && let Ok(metadata) = path.symlink_metadata()
            {
                found.push(UnkeptChange { path: inside.to_owned(), at: changed_at(&metadata) });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// A folder, as one that was changed is named.
fn folder(path: &Path, at: Time) -> UnkeptChange {
    UnkeptChange { path: format!("{}/", path.to_string_lossy().trim_end_matches('/')), at }
}

fn changed_at(found: &Metadata) -> Time {
    (found.ctime(), found.ctime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(changed: &[UnkeptChange], root: &Path) -> Vec<String> {
        let below = |it: &UnkeptChange| it.path.strip_prefix(root.to_str().unwrap()).unwrap().to_owned();
        changed.iter().map(below).collect()
    }

    #[test]
    fn files_that_run_later_are_found_where_people_keep_them() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            ".envrc",
            ".vscode/tasks.json",
            "web/.npmrc",
            "node_modules/a/.npmrc",
            ".git/config",
            "src/main.rs",
        ] {
            std::fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
            std::fs::write(folder.path().join(path), "x").unwrap();
        }
        let found: Vec<String> = run_later(folder.path()).into_iter().map(|it| it.path).collect();
        assert_eq!(found, [".envrc", ".vscode/tasks.json", "web/.npmrc"]);
    }

    #[test]
    fn files_and_folders_with_removed_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let write = |path: &str| {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), "x").unwrap();
        };
        let at = |path: &str| changed_at(&root.join(path).symlink_metadata().unwrap());
        ["a/old.txt", "b/gone.txt", "p/in_project.txt"].iter().for_each(|path| write(path));
        let before = at("p/in_project.txt");
        while {
            write("now");
            at("now")
        } <= before
        {
            std::thread::yield_now();
        }
        let since = at("now");
        std::fs::remove_file(root.join("b/gone.txt")).unwrap();
        ["a/new/x.txt", "p/in_project.txt"].iter().for_each(|path| write(path));
        let (inner, all) = (root.join("a"), i64::MAX);
        let folders = [&root, &inner];
        let changed = changed_since(&folders, &root.join("p"), since, 100);
        assert_eq!(paths(&changed, &root), ["/a/new/x.txt", "/b/", "/now"]);
        assert_eq!(paths(&changed_since(&folders, &root.join("p"), (all, 0), 100), &root), [""; 0]);
        // In a folder with too much, only what was found says that there may be more. Others are looked at all the same.
        let (outer, small) = (root.join("many"), root.join("small"));
        ["many/1", "many/2", "many/deep/3", "many/deep/4", "small/1"].iter().for_each(|path| write(path));
        let folders = [&outer, &small];
        assert_eq!(paths(&changed_since(&folders, &root, (all, 0), 3), &root), [""; 0]);
        let found = paths(&changed_since(&folders, &root, since, 3), &root);
        assert_eq!(found.last().map(String::as_str), Some("/small/1"));
        assert_ne!(name_of(&changed), name_of(&changed[1..]));
    }
}
