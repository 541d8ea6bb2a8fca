//! Checking a run's claims: comparing the tree with the checkpoints, running the verification commands.
//!
//! Both are performed here and judged in the core. A tree whose digest is not known, or that the commands themselves
//! changed, is reported as such.

use std::sync::PoisonError;

use rawko_core::facts::Verification;
use rawko_core::session::EffectAnswer;

use crate::integrity::Terms;
use crate::perform::Performer;

impl Performer {
    /// Compares the tree with the checkpoints.
    pub(crate) async fn inspect_tree(&self, iteration: u32) -> EffectAnswer {
        let checkpoints = self.checkpoints.clone();
        let inspected = tokio::task::spawn_blocking(move || {
            // Where it cannot be kept, the next tree that is kept stands for it.
            let _ = checkpoints.take_after(iteration);
            checkpoints.inspect(iteration)
        });
        let inspected = inspected.await;
        match inspected {
            Ok(Ok(inspection)) => EffectAnswer::TreeInspected { inspection },
            Ok(Err(error)) => EffectAnswer::TreeInspectionFailed { message: error.to_string() },
            Err(error) => EffectAnswer::TreeInspectionFailed { message: error.to_string() },
        }
    }

    /// Runs the verification commands.
    pub(crate) async fn verify(&self, terms: &Terms) -> EffectAnswer {
        // A job that an agent left running could write while the commands run.
        self.interrupt();
        let _ = tokio::task::spawn_blocking(rawko_tools::settle).await;
        let verification = self.prove(terms).await;
        EffectAnswer::VerificationFinished { verification }
    }

    /// Commands that change the tree (a lock file that was out of date) are run a second time, on the tree that they
    /// made: what they say then holds for it, unless they never leave it alone. Commands that pass are held against the
    /// checks of the beginning.
    async fn prove(&self, terms: &Terms) -> Verification {
        self.guard.remove_bytecode().await;
        let mut verification = self.run_on(self.tree().await, terms).await;
        if verification.passed() && verification.tree_changed {
            verification = self.run_on(self.tree().await, terms).await;
        }
        let is_flaky = verification.tree.as_deref().is_some_and(|tree| {
            let passed = self
                .seen
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(tree.to_owned(), verification.passed());
            passed == Some(false) && verification.passed()
        });
        if is_flaky {
            // What failed on the very same tree before may have passed by luck.
            let again = self.run_on(self.tree().await, terms).await;
            verification = Verification { flaky: verification.runs, ..again };
            if let Some(tree) = verification.tree.clone() {
                let passed = verification.passed();
                self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(tree, passed);
            }
        }
        if verification.passed() && verification.doubt().is_none() {
            verification = self.guard.judge(terms, verification).await;
        }
        verification
    }

    async fn run_on(&self, tree: Option<String>, terms: &Terms) -> Verification {
        let runs = self.runner.run_all(&terms.commands, terms.timeout).await;
        let after = self.tree().await;
        let tree_changed = tree.is_some() && after.is_some() && tree != after;
        if tree_changed && let Some(was) = tree.clone() {
            let checkpoints = self.checkpoints.clone();
            // Else what the commands changed is not taken for the session's.
            let _ = tokio::task::spawn_blocking(move || checkpoints.take_after_again(&was)).await;
        }
        Verification { runs, tree: tree.filter(|_| after.is_some()), tree_changed, ..Verification::default() }
    }

    /// The digest of the tree as it is; `None` if it cannot be read.
    async fn tree(&self) -> Option<String> {
        let checkpoints = self.checkpoints.clone();
        tokio::task::spawn_blocking(move || checkpoints.tree()).await.ok()?.ok()
    }
}
