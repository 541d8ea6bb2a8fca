//! `rawko fleet export ID`: writes a task's session into this project, so that every command about sessions works on it.

use rawko_temporal::{Fleet, FleetTask, TaskStatus};
use serde_json::json;

use super::arguments::ExportTaskArgs;
use super::connection::{FleetAddress, OrFailure as _};
use super::git::Checkout;
use super::phase::as_json;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{clean, clean_line, quoted};
use crate::runtime::block_on;
use crate::workspace::Workspace;

pub(super) fn run(workspace: &Workspace, arguments: &ExportTaskArgs) -> Result<Exit, Failure> {
    let target = FleetAddress::of(workspace, &arguments.connection)?;
    let rawko = workspace.builder().trusted(true).build()?;
    let id = &arguments.task;
    let name = clean_line(id);
    let console = &workspace.console;
    let (task, session) = block_on(async {
        let fleet = target.connect().await?;
        let task = fleet.show(id).await.or_failure()?;
        let task = match arguments.release && task.ended_at.is_none() {
            true => fleet.release(id).await.or_failure()?,
            false => task,
        };
        if task.ended_at.is_none() {
            let text = format!(
                "task {name} goes on in the fleet: the session here ends where it is now; --release ends it there first\n"
            );
            console.write_error(&text)?;
        }
        let session = session(&fleet, &task).await?;
        Ok((task, session))
    })?;
    let ExportedSession { header, events, records } = session;
    let name_of_session = header.session.clone();
    let journal = rawko.adopt(header, &events, &records)?;
    let fetched = fetch(workspace, &task, &name_of_session);
    let goes_on = task.status.as_ref().is_some_and(|status| status.outcome.is_none());
    if arguments.output.json {
        console.json(&json!({
            "session": name_of_session,
            "journal": journal,
            "events": events.len(),
            "ended": !goes_on,
            "fetched": matches!(fetched, Ok(FetchedRefs::Branch | FetchedRefs::NoBranch)),
            "task": as_json(&task),
        }))?;
        return Ok(Exit::Success);
    }
    let session = clean_line(&name_of_session);
    console
        .line(&format!("session {session} of task {name}: {}", clean_line(&journal.display().to_string())))?;
    if let Err(why) = &fetched {
        let label = console.error_paint().warning("warning:");
        console.write_error(&format!(
            "{label} its checkpoints could not be fetched, so `rawko diff` and `rawko rewind` lack them: {}\n",
            clean(why)
        ))?;
    }
    console.write(&next(&task, &session, fetched.unwrap_or(FetchedRefs::Nothing)))?;
    Ok(Exit::Success)
}

/// What a session is made of.
struct ExportedSession {
    header: rawko::journal::JournalHeader,
    events: Vec<rawko_core::session::Stamped>,
    records: Vec<(String, Vec<u8>)>,
}

async fn session(fleet: &Fleet, task: &FleetTask) -> Result<ExportedSession, Failure> {
    let id = &task.id;
    let Some(header) = fleet.header(id).await.or_failure()? else {
        return Err(Failure::new(Exit::Failed, format!("task {} has no session yet", clean_line(id)))
            .with_hint("no worker has begun it, or this is not the store of its workers: --store LOCATION"));
    };
    let events = fleet.events(id, 0).await.or_failure()?;
    let records = fleet.records(id).await.or_failure()?;
    let records = records.into_iter().map(|(name, content)| (name, content.to_vec())).collect();
    Ok(ExportedSession { header, events, records })
}

/// What was fetched of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FetchedRefs {
    /// This is no checkout of its repository.
    Nothing,
    /// Its checkpoints. It has changed nothing, so it has no branch.
    NoBranch,
    /// Its checkpoints and its branch.
    Branch,
}

/// Fetches the task's branch and checkpoints, where this is a checkout of its repository.
fn fetch(workspace: &Workspace, task: &FleetTask, session: &str) -> Result<FetchedRefs, String> {
    let Some(status) = &task.status else { return Ok(FetchedRefs::Nothing) };
    let checkout = Checkout::find(workspace).map_err(|failure| failure.message().to_owned())?;
    let url = status.repository.url();
    let Some(checkout) = checkout.filter(|checkout| checkout.is_of(url)) else {
        return Ok(FetchedRefs::Nothing);
    };
    let has_branch = checkout.fetch(url, &status.branch, session)?;
    Ok(if has_branch { FetchedRefs::Branch } else { FetchedRefs::NoBranch })
}

/// What can be done with it now.
fn next(task: &FleetTask, session: &str, fetched: FetchedRefs) -> String {
    let Some(status) = &task.status else { return String::new() };
    let switch = switch(status, fetched);
    if status.outcome.is_some() {
        return format!(
            "{switch}next: rawko explain {session}, rawko replay {session}, rawko inspect {session}\n"
        );
    }
    if task.ended_at.is_some() {
        return format!("{switch}to go on with it here: rawko resume {session}\n");
    }
    switch
}

fn switch(status: &TaskStatus, fetched: FetchedRefs) -> String {
    let branch = quoted(&status.branch);
    match (fetched, &status.head) {
        (FetchedRefs::Branch, _) => format!("its work: git switch {branch}\n"),
        (FetchedRefs::NoBranch, _) | (FetchedRefs::Nothing, None) => String::new(),
        (FetchedRefs::Nothing, Some(_)) => {
            let url = quoted(status.repository.url());
            format!("its work: git fetch {url} {branch} && git switch -c {branch} FETCH_HEAD\n")
        }
    }
}
