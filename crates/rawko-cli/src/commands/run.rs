//! `rawko [run] TASK`: carries a task to its end and says how it ended.

use std::io::Read as _;

use clap::{ArgAction, Args};
use rawko::config::{Overrides, TimeSpan};
use rawko::core::agent::Permissions;
use rawko::core::session::Status;
use rawko::core::{ErrorCode, ErrorInfo};
use rawko::{Run, RunEvent};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::reporters::{Detail, Format, Summary, reporter};
use crate::watch::{Ended, block_on, failed, watch};
use crate::workspace::Workspace;

/// Most bytes of a task from standard input.
const LONGEST_TASK: u64 = 1024 * 1024;

/// Options of `rawko run`.
#[derive(Debug, Clone, Default, Args)]
#[command(override_usage = "rawko [run] [OPTIONS] TASK...\n       rawko [run] [OPTIONS] -")]
pub(crate) struct Arguments {
    /// What is to be done, in words; `-` reads it from standard input
    #[arg(value_name = "TASK")]
    task: Vec<String>,
    /// Use this provider [env: RAWKO_PROVIDER]
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Use this model of the provider [env: RAWKO_MODEL]
    #[arg(long)]
    model: Option<String>,
    /// Have this agent begin, without asking the arbiter
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Most executions of agents [env: RAWKO_MAX_ITERATIONS]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_iterations: Option<u32>,
    /// Most cost, in US dollars [env: RAWKO_MAX_COST]
    #[arg(long, value_name = "USD", value_parser = amount)]
    max_cost: Option<f64>,
    /// Longest time, like 90s, 30m or 1h30m [env: RAWKO_TIMEOUT]
    #[arg(long, value_name = "TIME")]
    timeout: Option<TimeSpan>,
    /// Output for people (text), the result as one JSON object (json), or every event as one object a line
    /// (stream-json) [env: RAWKO_OUTPUT]
    #[arg(long, value_enum, value_name = "FORM", hide_possible_values = true)]
    output: Option<Format>,
    /// Tell rules, latencies, cache hits and the tools' output too
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
    /// Tell nothing but the result
    #[arg(long, short)]
    quiet: bool,
    /// The first decision and a look around by an agent that can change nothing
    #[arg(long)]
    dry_run: bool,
    /// Take this folder's configuration at its word in this run, trusted or not
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    allow: Allow,
}

/// `--allow-*`: permissions for this run, in the place of the configured ones.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Permissions, in the place of the configured ones (agents still narrow them)")]
pub(crate) struct Allow {
    /// Paths that may be read; all without a value
    #[arg(long = "allow-read", value_name = "PATHS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "/", value_delimiter = ',', action = ArgAction::Append)]
    read: Option<Vec<String>>,
    /// Paths that may be written; all without a value
    #[arg(long = "allow-write", value_name = "PATHS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "/", value_delimiter = ',', action = ArgAction::Append)]
    write: Option<Vec<String>>,
    /// Hosts that may be reached; all without a value
    #[arg(long = "allow-net", value_name = "HOSTS", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "*", value_delimiter = ',', action = ArgAction::Append)]
    net: Option<Vec<String>>,
    /// Environment variables that child processes get; all but secrets without a value
    #[arg(long = "allow-env", value_name = "NAMES", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "*", value_delimiter = ',', action = ArgAction::Append)]
    env: Option<Vec<String>>,
    /// Programs that Bash may run
    #[arg(long = "allow-run", value_name = "PROGRAMS", require_equals = true)]
    #[arg(value_delimiter = ',', action = ArgAction::Append)]
    run: Option<Vec<String>>,
}

fn amount(text: &str) -> Result<f64, String> {
    match text.trim().trim_start_matches('$').parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount >= 0.0 => Ok(amount),
        _ => Err("write an amount in US dollars, like 2.50".to_owned()),
    }
}

/// There is nothing to do.
pub(crate) fn no_task() -> Failure {
    Failure::usage("no task was given").with_hint(
        "say in words what is to be done: rawko \"add a --version flag\"\n\
         see a whole run without a key: rawko demo\n\
         see all commands and options: rawko --help",
    )
}

/// Runs the task.
pub(crate) fn run(workspace: &Workspace, arguments: Arguments) -> Result<Exit, Failure> {
    let format = match arguments.output {
        Some(format) => format,
        None => format_of(workspace)?,
    };
    let result = task(&arguments.task).and_then(|task| carry_out(workspace, arguments, &task, format));
    if let Err(failure) = &result {
        tell_programs(workspace, failure, format);
    }
    result
}

fn format_of(workspace: &Workspace) -> Result<Format, Failure> {
    use clap::ValueEnum as _;
    match workspace.environment.var("RAWKO_OUTPUT") {
        None => Ok(Format::Text),
        Some(text) => Format::from_str(text.trim(), false).map_err(|_| {
            Failure::usage(format!("RAWKO_OUTPUT is `{text}`"))
                .with_hint("set it to text, json or stream-json, or unset it")
        }),
    }
}

/// The task in one piece.
fn task(words: &[String]) -> Result<String, Failure> {
    let text = match words {
        [only] if only == "-" => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(LONGEST_TASK + 1).read_to_end(&mut bytes);
            read.map_err(|error| {
                Failure::usage(format!("cannot read the task from standard input: {error}"))
                    .with_hint("pipe it in: echo \"add a test\" | rawko -")
            })?;
            if bytes.len() as u64 > LONGEST_TASK {
                return Err(Failure::usage("the task on standard input is longer than 1 MiB")
                    .with_hint("put the material into a file of the project, and name it in the task"));
            }
            String::from_utf8(bytes).map_err(|_| {
                Failure::usage("the task on standard input is not UTF-8 text")
                    .with_hint("convert it first, or name the file in the task")
            })?
        }
        words => words.join(" "),
    };
    if text.trim().is_empty() { Err(no_task()) } else { Ok(text) }
}

fn carry_out(
    workspace: &Workspace,
    arguments: Arguments,
    task: &str,
    format: Format,
) -> Result<Exit, Failure> {
    let detail = match (arguments.quiet, arguments.verbose) {
        (true, _) => Detail::Quiet,
        (false, true) => Detail::Verbose,
        (false, false) => Detail::Normal,
    };
    let dry_run = arguments.dry_run;
    let mut builder = workspace
        .builder()
        .permissions(arguments.allow.permissions())
        .dry_run(dry_run)
        .trusted(arguments.yes)
        .overrides(Overrides {
            provider: arguments.provider,
            model: arguments.model,
            max_iterations: arguments.max_iterations,
            max_cost_usd: arguments.max_cost,
            timeout: arguments.timeout,
        });
    if let Some(agent) = arguments.agent {
        builder = builder.first_agent(agent);
    }
    let rawko = builder.build()?;
    if detail != Detail::Quiet {
        workspace.warn(&rawko);
    }
    let run = rawko.run(task)?;
    let journal = run.journal_path().display().to_string();
    let ended = follow(workspace, run, format, detail)?;
    if format == Format::Text
        && let Some(summary) = Summary::of(&ended.finished, Some(journal), dry_run)
    {
        let written = workspace.console.write(&summary.text(workspace.console.paint()));
        // Where nobody reads the words, the exit status still tells how it ended.
        if let Err(failure) = written.map_err(Failure::from)
            && !matches!(failure, Failure::PipeClosed)
        {
            return Err(failure);
        }
    }
    // Text is told on standard error, where nothing is lost but the telling; an object or a stream is the result.
    let unwritten = ended.unwritten.filter(|_| format != Format::Text);
    match ended.broken.or(unwritten) {
        Some(failure) => {
            failure.tell(&workspace.console);
            Ok(failure.exit())
        }
        None => Ok(exit_of(&ended.finished, dry_run)),
    }
}

/// Carries a prepared run to its end.
pub(crate) fn follow(
    workspace: &Workspace,
    run: Run,
    format: Format,
    detail: Detail,
) -> Result<Ended, Failure> {
    let reporter = reporter(workspace.console, format, detail);
    block_on(watch(run, reporter, format == Format::StreamJson))
}

/// How a run with this last event ends the program.
pub(crate) fn exit_of(finished: &RunEvent, dry_run: bool) -> Exit {
    match finished {
        // A dry run is meant to end after its first iteration.
        RunEvent::SessionFinished { status: Status::Limited, error: None, .. } if dry_run => Exit::Success,
        RunEvent::SessionFinished { status, error, .. } => Exit::of_run(*status, error.as_ref()),
        _ => Exit::Failed,
    }
}

/// Programs that read the output are told of a run that could not even begin as of any other that failed.
fn tell_programs(workspace: &Workspace, failure: &Failure, format: Format) {
    let code = match failure.exit() {
        Exit::Usage => ErrorCode::ConfigError,
        Exit::Provider => ErrorCode::AuthenticationFailed,
        Exit::Untrusted => ErrorCode::PermissionError,
        Exit::Success | Exit::Failed | Exit::Limited | Exit::Cancelled => ErrorCode::Unknown,
    };
    let error = ErrorInfo::new(code, failure.message());
    let finished = RunEvent::finished("", &failed(error.clone()));
    let events = match format {
        Format::Text => Vec::new(),
        Format::Json => vec![finished],
        Format::StreamJson => vec![RunEvent::Error { error }, finished],
    };
    for event in events {
        // The failure itself is told on standard error, whatever becomes of this.
        let _ = workspace.console.json_line(&event);
    }
}

impl Allow {
    fn permissions(self) -> Permissions {
        let env = self.env.map(|names| match names.iter().any(|name| name == "*") {
            true => std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect(),
            false => names,
        });
        Permissions { read: self.read, write: self.write, deny: None, net: self.net, env, run: self.run }
    }
}
