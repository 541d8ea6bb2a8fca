//! `rawko machine`: the state machine on its own, without agents, models or files.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use rawko_core::machine::{Limits, Simulator, export};

use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lines::LineReader;
use crate::workspace::Workspace;

/// Subcommands of `rawko machine`.
#[derive(Debug, Subcommand)]
pub(crate) enum MachineCommand {
    /// Read events as JSON lines and print state, context and effects after each
    Simulate(SimulateArgs),
    /// Print the machine as a diagram or as an XState configuration
    Export {
        /// The output format
        #[arg(long, value_enum, default_value_t = MachineFormat::Mermaid)]
        format: MachineFormat,
    },
}

/// Options of `rawko machine simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// File of events; standard input if it is `-` or missing
    file: Option<PathBuf>,
    /// Names of the agents that can be selected, comma-separated
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    agents: Option<Vec<String>>,
    /// Maximum number of agent executions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_iterations: Option<u32>,
    /// The run fails after this many failures in a row
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_consecutive_failures: Option<u32>,
}

/// Formats of the exported machine.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum MachineFormat {
    /// A Mermaid state diagram
    Mermaid,
    /// A configuration for XState v5, as JSON
    Xstate,
    /// A Graphviz graph
    Dot,
}

/// Runs the subcommand.
pub(crate) fn run(workspace: &Workspace, action: &MachineCommand) -> Result<Exit, Failure> {
    let console = &workspace.console;
    match action {
        MachineCommand::Simulate(simulation) => simulate(workspace, simulation),
        MachineCommand::Export { format: MachineFormat::Mermaid } => write(console, &export::mermaid()),
        MachineCommand::Export { format: MachineFormat::Dot } => write(console, &export::dot()),
        MachineCommand::Export { format: MachineFormat::Xstate } => {
            let config = export::xstate().map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot write the machine as JSON: {error}"))
            })?;
            write(console, &config)
        }
    }
}

fn write(console: &Console, text: &str) -> Result<Exit, Failure> {
    console.line(text.trim_end())?;
    Ok(Exit::Success)
}

fn simulate(workspace: &Workspace, simulation: &SimulateArgs) -> Result<Exit, Failure> {
    let defaults = Limits::default();
    let agents = simulation.agents.as_ref().map(|names| {
        names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
    });
    let mut simulator = Simulator::new(Limits {
        agents: agents.unwrap_or(defaults.agents),
        max_iterations: simulation.max_iterations.unwrap_or(defaults.max_iterations),
        max_consecutive_failures: simulation
            .max_consecutive_failures
            .unwrap_or(defaults.max_consecutive_failures),
    });
    feed(&workspace.console, &mut simulator, LineReader::open(simulation.file.as_deref(), "events")?)
}

/// Reads line by line, and prints each answer before it reads the next line, for interactive use.
fn feed(console: &Console, simulator: &mut Simulator, mut lines: LineReader) -> Result<Exit, Failure> {
    let name = lines.name().to_owned();
    loop {
        let number = lines.number() + 1;
        let Some(line) = lines.next()? else { return Ok(Exit::Success) };
        let text = std::str::from_utf8(line)
            .map_err(|_| Failure::usage(format!("line {number} of {name} is not UTF-8 text")))?;
        match simulator.line(text) {
            Ok(None) => {}
            Ok(Some(step)) => console.json_line(&step)?,
            Err(error) => {
                return Err(Failure::usage(format!("{name}: {error}"))
                    .with_hint("the lines before it were applied; docs/machine.md lists the events"));
            }
        }
    }
}
