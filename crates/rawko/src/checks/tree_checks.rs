//! Checking a run's claims: comparing the tree with the checkpoints, running the verification commands.
//!
//! Both are performed here and judged in the core. A tree whose digest is not known, or that the commands themselves
//! changed, is reported as such.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rawko_core::facts::{CommandRun, Standing, Verification};
use rawko_core::session::EffectAnswer;

use crate::integrity::VerifyPlan;
use crate::run::perform::Performer;

/// What earlier verifications said of trees.
#[derive(Debug, Default)]
pub(crate) struct SeenTrees {
    /// Whether the commands passed, by the tree that they last ran on.
    passed: Mutex<BTreeMap<String, bool>>,
    /// The last verification, if its commands passed on its tree and nothing that may write has begun since.
    passed_last: Mutex<Option<Passed>>,
}

/// A verification whose commands passed, and what was asked for.
#[derive(Debug)]
struct Passed {
    plan: VerifyPlan,
    others: Vec<String>,
    verification: Verification,
}

impl SeenTrees {
    /// What earlier processes of the session saw.
    pub(crate) fn new(seen: BTreeMap<String, bool>) -> Self {
        Self { passed: Mutex::new(seen), ..Self::default() }
    }

    /// Something that may write begins: also where git does not look.
    pub(crate) fn forget_last(&self) {
        *self.passed_last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The last verification, if the same was asked for.
    fn last(&self, plan: &VerifyPlan, others: &[String]) -> Option<Verification> {
        let last = self.passed_last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.as_ref().filter(|it| it.plan == *plan && it.others == others);
        known.map(|known| known.verification.clone())
    }

    fn keep_last(&self, plan: &VerifyPlan, others: Vec<String>, verification: &Verification) {
        let holds = verification.passed() && !verification.stale && !verification.tree_changed;
        let (plan, verification) = (plan.clone(), verification.clone());
        let passed = holds.then_some(Passed { plan, others, verification });
        *self.passed_last.lock().unwrap_or_else(PoisonError::into_inner) = passed;
    }

    /// Remembers how the commands ended, and says whether they passed on a tree on which they failed the last time.
    fn contradicts(&self, verification: &Verification) -> bool {
        self.remember(verification) == Some(false) && verification.passed()
    }

    /// Remembers how the commands ended; returns how they did on the same tree before.
    fn remember(&self, verification: &Verification) -> Option<bool> {
        let tree = verification.tree.clone()?;
        let mut seen = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(tree, verification.passed())
    }
}

impl Performer {
    /// Compares the tree with the checkpoints.
    pub(crate) async fn inspect_tree(&self, iteration: u32) -> EffectAnswer {
        let checkpoints = self.checkpoints.clone();
        let granted = self.granted_outside();
        let inspected = rawko_tools::on_thread(move || {
            // If it cannot be kept, the next tree that is kept takes its place.
            let _ = checkpoints.take_after(iteration);
            let seen = checkpoints.inspect_with(iteration, &granted);
            if seen.as_ref().is_ok_and(|seen| seen.execution.files > 0) {
                checkpoints.make_durable();
            }
            seen
        });
        let inspected = inspected.await;
        match inspected {
            Ok(Ok(inspection)) => EffectAnswer::TreeInspected { inspection },
            Ok(Err(error)) => EffectAnswer::TreeInspectionFailed { message: error.to_string() },
            Err(error) => EffectAnswer::TreeInspectionFailed { message: error.to_string() },
        }
    }

    /// Runs the checks, and `others` in copies of the tree. A tree on which they have just passed is not checked
    /// again.
    pub(crate) async fn verify(
        &self,
        plan: &VerifyPlan,
        others: Vec<String>,
        seen_red: bool,
    ) -> EffectAnswer {
        // A job that an agent left running could write while the commands run.
        self.interrupt();
        let _ = tokio::task::spawn_blocking(rawko_tools::settle).await;
        if let Some(verification) = self.seen.last(plan, &others)
            && verification.tree.is_some()
            && verification.tree == self.tree().await
        {
            return EffectAnswer::VerificationFinished { verification };
        }
        let mut verification = self.prove(plan, seen_red).await;
        if plan.adopted && !verification.is_worth_adopting() {
            verification = Verification { tree: verification.tree, ..Verification::default() };
        }
        verification.adopted = plan.adopted && !verification.runs.is_empty();
        if !others.is_empty() && verification.standing() != Standing::Failed {
            verification.others = self.guard.others(plan, &others).await;
        }
        self.seen.keep_last(plan, others, &verification);
        EffectAnswer::VerificationFinished { verification }
    }

    /// Commands that change the tree (a lock file that was out of date) are run a second time, on the tree that they
    /// made: what they say then holds for it, unless they never leave it alone. Commands that pass are compared with
    /// the checks of the beginning. Commands that pass although an agent saw them fail on this tree are run once more.
    async fn prove(&self, plan: &VerifyPlan, seen_red: bool) -> Verification {
        if plan.found
            && !seen_red
            && let Some(integrity) = self.guard.unchanged().await
        {
            // Checks found in a folder are not run for a run that only read.
            let tree = self.tree().await;
            return Verification { tree, integrity: Some(integrity), ..Verification::default() };
        }
        self.guard.commands_begin().await;
        let mut verification = self.run_on(self.tree().await, plan).await;
        if verification.passed() && verification.tree_changed {
            verification = self.run_on(self.tree().await, plan).await;
        }
        if self.seen.contradicts(&verification) || (seen_red && verification.passed()) {
            // What failed on the very same tree before may have passed by luck.
            let again = self.run_on(self.tree().await, plan).await;
            self.seen.remember(&again);
            verification = Verification { flaky: verification.runs, ..again };
        }
        if !verification.passed() && !verification.runs.is_empty() {
            verification.baseline = self.guard.on_the_base(plan, &verification.runs).await;
        } else if verification.passed() && verification.doubt().is_none() {
            verification = self.guard.judge(plan, verification).await;
            // Judging takes time, in which something that outlived the agents may have written.
            let now = self.tree().await;
            verification.stale = verification.tree.is_some() && now != verification.tree;
        }
        verification.nothing_ran =
            verification.passed() && verification.runs.iter().all(CommandRun::ran_no_test);
        verification
    }

    async fn run_on(&self, tree: Option<String>, plan: &VerifyPlan) -> Verification {
        let runs = self.runner.run_all(&plan.commands, plan.timeout).await;
        let after = self.tree().await;
        let tree_changed = tree.is_some() && after.is_some() && tree != after;
        if tree_changed && let Some(was) = tree.clone() {
            let checkpoints = self.checkpoints.clone();
            // Else what the commands changed is not taken for the session's.
            let _ = rawko_tools::on_thread(move || checkpoints.take_after_again(&was)).await;
        }
        Verification { runs, tree: tree.filter(|_| after.is_some()), tree_changed, ..Verification::default() }
    }

    /// The digest of the tree as it is; `None` if it cannot be read.
    pub(crate) async fn tree(&self) -> Option<String> {
        let checkpoints = self.checkpoints.clone();
        rawko_tools::on_thread(move || checkpoints.tree()).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(tree: &str, exit_code: i32) -> Verification {
        let run = CommandRun { exit_code: Some(exit_code), ..CommandRun::default() };
        Verification { runs: vec![run], tree: Some(tree.to_owned()), ..Verification::default() }
    }

    #[test]
    fn a_pass_contradicts_a_failure_on_the_same_tree() {
        let seen = SeenTrees::new(BTreeMap::from([("before".to_owned(), false)]));
        assert!(seen.contradicts(&ended("before", 0)), "another process saw it fail");
        assert!(!seen.contradicts(&ended("a", 1)));
        assert!(!seen.contradicts(&ended("b", 0)), "another tree");
        assert!(seen.contradicts(&ended("a", 0)));
        // The run that decides fails: the next pass is no more to be trusted than the last one.
        seen.remember(&ended("a", 1));
        assert!(seen.contradicts(&ended("a", 0)));
        // It passes: nothing speaks against the next one.
        seen.remember(&ended("a", 0));
        assert!(!seen.contradicts(&ended("a", 0)));
    }
}
