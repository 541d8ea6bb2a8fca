//! Finding out what the run's claims are worth: looking at the tree, running the verification commands.
//!
//! Both are performed here and judged in the core. What is found out is what was seen: a tree whose name is not known,
//! or that the commands themselves changed, is reported as such.

use std::sync::Arc;
use std::time::Duration;

use rawko_core::facts::{CommandRun, Verification};
use rawko_core::session::{EffectId, Event};

use crate::driver::{Signal, Signals};
use crate::perform::Performer;

impl Performer {
    /// Compares the tree with what was kept, and reports.
    pub(crate) async fn inspect_tree(self: Arc<Self>, effect: EffectId, iteration: u32, signals: Signals) {
        let checkpoints = self.checkpoints.clone();
        let inspected = tokio::task::spawn_blocking(move || checkpoints.inspect(iteration)).await;
        let event = match inspected {
            Ok(Ok(inspection)) => Event::TreeInspected { effect, inspection },
            Ok(Err(error)) => Event::TreeInspectionFailed { effect, message: error.to_string() },
            Err(error) => Event::TreeInspectionFailed { effect, message: error.to_string() },
        };
        let _ = signals.send(Signal::Happened(event));
    }

    /// Runs the verification commands, and reports.
    pub(crate) async fn verify(
        self: Arc<Self>,
        effect: EffectId,
        commands: Vec<String>,
        timeout_ms: u64,
        signals: Signals,
    ) {
        // A job that an agent left running could write behind the commands' back.
        self.interrupt();
        let _ = tokio::task::spawn_blocking(rawko_tools::settle).await;
        let verification = self.prove(&commands, Duration::from_millis(timeout_ms)).await;
        let _ = signals.send(Signal::Happened(Event::VerificationFinished { effect, verification }));
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

    /// Names the tree as it is; nothing where it cannot be read.
    async fn tree(&self) -> Option<String> {
        let checkpoints = self.checkpoints.clone();
        tokio::task::spawn_blocking(move || checkpoints.tree()).await.ok()?.ok()
    }
}
