//! `rawko cancel ID`: stops a running session.

use std::time::Duration;

use clap::Args;
use rawko::config::TimeSpan;
use rawko::{Cancelled, Outcome};
use serde_json::json;

use crate::commands::kept::whole_id;
use crate::config_args::time_span;
use crate::console::OutputArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::workspace::Workspace;

/// Long enough for tools to end by themselves, or to be killed after their grace period.
pub(in crate::commands) const DEFAULT_WAIT: Duration = Duration::from_secs(15);

/// Options of `rawko cancel`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct CancelArgs {
    /// Session id, or the beginning or end of it; `last` is the latest [default: the one that runs]
    id: Option<String>,
    /// Wait this long for the session to end, like 90s or 5m; a number alone is seconds [default: 15s]
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    wait: Option<TimeSpan>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Stops the session.
pub(crate) fn run(workspace: &Workspace, arguments: &CancelArgs) -> Result<Exit, Failure> {
    let wait = arguments.wait.map_or(DEFAULT_WAIT, |wait| Duration::from_millis(wait.as_ms()));
    let id = match &arguments.id {
        Some(id) => id.clone(),
        // An interrupted session is only closed by its name: it can be resumed.
        None => workspace.running_session()?,
    };
    stop(workspace, &id, wait, arguments.output.json)
}

/// The same for `rawko steer ID cancel`.
pub(super) fn stop(workspace: &Workspace, id: &str, wait: Duration, as_json: bool) -> Result<Exit, Failure> {
    let store = workspace.sessions()?;
    let id = whole_id(&store, id)?;
    let cancelled = rawko::cancel(&store, &id, wait)?;
    let (how, outcome, pid) = match &cancelled {
        Cancelled::AlreadyEnded(outcome) => ("already_ended", outcome, None),
        Cancelled::Closed(outcome) => ("closed", outcome, None),
        Cancelled::Stopped { pid, outcome } => ("stopped", outcome, Some(pid)),
    };
    let value = json!({"session": id, "how": how, "pid": pid, "outcome": outcome});
    workspace.console.output(as_json, &value, |_| text(&clean_line(&id), &cancelled))?;
    Ok(Exit::Success)
}

fn text(id: &str, cancelled: &Cancelled) -> String {
    let end = |outcome: &Outcome| outcome.status.as_str();
    match cancelled {
        Cancelled::AlreadyEnded(outcome) => format!("session {id} had already ended: {}\n", end(outcome)),
        Cancelled::Closed(outcome) => {
            format!("session {id} was not running; its journal is closed: {}\n", end(outcome))
        }
        Cancelled::Stopped { pid, outcome } => {
            format!("stopped process {pid}; session {id}: {}\n", end(outcome))
        }
    }
}
