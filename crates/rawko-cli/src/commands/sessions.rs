//! `rawko sessions`: past and running sessions of this folder, read from their journals.

mod export;
mod list;
mod repair;
mod rm;
mod show;

use clap::Subcommand;
use rawko::journal::SessionStore;

use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Subcommands of `rawko sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List the sessions, the latest last
    List(OutputArgs),
    /// Show the events of a session
    Show {
        /// Session id, or the beginning or end of it; `last` is the latest
        #[arg(default_value = "last")]
        id: String,
        /// Also show rules, latencies, cache hits and tool output
        #[arg(long, short)]
        verbose: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print a session as a document: task, decisions, what agents wrote and did, outcome
    Export(export::ExportArgs),
    /// Copy the intact records of a damaged session into a new one
    Repair(repair::RepairArgs),
    /// Remove sessions that are not running, with their checkpoints
    Rm(rm::RmArgs),
}

/// Runs the subcommand.
pub(crate) fn run(workspace: &Workspace, action: &SessionsCommand) -> Result<Exit, Failure> {
    let folder = workspace.project()?;
    let store = SessionStore::of_project(&folder);
    match action {
        SessionsCommand::List(output) => list::list(workspace, &store, output.json),
        SessionsCommand::Show { id, verbose, output } => {
            show::show(workspace, &store, id, *verbose, output.json)
        }
        SessionsCommand::Export(arguments) => export::export(workspace, &folder, &store, arguments),
        SessionsCommand::Repair(arguments) => repair::repair(workspace, &folder, arguments),
        SessionsCommand::Rm(arguments) => rm::rm(workspace, &folder, &store, arguments),
    }
}
