//! `rawko fleet watch ID`: follows a task by its events in the fleet's store, and reports it as a live run is reported.
//! An event reaches the store only when the next step begins, so open questions come from the engine.

use std::path::PathBuf;
use std::time::Duration;

use rawko::{RecordedRun, RunEvent};
use rawko_temporal::{Fleet, FleetTask};

use super::arguments::{TaskPhase, WatchTaskArgs};
use super::connection::{FleetAddress, OrFailure as _};
use super::phase::exit_of;
use super::show;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, clean, clean_line};
use crate::reporters::{OutputFormat, Reporter, Summary, Verbosity, reporter};
use crate::runtime::block_on;
use crate::signals::StopSignals;
use crate::workspace::Workspace;

/// How often the store and the engine are asked for news.
const LOOK: Duration = Duration::from_secs(1);

/// How watching a task of a fleet ended.
enum TaskWatchEnd {
    /// The task ended, with this event if its session has one.
    Finished(Box<FleetTask>, Option<Box<RunEvent>>),
    /// The user does not want to see more.
    Detached,
}

pub(super) fn run(workspace: &Workspace, arguments: &WatchTaskArgs) -> Result<Exit, Failure> {
    let target = FleetAddress::of(workspace, &arguments.connection)?;
    let console = &workspace.console;
    let format = match arguments.json {
        true => OutputFormat::StreamJson,
        false => arguments.output.unwrap_or_default(),
    };
    let verbosity = if arguments.verbose { Verbosity::Verbose } else { Verbosity::Normal };
    let id = &arguments.task;
    let name = clean_line(id);
    let ended = block_on(async {
        let fleet = target.connect().await?;
        fleet.show(id).await.or_failure()?;
        let mut reporter = reporter(*console, format, (verbosity, false), &workspace.keyboard, None);
        let ended = follow(&fleet, id, reporter.as_mut()).await;
        reporter.close()?;
        ended
    })?;
    match ended {
        TaskWatchEnd::Finished(task, finished) => {
            let summary = finished.and_then(|finished| Summary::of(&finished, None, false));
            match summary {
                Some(summary) if format == OutputFormat::Text => {
                    console.write(&summary.facts(console.paint()))?;
                }
                Some(_) => {}
                None => console.write_error(&format!("{}\n", without_end(&task)))?,
            }
            if format == OutputFormat::Text
                && let Some(status) = task.status.as_ref().filter(|status| status.head.is_some())
            {
                console.write_error(&format!("to look at its work: {}\n", show::commands(status)))?;
            }
            Ok(exit_of(&task))
        }
        TaskWatchEnd::Detached => {
            console.write_error(&format!(
                "no longer watching; task {name} goes on. To stop it: rawko fleet cancel {name}\n"
            ))?;
            Ok(Exit::Success)
        }
    }
}

/// Why a task has ended whose session has not.
fn without_end(task: &FleetTask) -> String {
    let name = clean_line(&task.id);
    match (TaskPhase::of(task), &task.failure) {
        (TaskPhase::Released, _) => {
            format!(
                "task {name} was released: its session goes on elsewhere; `rawko fleet export {name}` brings it here"
            )
        }
        (_, Some(why)) => format!("task {name} could not be carried on: {}", clean(why)),
        (phase, None) => format!("task {name} has ended without a session: {}", phase.as_str()),
    }
}

/// Reports what there is and what comes, until the task ends.
async fn follow(
    fleet: &Fleet,
    id: &str,
    reporter: &mut (dyn Reporter + Send),
) -> Result<TaskWatchEnd, Failure> {
    let mut signals = StopSignals::listen()?;
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let place = PathBuf::from(format!("{}/tasks/{id}", fleet.store().location().trim_end_matches('/')));
    let (mut run, mut read) = (None, 0);
    let (mut finished, mut asked) = (None, None);
    loop {
        tokio::select! {
            biased;
            _ = signals.next() => return Ok(TaskWatchEnd::Detached),
            _ = looks.tick() => {}
        }
        // Asked before the events: once a task has ended, all of them are there.
        let task = fleet.show(id).await.or_failure()?;
        if run.is_none()
            && let Some(header) = fleet.header(id).await.or_failure()?
        {
            run = Some(RecordedRun::new(header, &place));
        }
        if let Some(run) = &mut run {
            for stamped in fleet.events(id, read).await.or_failure()? {
                read += 1;
                for event in run.take(&stamped) {
                    match event.outcome() {
                        // It comes again if more becomes known of it.
                        Some(_) => finished = Some(event),
                        None => reporter.event(&event)?,
                    }
                }
            }
        }
        let question = task.status.as_ref().and_then(|status| status.question.as_ref());
        let question = question.map(|question| question.digest.clone());
        if question != asked {
            if question.is_some()
                && let Some(text) = show::asked(&task, Clock::local())
            {
                reporter.notice(&text)?;
            }
            asked = question;
        }
        if task.ended_at.is_some() {
            if let Some(finished) = &finished {
                reporter.event(finished)?;
            }
            return Ok(TaskWatchEnd::Finished(Box::new(task), finished.map(Box::new)));
        }
        if reporter.is_animated() {
            reporter.tick()?;
        }
    }
}
