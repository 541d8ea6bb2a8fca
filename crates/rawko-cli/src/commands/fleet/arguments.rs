//! The options of the commands about fleets.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use rawko::config::{TimeLimit, TimeSpan};

use crate::commands::steer::commands_help;
use crate::config_args::{amount, time_limit, time_span};
use crate::console::OutputArgs;
use crate::reporters::OutputFormat;

/// Where a fleet is, for every command about it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "The fleet")]
pub(crate) struct ConnectionArgs {
    /// Host and port of the Temporal server [env: TEMPORAL_ADDRESS]
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) address: Option<String>,
    /// The namespace there [env: TEMPORAL_NAMESPACE]
    #[arg(long, value_name = "NAME")]
    pub(super) namespace: Option<String>,
    /// The profile of Temporal's own temporal.toml [env: TEMPORAL_PROFILE]
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
    /// The first word of the names of its queues [default: rawko]
    #[arg(long, value_name = "NAME")]
    pub(super) queue: Option<String>,
    /// What its workers share: an absolute path, or s3://bucket/prefix [default: a folder of this user's]
    #[arg(long, value_name = "LOCATION")]
    pub(super) store: Option<String>,
}

/// Options of `rawko worker`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WorkerArgs {
    /// Where it keeps repositories and trees, which can be made again [default: a cache of this user's]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Work on no repositories but those whose address matches; may be repeated. `*` is any text without a `/`, `**` any text
    #[arg(long, value_name = "PATTERN", action = ArgAction::Append)]
    pub(super) allow_repo: Vec<String>,
    /// Most model calls at once, of each provider; 0 for none
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) models: usize,
    /// Most steps of agents at once; 0 for none
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(super) steps: usize,
    /// Most verifications at once: whole test suites; 0 for none
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) verify_slots: usize,
    /// Make the model calls of this provider, whose key it has; may be repeated. Without it, of those in your own
    /// configuration and those whose key is set
    #[arg(long, value_name = "NAME", action = ArgAction::Append)]
    pub(super) provider: Vec<String>,
    /// Most model calls of a provider in a second, of all workers together; may be repeated
    #[arg(long, value_name = "NAME=PER_SECOND", value_parser = rate, action = ArgAction::Append)]
    pub(super) rate: Vec<(String, f64)>,
    /// Run this command in the tree of a task that ended well and was submitted with --merge-request
    #[arg(long, value_name = "COMMAND")]
    pub(super) merge_request: Option<String>,
    /// How long what is under way may go on after SIGTERM or Ctrl-C; then it is stopped, and another worker goes on; 0
    /// to end it at once
    #[arg(long, value_name = "TIME", value_parser = time_limit, default_value = "30s")]
    pub(super) grace: Option<TimeLimit>,
    /// The deployment that it belongs to: a task stays with the build that began it
    #[arg(long, value_name = "NAME", requires = "build")]
    pub(super) deployment: Option<String>,
    /// Its build in that deployment
    #[arg(long, value_name = "ID", requires = "deployment")]
    pub(super) build: Option<String>,
    /// Trust the configuration of the repositories that tasks name: their commands run here
    #[arg(long, short)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Options of `rawko submit`.
#[derive(Debug, Clone, Default, Args)]
#[command(override_usage = "rawko submit [OPTIONS] \"TASK\"...\n       rawko submit [OPTIONS] --file TASKS")]
pub(crate) struct SubmitArgs {
    /// The tasks, in words: each argument is one
    #[arg(value_name = "TASK")]
    pub(super) tasks: Vec<String>,
    /// Read tasks from this file, one a line, or one JSON object a line; `-` for standard input
    #[arg(long, value_name = "TASKS")]
    pub(super) file: Option<PathBuf>,
    /// The repository, as the workers reach it [default: the remote `origin` of this one]
    #[arg(long, value_name = "URL")]
    pub(super) repo: Option<String>,
    /// The branch, tag or commit to begin with [default: the commit that is checked out, or that of --repo]
    #[arg(long, value_name = "REV")]
    pub(super) branch: Option<String>,
    /// The task's id, which names its branch [default: made of repository, commit and task]
    #[arg(long, value_name = "ID")]
    pub(super) id: Option<String>,
    /// Go on in the fleet with a session of this folder, and its files as they are: its id, the beginning or end of it, or
    /// `last`
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["tasks", "file", "branch"])]
    pub(super) session: Option<String>,
    /// Name of the submission, for lists and its budget
    #[arg(long, value_name = "NAME")]
    pub(super) submission: Option<String>,
    /// Highest cost of all tasks together, in US dollars
    #[arg(long, value_name = "USD", value_parser = amount)]
    pub(super) max_total_cost: Option<f64>,
    /// Whose tasks they are: those of different submitters get equal shares of the workers [default: your user name]
    #[arg(long, value_name = "NAME")]
    pub(super) submitter: Option<String>,
    /// Wait until all have ended, and exit as `rawko run` does
    #[arg(long)]
    pub(super) wait: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) settings: TaskArgs,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// What is set for each task.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Each task")]
pub(crate) struct TaskArgs {
    /// Use this provider
    #[arg(long, value_name = "NAME")]
    pub(super) provider: Option<String>,
    /// Use this model of the provider
    #[arg(long, short)]
    pub(super) model: Option<String>,
    /// Start with this agent, without asking the arbiter
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// Run this command to verify the result, instead of the configured or detected ones; may be repeated
    #[arg(long, value_name = "CMD", action = ArgAction::Append)]
    pub(super) verify: Vec<String>,
    /// Maximum number of agent executions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_iterations: Option<u32>,
    /// Maximum cost of each task, in US dollars
    #[arg(long, value_name = "USD", value_parser = amount)]
    pub(super) max_cost: Option<f64>,
    /// Maximum time of each task: 90s, 30m, or a number of seconds; 0 for no limit
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    pub(super) timeout: Option<TimeLimit>,
    /// Who is served first: 1 before 5 [default: 3]
    #[arg(long, value_name = "1..5", value_parser = clap::value_parser!(u32).range(1..=5))]
    pub(super) priority: Option<u32>,
    /// Give a step to another worker once its own has been silent for so long, from 1s to 1h [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub(super) takeover: Option<TimeSpan>,
    /// At a good end, have the worker run its command for merge requests
    #[arg(long)]
    pub(super) merge_request: bool,
}

/// Subcommands of `rawko fleet`.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// List the tasks; no worker is needed for it
    List(ListArgs),
    /// Show how a task stands, what it asks, how it ended, and where its work is
    Show(ShowArgs),
    /// Follow a task as if it ran here
    Watch(WatchTaskArgs),
    /// Stop tasks
    Cancel(CancelTasksArgs),
    /// Answer the question of a task
    Approve(ApproveTaskArgs),
    /// Pause a task, speak to its agents, or overrule the arbiter
    Steer(SteerTaskArgs),
    /// Write a task's session into this project, for explain, replay, inspect, continue and resume
    Export(ExportTaskArgs),
    /// Start a Temporal server for a first try on this machine, until Ctrl-C
    Up(UpArgs),
}

/// How a task stands, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskPhase {
    /// No worker has begun it.
    Waiting,
    /// It is under way.
    Running,
    /// It waits for an approval.
    Asking,
    /// The user has paused it.
    Paused,
    /// It ended, and its checks passed.
    Verified,
    /// It ended, and nothing proves it.
    Claimed,
    /// It ended without success.
    Failed,
    /// A limit stopped it.
    Limited,
    /// It was cancelled.
    Cancelled,
    /// Another process drives its session.
    Released,
    /// The fleet could not carry it on.
    Broken,
}

/// Options of `rawko fleet list`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ListArgs {
    /// Only tasks that stand so; may be repeated, or a list with commas
    #[arg(long, value_name = "STATE", value_enum, value_delimiter = ',', action = ArgAction::Append)]
    pub(super) state: Vec<TaskPhase>,
    /// Only tasks of this submission
    #[arg(long, value_name = "NAME")]
    pub(super) submission: Option<String>,
    /// Only tasks of this submitter
    #[arg(long, value_name = "NAME")]
    pub(super) submitter: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Options of `rawko fleet show`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ShowArgs {
    /// The task's id
    #[arg(value_name = "ID")]
    pub(super) task: String,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Options of `rawko fleet watch`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WatchTaskArgs {
    /// The task's id
    #[arg(value_name = "ID")]
    pub(super) task: String,
    /// Output format: text for people, json for the result as one JSON object, stream-json for every event as one
    /// object a line
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub(super) output: Option<OutputFormat>,
    /// Print every event as one JSON object a line, as --output stream-json does
    #[arg(long, conflicts_with = "output")]
    pub(super) json: bool,
    /// Also show rules, latencies, cache hits and tool output
    #[arg(long, short)]
    pub(super) verbose: bool,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Options of `rawko fleet cancel`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CancelTasksArgs {
    /// The tasks' ids
    #[arg(value_name = "ID", required = true)]
    pub(super) tasks: Vec<String>,
    /// Why, for the task's record
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<String>,
    /// Wait this long for each to end, like 90s or 5m; a number alone is seconds [default: 15s]
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub(super) wait: Option<TimeSpan>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// An answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesOrNo {
    /// The call may be made, this once.
    Yes,
    /// It may not.
    No,
}

/// Options of `rawko fleet approve`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ApproveTaskArgs {
    /// The task's id
    #[arg(value_name = "ID")]
    pub(super) task: String,
    /// The answer. Without it, the question is shown, and a terminal is asked
    #[arg(value_name = "ANSWER", value_enum)]
    pub(super) answer: Option<YesOrNo>,
    /// Answer only if this question waits: its digest, or the beginning of it
    #[arg(long, value_name = "DIGEST")]
    pub(super) question: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Options of `rawko fleet steer`.
#[derive(Debug, Clone, Default, Args)]
#[command(override_usage = "rawko fleet steer [OPTIONS] ID COMMAND", after_help = commands_help())]
pub(crate) struct SteerTaskArgs {
    /// The task's id
    #[arg(value_name = "ID")]
    pub(super) task: String,
    /// The command
    #[arg(value_name = "COMMAND", required = true)]
    pub(super) words: Vec<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Options of `rawko fleet export`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ExportTaskArgs {
    /// The task's id
    #[arg(value_name = "ID")]
    pub(super) task: String,
    /// End the task in the fleet first, and leave its session unfinished, so that `rawko resume` goes on with it here
    #[arg(long)]
    pub(super) release: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
    #[command(flatten)]
    pub(super) connection: ConnectionArgs,
}

/// Options of `rawko fleet up`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct UpArgs {
    /// The port on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = 7233, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: u16,
    /// Where it keeps its data [default: a folder of this user's]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Print its address as one line of JSON once it answers
    #[arg(long)]
    pub(super) json: bool,
}

fn rate(text: &str) -> Result<(String, f64), String> {
    let wanted = || "write a provider and a number above 0, like claude=2 or claude=0.5".to_owned();
    let (name, rate) = text.split_once('=').ok_or_else(wanted)?;
    let (name, rate) = (name.trim(), rate.trim().parse::<f64>().map_err(|_| wanted())?);
    let is_rate = !name.is_empty() && rate.is_finite() && rate > 0.0;
    if is_rate { Ok((name.to_owned(), rate)) } else { Err(wanted()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_names_a_provider_and_a_number() {
        assert_eq!(rate("claude=2"), Ok(("claude".to_owned(), 2.0)));
        assert_eq!(rate(" my-own = 0.5 "), Ok(("my-own".to_owned(), 0.5)));
        for wrong in ["", "claude", "claude=", "=2", "claude=0", "claude=-1", "claude=inf", "claude=2/s"] {
            assert!(rate(wrong).unwrap_err().contains("claude=2"), "{wrong}");
        }
    }
}
