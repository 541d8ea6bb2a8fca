//! `rawko [run] TASK`: carries out a task.

use std::io::Read as _;

use clap::Args;
use rawko::Run;
use rawko_core::text::truncate;

use crate::config_args::ConfigArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::newcomer;
use crate::output::clean_line;
use crate::reporters::Verbosity;
use crate::run_args::SharedRunArgs;
use crate::workspace::Workspace;

/// Maximum bytes of a task from standard input.
const LONGEST_TASK: u64 = 1024 * 1024;

/// Options of `rawko run`.
#[derive(Debug, Clone, Default, Args)]
#[command(override_usage = "rawko [run] [OPTIONS] TASK...\n       rawko [run] [OPTIONS] -")]
pub(crate) struct RunArgs {
    /// The task, in words; `-` reads it from standard input
    #[arg(value_name = "TASK")]
    task: Vec<String>,
    #[command(flatten)]
    shared: SharedRunArgs,
    /// Start with this agent, without asking the arbiter
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Make only the first decision, and run the agent without write access
    #[arg(long)]
    dry_run: bool,
    /// Trust this folder's configuration for this run
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// The error for an empty task.
pub(crate) fn no_task() -> Failure {
    Failure::usage("no task was given").with_hint(
        "describe the task: rawko \"add a --version flag\"\n\
         see a whole run without a key: rawko demo\n\
         see all commands and options: rawko --help",
    )
}

/// Runs the task.
pub(crate) fn run(workspace: &Workspace, arguments: RunArgs) -> Result<Exit, Failure> {
    let shared = arguments.shared.clone();
    shared.carry(workspace, arguments.dry_run, || prepare(workspace, arguments))
}

fn prepare(workspace: &Workspace, arguments: RunArgs) -> Result<Run, Failure> {
    let RunArgs { task: words, shared, agent, dry_run, yes, config } = arguments;
    let task = task(&words)?;
    workspace.check_project_is_chosen()?;
    let build = |config: ConfigArgs| {
        let mut builder = config.builder(workspace).dry_run(dry_run).trusted(yes);
        if let Some(agent) = &agent {
            builder = builder.first_agent(agent.clone());
        }
        workspace.build(shared.apply(workspace, builder))
    };
    let mut rawko = build(config.clone())?;
    if let Some(found) = newcomer::choose(workspace, &rawko)? {
        rawko = build(config.with_provider(found))?;
    }
    if shared.verbosity() != Verbosity::Quiet {
        workspace.warn(&rawko);
    }
    Ok(rawko.run(&task)?)
}

/// The task as one text.
pub(crate) fn task(words: &[String]) -> Result<String, Failure> {
    let text = match words {
        [only] if only == "-" => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(LONGEST_TASK + 1).read_to_end(&mut bytes);
            read.map_err(|error| {
                Failure::usage(format!("cannot read the task from standard input: {error}"))
                    .with_hint("pipe it in: echo \"add a test\" | rawko -")
            })?;
            if bytes.len() as u64 > LONGEST_TASK {
                return Err(Failure::usage("the task on standard input is longer than 1 MiB").with_hint(
                    "put the material into a file of the project, and name the file in the task",
                ));
            }
            String::from_utf8(bytes).map_err(|_| {
                Failure::usage("the task on standard input is not UTF-8 text")
                    .with_hint("convert it first, or name the file in the task")
            })?
        }
        words => words.join(" "),
    };
    if text.trim().is_empty() {
        return Err(no_task());
    }
    if !text.contains(char::is_alphanumeric) {
        // The hints of rawko have three dots in place of a task.
        let shown = truncate(&clean_line(text.trim()), 20);
        return Err(Failure::usage(format!("the task `{shown}` has no word"))
            .with_hint("say in a sentence what to do, in place of the dots of a hint"));
    }
    Ok(text)
}
