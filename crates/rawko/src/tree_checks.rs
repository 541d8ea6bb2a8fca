//! Checking a run's claims: comparing the tree with the checkpoints, running the verification commands.
//!
//! Both are performed here and judged in the core. A tree whose digest is not known, or that the commands themselves
//! changed, is reported as such.

use std::time::Duration;

use rawko_core::facts::{CommandRun, Verification};
use rawko_core::session::EffectAnswer;

use crate::perform::Performer;

impl Performer {
    /// Compares the tree with the checkpoints.
    pub(crate) async fn inspect_tree(&self, iteration: u32) -> EffectAnswer {
        let checkpoints = self.checkpoints.clone();
        let inspected = tokio::task::spawn_blocking(move || checkpoints.inspect(iteration)).await;
        match inspected {
            Ok(Ok(inspection)) => EffectAnswer::TreeInspected { inspection },
            Ok(Err(error)) => EffectAnswer::TreeInspectionFailed { message: error.to_string() },
            Err(error) => EffectAnswer::TreeInspectionFailed { message: error.to_string() },
        }
    }

    /// Runs the verification commands.
    pub(crate) async fn verify(&self, commands: &[String], timeout_ms: u64) -> EffectAnswer {
        // A job that an agent left running could write while the commands run.
        self.interrupt();
        let _ = tokio::task::spawn_blocking(rawko_tools::settle).await;
        let verification = self.prove(commands, Duration::from_millis(timeout_ms)).await;
        EffectAnswer::VerificationFinished { verification }
    }

    /// Commands that change the tree (a lock file that was out of date) are run a second time, on the tree that they
    /// made: what they say then holds for it, unless they never leave it alone.
    async fn prove(&self, commands: &[String], timeout: Duration) -> Verification {
        let before = self.tree().await;
        let first = self.run_on(before, commands, timeout).await;
        if !first.passed() || !first.tree_changed {
            return first;
        }
        let before = self.tree().await;
        self.run_on(before, commands, timeout).await
    }

    async fn run_on(&self, tree: Option<String>, commands: &[String], timeout: Duration) -> Verification {
        let mut runs: Vec<CommandRun> = Vec::new();
        for command in commands {
            runs.push(self.runner.run(command, timeout).await);
            if !runs.iter().all(CommandRun::passed) {
                break;
            }
        }
        let after = self.tree().await;
        let tree_changed = tree.is_some() && after.is_some() && tree != after;
        Verification { runs, tree: tree.filter(|_| after.is_some()), tree_changed }
    }

    /// The digest of the tree as it is; `None` if it cannot be read.
    async fn tree(&self) -> Option<String> {
        let checkpoints = self.checkpoints.clone();
        tokio::task::spawn_blocking(move || checkpoints.tree()).await.ok()?.ok()
    }
}
