//! `rawko fleet cancel ID…`: stops tasks. A task ends once what is under way is dead.

use std::time::Duration;

use rawko_temporal::{Fleet, FleetTask};
use serde_json::{Value, json};

use super::arguments::{CancelTasksArgs, TaskPhase};
use super::connection::{FleetAddress, OrFailure as _};
use super::phase::as_json;
use crate::commands::cancel::DEFAULT_WAIT;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::runtime::block_on;
use crate::workspace::Workspace;

pub(super) fn run(workspace: &Workspace, arguments: &CancelTasksArgs) -> Result<Exit, Failure> {
    let target = FleetAddress::of(workspace, &arguments.connection)?;
    let wait = arguments.wait.map_or(DEFAULT_WAIT, |wait| Duration::from_millis(wait.as_ms()));
    let reason = arguments.reason.as_deref().unwrap_or("rawko fleet cancel");
    let console = &workspace.console;
    let (stopped, failure) = block_on(async {
        let fleet = target.connect().await?;
        let (mut stopped, mut failure) = (Vec::<Value>::new(), None);
        for id in &arguments.tasks {
            // Of several, those that are there are stopped in any case.
            let (has_ended, ended) = match stop(&fleet, id, reason, wait).await {
                Ok(stopped) => stopped,
                Err(error) => {
                    failure.get_or_insert(error);
                    continue;
                }
            };
            let name = clean_line(id);
            let state = ended.as_ref().map(|task| TaskPhase::of(task).as_str());
            if arguments.output.json {
                stopped.push(json!({
                    "id": id,
                    "how": match (has_ended, &ended) {
                        (true, _) => "already_ended",
                        (false, Some(_)) => "stopped",
                        (false, None) => "asked",
                    },
                    "task": ended.as_ref().map(as_json),
                }));
                continue;
            }
            console.line(&match (has_ended, state) {
                (true, state) => {
                    format!("task {name} had already ended: {}", state.unwrap_or_default())
                }
                (false, Some(state)) => format!("task {name} has ended: {state}"),
                (false, None) => {
                    format!(
                        "task {name} was asked to stop: it ends once a worker has stopped what is under way"
                    )
                }
            })?;
        }
        Ok::<_, Failure>((stopped, failure))
    })?;
    if arguments.output.json {
        console.json(&stopped)?;
    }
    failure.map_or(Ok(Exit::Success), Err)
}

/// Stops one task. Gives whether it had ended before, and its end if it came in time.
async fn stop(
    fleet: &Fleet,
    id: &str,
    reason: &str,
    wait: Duration,
) -> Result<(bool, Option<FleetTask>), Failure> {
    let before = fleet.show(id).await.or_failure()?;
    if before.ended_at.is_some() {
        return Ok((true, Some(before)));
    }
    fleet.cancel(id, reason).await.or_failure()?;
    let ended = tokio::time::timeout(wait, fleet.wait(id)).await.ok().transpose().or_failure()?;
    Ok((false, ended))
}
