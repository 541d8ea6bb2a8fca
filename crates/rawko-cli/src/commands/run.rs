//! `rawko [run] TASK`: carries out a task.

use clap::Args;
use rawko::Run;

use crate::busy::begin_when_free;
use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::{self, Given, InputArgs};
use crate::newcomer;
use crate::reporters::Verbosity;
use crate::run_args::SharedRunArgs;
use crate::workspace::{Workspace, isolates};

/// Options of `rawko run`.
#[derive(Debug, Clone, Default, Args)]
#[command(override_usage = "rawko [run] [OPTIONS] TASK...\n       rawko [run] [OPTIONS] -")]
pub(crate) struct RunArgs {
    /// The task, in words; `-` reads it from standard input
    #[arg(value_name = "TASK")]
    task: Vec<String>,
    #[command(flatten)]
    shared: SharedRunArgs,
    #[command(flatten)]
    input: InputArgs,
    /// Start with this agent, without asking the arbiter
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Work in a tree of its own at the project's path; the result lands in the project at the end
    #[arg(long, conflicts_with = "dry_run")]
    isolated: bool,
    /// Make only the first decision, and run the agent without write access
    #[arg(long)]
    dry_run: bool,
    /// Trust this folder's configuration for this run
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs the task.
pub(crate) fn run(workspace: &Workspace, arguments: RunArgs) -> Result<Exit, Failure> {
    let shared = arguments.shared.clone();
    shared.carry(workspace, (arguments.dry_run, arguments.config.granted()), || prepare(workspace, arguments))
}

fn prepare(workspace: &Workspace, arguments: RunArgs) -> Result<Run, Failure> {
    let RunArgs { task: words, shared, input, agent, isolated, dry_run, yes, config } = arguments;
    let is_quiet = shared.verbosity() == Verbosity::Quiet;
    let Given { task, attachments } = input::read(workspace, &words, &input, shared.prints(), is_quiet)?;
    workspace.check_project_is_chosen()?;
    begin_when_free(workspace, |is_first| {
        let build = |config: ConfigArgs| {
            let builder = config.builder(workspace).dry_run(dry_run).trusted(yes);
            let mut builder = builder.attach(attachments.iter().cloned());
            if isolated {
                builder = builder.isolated();
            }
            if let Some(agent) = &agent {
                builder = builder.first_agent(agent.clone());
            }
            shared.build(workspace, builder)
        };
        let mut rawko = build(config.clone())?;
        // Before there is a second thread.
        workspace.gain_mounts(isolates(&rawko) && !dry_run)?;
        if let Some(found) = newcomer::choose(workspace, &rawko, is_quiet || !is_first)? {
            rawko = build(config.clone().with_provider(found))?;
        }
        if is_first && !is_quiet {
            workspace.warn(&rawko);
        }
        Ok(rawko.run(&task))
    })
}
