//! `rawko fork ID`: starts a new session from an old one.

use clap::Args;
use rawko::{Fork, ForkOptions, Rawko, Run};
use rawko_core::session::SharedSpend;

use crate::busy::begin_when_free;
use crate::commands::resume;
use crate::config_args::{OverrideArgs, PermissionArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{clean_line, cost, counted, tokens};
use crate::reporters::{OutputFormat, Verbosity};
use crate::run_args::SharedRunArgs;
use crate::workspace::Workspace;

/// Options of `rawko fork`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ForkArgs {
    /// Session id, or the beginning or end of it; `last` is the latest
    id: String,
    /// Share this many records (`rawko explain` numbers them); by default as many as possible. With --task: use the
    /// setup as it was at this record
    #[arg(long, value_name = "N")]
    at: Option<u64>,
    /// Start this task instead, and share only the setup of the old session
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// Only create the session; `rawko resume` continues it
    #[arg(long)]
    no_run: bool,
    #[command(flatten)]
    shared: SharedRunArgs,
    #[command(flatten)]
    overrides: OverrideArgs,
    /// Trust this folder's configuration and the session's journal this once
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    permissions: PermissionArgs,
}

/// Forks the session.
pub(crate) fn run(workspace: &Workspace, arguments: ForkArgs) -> Result<Exit, Failure> {
    let ForkArgs { id, at, task, no_run, shared, overrides, yes, permissions } = arguments;
    let another_task = task.is_some();
    let options = ForkOptions { at, task };
    let verbosity = shared.verbosity();
    let make = || -> Result<(Rawko, Fork), Failure> {
        let builder =
            overrides.builder(workspace).permissions(permissions.clone().permissions()).trusted(yes);
        let rawko = shared.apply(workspace, builder).build()?;
        if verbosity != Verbosity::Quiet {
            workspace.warn(&rawko);
        }
        let fork = rawko.fork(&id, &options).map_err(|error| resume::refused(error, None))?;
        Ok((rawko, fork))
    };
    if no_run {
        let (_, fork) = make()?;
        match shared.format(workspace)? {
            OutputFormat::Text => workspace.console.write(&text(&fork, another_task))?,
            OutputFormat::Json | OutputFormat::StreamJson => workspace.console.json_line(&fork)?,
        }
        return Ok(Exit::Success);
    }
    shared.carry(workspace, (false, permissions.as_options()), || -> Result<Run, Failure> {
        workspace.check_project_is_chosen()?;
        let (rawko, fork) = make()?;
        if verbosity != Verbosity::Quiet {
            let _ = workspace.console.write_error(&text(&fork, another_task));
        }
        begin_when_free(workspace, |_| Ok(rawko.resume(Some(&fork.session))))
    })
}

/// The new session, and what it shares.
fn text(fork: &Fork, another_task: bool) -> String {
    let (session, old) = (clean_line(&fork.session), clean_line(&fork.from.session));
    if another_task {
        return format!(
            "session {session} starts this task with the setup of {old}: agents, models, permissions, limits\n\
             nothing else is shared: no decisions, no plan, no conversation, no cost\n"
        );
    }
    let mut text = format!("session {session} shares {} with {old}\n", counted(fork.from.record, "record"));
    if let Some(SharedSpend { iterations, usage, cost_usd }) = fork.shared {
        let iterations = counted(iterations.into(), "iteration");
        text.push_str(&match usage.total_tokens() {
            0 => format!("they cover {iterations}\n"),
            total => format!(
                "they cover {iterations}, {} tokens, {}: tokens and cost are not counted again\n",
                tokens(total),
                cost(cost_usd)
            ),
        });
    }
    if let Some(stopped) = &fork.stopped {
        text.push_str(&format!(
            "record {} and what follows are not shared: {}\n",
            stopped.record,
            clean_line(&stopped.why)
        ));
    }
    if let Some(why) = &fork.not_shared {
        text.push_str(&format!("removing {old} also removes its checkpoints: {}\n", clean_line(why)));
    }
    text
}
