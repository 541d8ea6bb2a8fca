//! `rawko fleet cancel ID…`: stops tasks. A task ends once what is under way is dead.

use std::time::Duration;

use serde_json::{Value, json};

use super::arguments::{CancelArgs, Phase};
use super::connection::{OrFailure as _, Target};
use super::phase::as_json;
use crate::commands::cancel::DEFAULT_WAIT;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::watch::block_on;
use crate::workspace::Workspace;

pub(super) fn run(workspace: &Workspace, arguments: &CancelArgs) -> Result<Exit, Failure> {
    let target = Target::of(workspace, &arguments.connection)?;
    let wait = arguments.wait.map_or(DEFAULT_WAIT, |wait| Duration::from_millis(wait.as_ms()));
    let reason = arguments.reason.as_deref().unwrap_or("rawko fleet cancel");
    let console = &workspace.console;
    let stopped: Vec<Value> = block_on(async {
        let fleet = target.connect().await?;
        let mut stopped = Vec::new();
        for id in &arguments.tasks {
            let before = fleet.show(id).await.or_failure()?;
            let has_ended = before.ended_at.is_some();
            if !has_ended {
                fleet.cancel(id, reason).await.or_failure()?;
            }
            let ended = match has_ended {
                true => Some(before),
                false => tokio::time::timeout(wait, fleet.wait(id)).await.ok().transpose().or_failure()?,
            };
            let name = clean_line(id);
            let state = ended.as_ref().map(|task| Phase::of(task).as_str());
            if arguments.json {
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
        Ok(stopped)
    })?;
    if arguments.json {
        console.json(&stopped)?;
    }
    Ok(Exit::Success)
}
