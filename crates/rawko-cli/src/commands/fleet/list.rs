//! `rawko fleet list`: the tasks of a fleet, the newest first.

use rawko_core::Timestamp;
use rawko_core::text::truncate;
use rawko_temporal::{FleetTask, TaskStatus};
use serde_json::Value;

use super::arguments::{ListArgs, Phase};
use super::connection::{OrFailure as _, Target};
use super::phase::{as_json, timestamp};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, Table, age, clean_line};
use crate::watch::block_on;
use crate::workspace::Workspace;

/// Characters of a task that are shown.
const TASK_CHARS: usize = 60;

pub(super) fn run(workspace: &Workspace, arguments: &ListArgs) -> Result<Exit, Failure> {
    let target = Target::of(workspace, &arguments.connection)?;
    let all = block_on(async { target.connect().await?.list().await.or_failure() })?;
    let tasks: Vec<&FleetTask> = all.iter().filter(|task| is_asked_for(task, arguments)).collect();
    let console = &workspace.console;
    if arguments.json {
        let tasks: Vec<Value> = tasks.into_iter().map(as_json).collect();
        console.json(&tasks)?;
        return Ok(Exit::Success);
    }
    if tasks.is_empty() {
        console.line(match all.is_empty() {
            true => "the fleet has no tasks yet; to give it one: rawko submit \"a task\"",
            false => "no task of the fleet is so; `rawko fleet list` shows all",
        })?;
        return Ok(Exit::Success);
    }
    let now = Clock::local().now();
    let mut table = Table::new(&["ID", "AGE", "STATE", "ITERATIONS", "SUBMITTER", "TASK"]);
    for task in tasks {
        table.row(row(task, now));
    }
    console.write(&table.render(console.paint()))?;
    Ok(Exit::Success)
}

fn is_asked_for(task: &FleetTask, arguments: &ListArgs) -> bool {
    let is = |wanted: &Option<String>, of: fn(&TaskStatus) -> Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| task.status.as_ref().and_then(of) == Some(wanted))
    };
    (arguments.state.is_empty() || arguments.state.contains(&Phase::of(task)))
        && is(&arguments.submission, |status| status.submission.as_deref())
        && is(&arguments.submitter, |status| Some(status.submitter.as_str()))
}

fn row(task: &FleetTask, now: Timestamp) -> Vec<String> {
    let status = task.status.as_ref();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        clean_line(&task.id),
        or_dash(task.submitted_at.map(|at| age(now.since(timestamp(at))))),
        Phase::of(task).as_str().to_owned(),
        or_dash(status.map(|status| status.iterations.to_string())),
        or_dash(status.map(|status| clean_line(&status.submitter))),
        or_dash(status.map(|status| truncate(&clean_line(&status.task), TASK_CHARS))),
    ]
}
