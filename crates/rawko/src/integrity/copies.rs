//! Commands that are run in copies of the tree, to compare what a run left with what it began with: checks that agents saw
//! fail, and new tests on the old code.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rawko_core::facts::{CheckResult, CommandRun, OtherCheck, Proof, Verification};
use rawko_core::integrity::Baseline;

use super::comparison::Comparison;
use super::elsewhere::Elsewhere;
use super::kinds::CheckFiles;
use super::{IntegrityGuard, LISTED, VerifyPlan};
use crate::checkpoint::{Fate, Version};

/// Longest time of a command in such a copy.
const TIME: Duration = Duration::from_secs(120);

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
    pub(crate) async fn others(self: &Arc<Self>, plan: &VerifyPlan, commands: &[String]) -> Vec<OtherCheck> {
        let runner = self.runner.offline();
        let timeout = plan.timeout.min(TIME);
        let mut others = Vec::new();
        let Ok(Some(comparison)) = self.compared(plan).await.map(|compared| compared.map(Arc::new)) else {
            return others;
        };
        let Some(now) = self.elsewhere(&comparison, |_, _| Version::Now).await else { return others };
        let runs = now.run(&runner, commands, timeout).await;
        now.remove().await;
        let red: Vec<String> =
            runs.iter().filter(|run| !run.passed()).map(|run| run.command.clone()).collect();
        let mut before = Vec::new();
        if !red.is_empty()
            && comparison.is_sound()
            && let Some(first) = self.elsewhere(&comparison, |_, _| Version::First).await
        {
            before = first.run(&runner, &red, timeout).await;
            first.remove().await;
        }
        let fates = comparison.trees.fates();
        let changed: Vec<String> =
            fates.into_iter().filter(|(_, fate)| *fate != Fate::Same).map(|(path, _)| path).collect();
        for run in runs {
            let names_changes = changed.iter().any(|path| names(&run.output, path));
            let before = before.iter().find(|before| before.command == run.command).cloned();
            others.push(OtherCheck { now: run, before, names_changes });
        }
        others
    }

    /// Finds new tests that fail without the change, where nothing failed before. `passed_in_view` says whether the original
    /// checks passed in a view or in a copy.
    pub(super) async fn what_it_proves(
        &self,
        plan: &VerifyPlan,
        comparison: &Arc<Comparison>,
        mut verification: Verification,
        passed_in_view: Option<bool>,
    ) -> Verification {
        if verification.proof() == Some(Proof::Regression)
            && let Some(baseline) = &verification.baseline
        {
            verification.new_tests = self.new_tests(plan, comparison, baseline).await;
        }
        if verification.proof() == Some(Proof::Task)
            && !self.is_the_tree(plan, comparison, verification.baseline.as_ref(), passed_in_view).await
        {
            verification.new_tests.clear();
            verification.baseline = verification.baseline.filter(Baseline::passed);
        }
        verification
    }

    /// Whether it is the first tree, and not the place, that made a command fail: the commands pass in such a place on the tree
    /// as it is. New tests failed in a view where there can be one, and the baseline's commands in a copy. Where the present
    /// tree has passed in a view, they are asked for again in a view of the first one, which spares a copy.
    async fn is_the_tree(
        &self,
        plan: &VerifyPlan,
        comparison: &Arc<Comparison>,
        baseline: Option<&Baseline>,
        passed_in_view: Option<bool>,
    ) -> bool {
        let runs = baseline.map(|baseline| baseline.runs.as_slice()).unwrap_or_default();
        let red: Vec<String> =
            runs.iter().filter(|run| !run.passed()).map(|run| run.command.clone()).collect();
        let in_view = red.is_empty();
        if !in_view
            && passed_in_view == Some(true)
            && let Some(first) = self.elsewhere(comparison, |_, _| Version::First).await
        {
            let runs = first.run(&self.runner, &red, plan.timeout.min(TIME)).await;
            let is_view = first.is_view();
            first.remove().await;
            if is_view {
                return runs.iter().any(|run| run.result() == CheckResult::Failed);
            }
        }
        let is_known =
            passed_in_view == Some(in_view) || (passed_in_view == Some(false) && !self.runner.has_views());
        is_known || self.passes_elsewhere(plan, comparison, in_view).await
    }

    /// Tests that the run added or changed, and that fail on the code of the beginning: they show that what they test is new.
    /// Only of commands that passed there without them.
    async fn new_tests(
        &self,
        plan: &VerifyPlan,
        comparison: &Arc<Comparison>,
        baseline: &Baseline,
    ) -> Vec<String> {
        let passed = |command: &&String| {
            baseline.runs.iter().any(|run| run.command == **command && run.result() == CheckResult::Passed)
        };
        let commands: Vec<String> = plan.commands.iter().filter(passed).cloned().collect();
        if commands.is_empty() || !comparison.is_sound() {
            return Vec::new();
        }
        let files = CheckFiles::new(&plan.tests);
        let is_new =
            |path: &str, fate: Fate| matches!(fate, Fate::Added | Fate::Changed) && files.is_test(path);
        let fates = comparison.trees.fates();
        let tests: Vec<String> =
            fates.into_iter().filter(|(path, fate)| is_new(path, *fate)).map(|(path, _)| path).collect();
        if tests.is_empty() {
            return Vec::new();
        }
        let choose = |path: &str, fate| if is_new(path, fate) { Version::Now } else { Version::First };
        let Some(first) = self.elsewhere(comparison, choose).await else { return Vec::new() };
        let runs = first.run(&self.counting_runner(), &commands, plan.timeout.min(TIME)).await;
        first.remove().await;
        let failed = runs.into_iter().filter(|run| run.result() == CheckResult::Failed);
        let named = |run: CommandRun| if run.failures.is_empty() { tests.clone() } else { run.failures };
        failed.flat_map(named).take(LISTED).collect()
    }

    /// Whether the commands pass in a view, or else a copy, of the tree as it is. Otherwise what failed in one of another tree
    /// says nothing: it may have lacked what git ignores.
    pub(super) async fn passes_elsewhere(
        &self,
        plan: &VerifyPlan,
        comparison: &Arc<Comparison>,
        views: bool,
    ) -> bool {
        let means = self.means(views);
        let now = Elsewhere::new(&self.runner, comparison, |_| Version::Now, BTreeSet::new(), false, means);
        let Ok(now) = now.await else { return false };
        let runs = now.run(&self.runner, &plan.commands, plan.timeout.min(TIME)).await;
        now.remove().await;
        runs.iter().all(CommandRun::passed)
    }

    /// The tree with the version of each file that `choose` picks for it. `None` if it cannot be made.
    async fn elsewhere(
        &self,
        comparison: &Arc<Comparison>,
        choose: impl Fn(&str, Fate) -> Version,
    ) -> Option<Elsewhere> {
        let fates = comparison.trees.fates();
        let choose = |path: &str| fates.get(path).map_or(Version::Now, |fate| choose(path, *fate));
        let means = self.means(true);
        Elsewhere::new(&self.runner, comparison, choose, BTreeSet::new(), false, means).await.ok()
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
