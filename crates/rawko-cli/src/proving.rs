//! What proves that a task is done, as the command line has it: options of every command that carries a run out.

use clap::Args;
use rawko::RawkoBuilder;

/// Options about the verification commands.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub(crate) struct Proving {
    /// Run this command to prove that the task is done, in the place of those configured or found; may be repeated
    #[arg(long, value_name = "CMD", value_parser = command, conflicts_with = "no_verify")]
    verify: Vec<String>,
    /// Run no command: the end is what the agents claim
    #[arg(long)]
    no_verify: bool,
    /// End with status 1 unless commands proved that the task is done
    #[arg(long)]
    require_verified: bool,
}

impl Proving {
    /// A builder that follows them.
    pub(crate) fn over(&self, builder: RawkoBuilder) -> RawkoBuilder {
        if self.no_verify || !self.verify.is_empty() { builder.verify(self.verify.clone()) } else { builder }
    }

    /// Whether a mere claim is not enough.
    pub(crate) fn is_required(&self) -> bool {
        self.require_verified
    }
}

fn command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("give a command, like \"cargo test\"; --no-verify runs none".to_owned());
    }
    Ok(text.to_owned())
}
