//! `rawko memory`: what earlier runs found out, and which of it an agent would get.

mod add;
mod check;
mod keep;
mod list;
mod lookup;
mod matching;
mod retire;
mod show;
mod shown;
mod stats;

use clap::{Args, Subcommand};
use rawko::memory::{MemoryStore, OF_USER, WriteError};

use self::lookup::refused;
use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Options of `rawko memory`.
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Work with your own memories, which agents are given in every project
    #[arg(long, global = true)]
    user: bool,
    #[command(subcommand)]
    action: MemoryCommand,
}

/// What to do with the memories.
#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// List them
    List(OutputArgs),
    /// Show one of them whole, and how each of its patterns is read
    Show {
        /// Its path, its file's name or its title
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Say which of them an agent would be given for a task, and why each
    Match(matching::MatchArgs),
    /// Write a new one
    Add(add::AddArgs),
    /// Check all of them; ends in 1 where anything is to be mended
    Check(OutputArgs),
    /// Say how often agents were given each, and whether it helped
    Stats(OutputArgs),
    /// Retire one: agents are not given it any more, and its file stays
    Retire(retire::RetireArgs),
    /// Keep what runs have proposed; `retire` rejects it
    Keep(keep::KeepArgs),
}

/// Carries the action out.
pub(crate) fn run(workspace: &Workspace, arguments: &MemoryArgs) -> Result<Exit, Failure> {
    let (project, user) = (workspace.project()?, workspace.environment.config_dir());
    let action = &arguments.action;
    let store = match user {
        Some(user) if arguments.user => MemoryStore::of_user(&user, &project),
        Some(user) => MemoryStore::of_project(&project).with_user(&user),
        None if arguments.user => {
            return Err(Failure::usage(
                "there is no folder for your own memories: neither XDG_CONFIG_HOME nor HOME is set",
            )
            .with_hint("set HOME"));
        }
        None => MemoryStore::of_project(&project),
    };
    // `check` reports it as a finding.
    if let (Some(obstacle), false) = (store.obstacle(), matches!(action, MemoryCommand::Check(_))) {
        return Err(refused(&store, WriteError::Folder(Box::new(obstacle))));
    }
    match action {
        MemoryCommand::List(output) => list::list(workspace, &store, output.json),
        MemoryCommand::Show { name, output } => match (name.strip_prefix(OF_USER), store.user()) {
            (Some(own), Some(user)) => show::show(workspace, user, own, output.json),
            _ => show::show(workspace, &store, name, output.json),
        },
        MemoryCommand::Match(arguments) => matching::run(workspace, &store, arguments),
        MemoryCommand::Add(new) => add::add(workspace, &store, new),
        MemoryCommand::Check(output) => check::check(workspace, &store, output.json),
        MemoryCommand::Stats(output) => stats::stats(workspace, &store, output.json),
        MemoryCommand::Retire(arguments) => retire::retire(workspace, &store, arguments),
        MemoryCommand::Keep(arguments) => keep::keep(workspace, &store, arguments),
    }
}
