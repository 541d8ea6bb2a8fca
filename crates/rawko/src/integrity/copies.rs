//! Commands that are run in copies of the tree, to compare what a run left with what it began with: checks that agents saw
//! fail, and new tests on the old code.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rawko_core::facts::{CheckResult, CommandRun, OtherCheck};
use rawko_core::integrity::Baseline;

use super::comparison::Comparison;
use super::kinds::CheckFiles;
use super::replica::Replica;
use super::{IntegrityGuard, LISTED, Terms};
use crate::checkpoint::{Fate, Version};

/// Longest time of a command in such a copy.
const TIME: Duration = Duration::from_secs(120);

/// A copy of the tree, and what it says beside that.
struct Copy {
    replica: Replica,
    /// The files in which the tree as it is differs from the one that the run began with.
    changed: Vec<String>,
    /// Whether what surrounds the project is as it was at the beginning.
    is_sound: bool,
}

/// Whether a text names that file, and not another one whose name holds it.
fn names(text: &str, path: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.match_indices(path).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(is_part);
        let after = text[at + path.len()..].chars().next().is_some_and(|c| is_part(c) && c != '.');
        !before && !after
    })
}

impl IntegrityGuard {
    /// Runs checks that agents saw fail, in copies of the tree as it is and, if they fail there too, as it was.
    pub(crate) async fn others(self: &Arc<Self>, terms: &Terms, commands: &[String]) -> Vec<OtherCheck> {
        let runner = self.runner.offline();
        let timeout = terms.timeout.min(TIME);
        let mut others = Vec::new();
        let Some(now) = self.copy(terms, |_, _| Version::Now).await else { return others };
        let runs = now.replica.run(&runner, commands, timeout).await;
        let red: Vec<String> =
            runs.iter().filter(|run| !run.passed()).map(|run| run.command.clone()).collect();
        let mut before = Vec::new();
        if !red.is_empty()
            && let Some(first) = self.copy(terms, |_, _| Version::First).await.filter(|copy| copy.is_sound)
        {
            before = first.replica.run(&runner, &red, timeout).await;
            let _ = tokio::task::spawn_blocking(move || drop(first)).await;
        }
        for run in runs {
            let names_changes = now.changed.iter().any(|path| names(&run.output, path));
            let before = before.iter().find(|before| before.command == run.command).cloned();
            others.push(OtherCheck { now: run, before, names_changes });
        }
        let _ = tokio::task::spawn_blocking(move || drop(now)).await;
        others
    }

    /// Tests that the run added or changed, and that fail on the code of the beginning: they show that what they test is new.
    /// Only of commands that passed there without them.
    pub(crate) async fn new_tests(self: &Arc<Self>, terms: &Terms, baseline: &Baseline) -> Vec<String> {
        let passed = |command: &&String| {
            baseline.runs.iter().any(|run| run.command == **command && run.result() == CheckResult::Passed)
        };
        let commands: Vec<String> = terms.commands.iter().filter(passed).cloned().collect();
        let files = CheckFiles::new(&terms.tests);
        let is_new =
            move |path: &str, fate: Fate| matches!(fate, Fate::Added | Fate::Changed) && files.is_test(path);
        if commands.is_empty() {
            return Vec::new();
        }
        let Some(comparison) = self.compared(terms).await.filter(|it| !it.is_bound) else {
            return Vec::new();
        };
        let fates = comparison.trees.fates();
        let tests: Vec<String> =
            fates.iter().filter(|(path, fate)| is_new(path, **fate)).map(|(path, _)| path.clone()).collect();
        if tests.is_empty() {
            return Vec::new();
        }
        let choose = |path: &str, fate| if is_new(path, fate) { Version::Now } else { Version::First };
        let copy = self.copy_of(comparison, choose).await;
        let Some(copy) = copy.filter(|copy| copy.is_sound) else { return Vec::new() };
        let timeout = terms.timeout.min(TIME);
        let runs = copy.replica.run(&self.counting_runner(), &commands, timeout).await;
        let _ = tokio::task::spawn_blocking(move || drop(copy)).await;
        let failed = runs.into_iter().filter(|run| run.result() == CheckResult::Failed);
        let named = |run: CommandRun| if run.failures.is_empty() { tests.clone() } else { run.failures };
        failed.flat_map(named).take(LISTED).collect()
    }

    /// Whether the commands pass in a copy of the tree as it is. Else what failed in a copy of the first tree says nothing: it
    /// may have lacked what git ignores.
    pub(crate) async fn passes_in_a_copy(self: &Arc<Self>, terms: &Terms) -> bool {
        let Some(comparison) = self.compared(terms).await.filter(|it| !it.is_bound) else { return false };
        let Some(copy) = self.copy_of(comparison, |_, _| Version::Now).await else { return false };
        let runs = copy.replica.run(&self.runner, &terms.commands, terms.timeout.min(TIME)).await;
        let _ = tokio::task::spawn_blocking(move || drop(copy)).await;
        runs.iter().all(CommandRun::passed)
    }

    async fn compared(self: &Arc<Self>, terms: &Terms) -> Option<Comparison> {
        let (guard, own) = (Arc::clone(self), terms.clone());
        tokio::task::spawn_blocking(move || guard.compare(&own)).await.ok()?.ok()?
    }

    async fn copy(self: &Arc<Self>, terms: &Terms, choose: impl Fn(&str, Fate) -> Version) -> Option<Copy> {
        self.copy_of(self.compared(terms).await?, choose).await
    }

    /// A copy of the tree with the version of each file that `choose` picks for it. `None` if it cannot be made.
    async fn copy_of(&self, comparison: Comparison, choose: impl Fn(&str, Fate) -> Version) -> Option<Copy> {
        let with_target = self.runner.has_layers();
        let Comparison { trees, differences, entries, .. } = comparison;
        let fates = trees.fates();
        let versions: BTreeMap<String, Version> =
            fates.iter().map(|(path, fate)| (path.clone(), choose(path, *fate))).collect();
        let changed = fates.into_iter().filter(|(_, fate)| *fate != Fate::Same).map(|(path, _)| path);
        let changed = changed.collect();
        let made = tokio::task::spawn_blocking(move || {
            let choose = |path: &str| versions.get(path).cloned().unwrap_or(Version::Now);
            Replica::new(&trees, &choose, &entries, &BTreeSet::new(), with_target)
        });
        Some(Copy { replica: made.await.ok()?.ok()?, changed, is_sound: differences.lasting.is_empty() })
    }
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_file_is_named_by_its_whole_name() {
        for (text, path, expected) in [
            ("src/a.py is too long.", "src/a.py", true),
            ("see /w/p/src/a.py:3: bad", "src/a.py", true),
            ("data is bad", "a", false),
            ("a: bad", "a", true),
            ("aa.py:1", "a.py", false),
            ("a.pyc", "a.py", false),
        ] {
            assert_eq!(names(text, path), expected, "{text}");
        }
    }
}
