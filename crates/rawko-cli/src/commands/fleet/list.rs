//! `rawko fleet list`: the tasks of a fleet, the newest first.

use rawko_temporal::{FleetTask, TaskStatus};
use serde_json::Value;

use super::arguments::{ListArgs, TaskPhase};
use super::connection::{FleetAddress, OrFailure as _};
use super::phase::{as_json, timestamp};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, Rows, age, or_dash, shortened};
use crate::runtime::block_on;
use crate::workspace::Workspace;

/// Characters of a task that are shown.
const TASK_CHARS: usize = 60;

pub(super) fn run(workspace: &Workspace, arguments: &ListArgs) -> Result<Exit, Failure> {
    let target = FleetAddress::of(workspace, &arguments.connection)?;
    let all = block_on(async { target.connect().await?.list().await.or_failure() })?;
    let tasks: Vec<&FleetTask> = all.iter().filter(|task| is_asked_for(task, arguments)).collect();
    let entries: Vec<Value> = tasks.iter().copied().map(as_json).collect();
    workspace.console.output(arguments.output.json, &entries, |paint| {
        if tasks.is_empty() {
            return match all.is_empty() {
                true => "the fleet has no tasks yet; to give it one: rawko submit \"a task\"\n".to_owned(),
                false => "no task of the fleet is so; `rawko fleet list` shows all\n".to_owned(),
            };
        }
        let now = Clock::local().now();
        let known =
            |task: &FleetTask, what: fn(&TaskStatus) -> String| or_dash(task.status.as_ref().map(what));
        Rows::new(paint, &tasks).table(&[
            ("ID", &|task| task.id.clone()),
            ("AGE", &|task| or_dash(task.submitted_at.map(|at| age(now.since(timestamp(at)))))),
            ("STATE", &|task| TaskPhase::of(task).as_str().to_owned()),
            ("ITERATIONS", &|task| known(task, |status| status.iterations.to_string())),
            ("SUBMITTER", &|task| known(task, |status| status.submitter.clone())),
            ("TASK", &|task| known(task, |status| shortened(&status.task, TASK_CHARS))),
        ])
    })?;
    Ok(Exit::Success)
}

fn is_asked_for(task: &FleetTask, arguments: &ListArgs) -> bool {
    let is = |wanted: &Option<String>, of: fn(&TaskStatus) -> Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| task.status.as_ref().and_then(of) == Some(wanted))
    };
    (arguments.state.is_empty() || arguments.state.contains(&TaskPhase::of(task)))
        && is(&arguments.submission, |status| status.submission.as_deref())
        && is(&arguments.submitter, |status| Some(status.submitter.as_str()))
}
