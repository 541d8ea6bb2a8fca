//! `rawko completions`.

use clap::{Args, ValueEnum};
use clap_complete::env::Shells;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The variable with which a shell asks for completions.
pub(crate) const VARIABLE: &str = "COMPLETE";

/// Options of `rawko completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Shell {
    fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Elvish => "elvish",
            Self::Fish => "fish",
            Self::Powershell => "powershell",
            Self::Zsh => "zsh",
        }
    }
}

/// Prints the completion script of a shell. It calls `rawko` for what it offers.
pub(crate) fn run(workspace: &Workspace, arguments: &CompletionsArgs) -> Result<Exit, Failure> {
    let shells = Shells::builtins();
    let name = arguments.shell.name();
    let mut script = Vec::new();
    let Some(completer) = shells.completer(name) else {
        return Err(Failure::new(Exit::Failed, format!("there is no completion for {name}")));
    };
    completer
        .write_registration(VARIABLE, "rawko", "rawko", "rawko", &mut script)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot make the script: {error}")))?;
    workspace.console.write(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
