//! `rawko land ID`: lands the work of an isolated run in the project.

use clap::Args;
use rawko::{Landing, LandingPolicy};
use serde_json::json;

use crate::commands::kept;
use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::reporters::landing_lines;
use crate::workspace::Workspace;

/// Options of `rawko land`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LandArgs {
    #[command(flatten)]
    of: TreeArgs,
    /// As one commit on a branch `rawko/…`, without touching the files of the project
    #[arg(long)]
    branch: bool,
}

/// Which session's work is meant, for `rawko discard` too.
#[derive(Debug, Clone, Args)]
pub(crate) struct TreeArgs {
    /// Session id, or the beginning or end of it; `last` is the latest
    #[arg(default_value = "last")]
    pub(super) id: String,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Lands the work.
pub(crate) fn run(workspace: &Workspace, arguments: &LandArgs) -> Result<Exit, Failure> {
    let LandArgs { of: arguments, branch } = arguments;
    workspace.gain_mounts_for(Some(&arguments.id))?;
    let (project, store) = (workspace.project()?, workspace.sessions()?);
    let session = kept::whole_id(&store, &arguments.id)?;
    let policy = if *branch { LandingPolicy::Branch } else { LandingPolicy::Always };
    let landing = rawko::land(&project, &store, &session, policy)?;
    print(workspace, arguments, &session, &landing)?;
    Ok(if landing.end.is_open() { Exit::Failed } else { Exit::Success })
}

/// Prints what became of the work.
pub(super) fn print(
    workspace: &Workspace,
    arguments: &TreeArgs,
    session: &str,
    landing: &Landing,
) -> Result<(), Failure> {
    let value = json!({"session": session, "landing": landing});
    let text = |_| {
        let lines = landing_lines(landing, &clean_line(session));
        lines.into_iter().map(|(name, value)| format!("{name:<14} {value}\n")).collect()
    };
    Ok(workspace.console.output(arguments.output.json, &value, text)?)
}
