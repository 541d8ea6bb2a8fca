//! `rawko completions`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::arguments::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Options of `rawko completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completion script of a shell.
pub(crate) fn run(workspace: &Workspace, arguments: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "rawko", &mut script);
    workspace.console.write(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
