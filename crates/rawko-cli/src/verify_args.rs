//! Options about verification, for every command that carries out a run.

use clap::Args;
use rawko::{RawkoBuilder, VerificationPlan};
use rawko_core::facts::Proof;
use rawko_core::session::{Outcome, Status};

use crate::output::quoted;

/// Options about the verification commands.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct VerifyArgs {
    /// Run this command to verify the result, instead of the configured or detected ones; may be repeated
    #[arg(long, value_name = "CMD", value_parser = command, conflicts_with = "no_verify")]
    verify: Vec<String>,
    /// Run no verification command: the run can only end as claimed
    #[arg(long)]
    no_verify: bool,
    /// Accept checks that the run itself changed: for tasks that are about the tests
    #[arg(long)]
    allow_changed_checks: bool,
    /// Exit with 1 unless the verification commands passed
    #[arg(long)]
    require_verified: bool,
    /// Exit with 1 unless the checks prove the task itself: one failed before the run, or a new test fails without the change
    #[arg(long)]
    require_proof: bool,
}

impl VerifyArgs {
    /// The options that a recorded session must have been given, as far as today's configuration does not say the same.
    pub(crate) fn recorded(recorded: &[String], today: &VerificationPlan) -> Self {
        let is_known = recorded.iter().all(|command| today.commands.contains(command));
        Self {
            verify: if is_known { Vec::new() } else { recorded.to_vec() },
            // Checks that were not found then may be there now.
            no_verify: recorded.is_empty() && today.origin.is_some() && !today.commands.is_empty(),
            ..Self::default()
        }
    }

    /// Applies the options to a builder.
    pub(crate) fn apply(&self, builder: RawkoBuilder) -> RawkoBuilder {
        let builder = if self.allow_changed_checks { builder.allow_changed_checks() } else { builder };
        if self.no_verify || !self.verify.is_empty() { builder.verify(self.verify.clone()) } else { builder }
    }

    /// The options that choose the commands, as they are typed, each with a space before it.
    pub(crate) fn as_options(&self) -> String {
        let commands = self.verify.iter().map(|command| format!(" --verify {}", quoted(command)));
        let none = self.no_verify.then(|| " --no-verify".to_owned());
        commands.chain(none).collect()
    }

    /// The option that a run with this end does not satisfy, and why.
    pub(crate) fn unsatisfied(&self, outcome: &Outcome) -> Option<(&'static str, String)> {
        let option = if self.require_proof { "--require-proof" } else { "--require-verified" };
        match outcome.status {
            Status::Claimed if self.require_verified || self.require_proof => {
                let doubt = outcome.doubt.as_ref().map(|doubt| doubt.message.clone());
                Some((option, doubt.unwrap_or_else(|| "no command verified it".to_owned())))
            }
            Status::Verified if self.require_proof && outcome.proof != Some(Proof::Task) => {
                Some((option, "no check shows that the task itself is done".to_owned()))
            }
            _ => None,
        }
    }
}

fn command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("give a command, like \"cargo test\", or use --no-verify".to_owned());
    }
    Ok(text.to_owned())
}
