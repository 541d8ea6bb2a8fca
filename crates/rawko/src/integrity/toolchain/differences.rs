//! What is different in the toolchain since it was recorded, and what of it a copy can put right.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rawko_core::integrity::{CheckChange, CheckChangeKind};

use super::{Stamp, Toolchain, program};

/// What differs in the toolchain.
#[derive(Debug, Default)]
pub(in crate::integrity) struct Differences {
    /// What a copy of the project does not have: files that were added to what git ignores.
    pub(in crate::integrity) avoidable: Vec<CheckChange>,
    /// What cannot be put back.
    pub(in crate::integrity) lasting: Vec<CheckChange>,
    /// Programs that are not found first any more, by name, with where they are.
    pub(in crate::integrity) shadowed: BTreeMap<String, PathBuf>,
}

impl Differences {
    /// The paths that are to be left out of the original checks.
    pub(in crate::integrity) fn avoided(&self) -> BTreeSet<String> {
        self.avoidable.iter().map(|change| change.path.clone()).collect()
    }
}

impl Toolchain {
    /// What differs in `now`. Changes of installed packages are explained by a change of the dependencies, those of what tests
    /// write by commands that began at `commands_began`, in nanoseconds.
    pub(in crate::integrity) fn differences(
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

    /// Ignored files of data that are not as they were, and that commands which began at `commands_began` did not write.
    pub(in crate::integrity) fn changed_data(
        &self,
        now: &Self,
        commands_began: Option<i128>,
    ) -> BTreeSet<String> {
        let changed = changes(&self.data, &now.data).filter(|(path, how)| {
            let is_written = now.data.get(path).is_some_and(|stamp| stamp.is_written(path, commands_began));
            *how != CheckChangeKind::Added && !is_written
        });
        changed.map(|(path, _)| path).collect()
    }

    /// A program that was not looked for, if it is found by its name and may have come or changed since.
    pub(in crate::integrity) fn newer_program(&self, name: &str, path: &OsStr) -> Option<CheckChange> {
        let found = program(name, path).filter(|_| !self.programs.contains_key(name))?;
        let is_new = !self.is_older(&found.path) || !self.is_older(&found.target);
        is_new.then(|| change(&found.path.display().to_string(), CheckChangeKind::Added))
    }

    /// A file that git ignores, if it may have come or changed since. Recorded files are compared elsewhere.
    pub(in crate::integrity) fn newer_file(&self, file: &str, project: &Path) -> Option<CheckChange> {
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

    /// Whether a file has not changed since: no program can set the time of its last status change.
    fn is_older(&self, path: &Path) -> bool {
        Stamp::of(path).is_some_and(|Stamp(_, _, changed)| changed < self.at)
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
