//! `rawko sessions rm`: removes sessions with their checkpoints.

use std::path::Path;

use clap::Args;
use rawko::checkpoint::Checkpoints;
use rawko::journal::{JournalError, SessionInfo, SessionStatus, SessionStore};
use rawko_core::Timestamp;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{clean, clean_line};
use crate::workspace::Workspace;

/// Options of `rawko sessions rm`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["ids", "all_ended_before"]))]
pub(crate) struct RmArgs {
    /// Session ids, or the beginnings or ends of them; `last` is the latest
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Remove all sessions that ended before this day (UTC), like 2026-01-31
    #[arg(long, value_name = "DATE", value_parser = date)]
    all_ended_before: Option<String>,
    /// Do not ask; needed for unfinished sessions and for --all-ended-before
    #[arg(long, short)]
    yes: bool,
}

/// A day as it begins an RFC 3339 time.
fn date(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str, digits: usize| {
        (part.len() == digits && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse::<u32>().ok())?
    };
    match parts.as_slice() {
        [year, month, day]
            if number(year, 4).is_some()
                && number(month, 2).is_some_and(|month| (1..=12).contains(&month))
                && number(day, 2).is_some_and(|day| (1..=31).contains(&day)) =>
        {
            Ok(text.to_owned())
        }
        _ => Err("write a day as year, month and day, like 2026-01-31".to_owned()),
    }
}

/// Removes the sessions.
pub(super) fn rm(
    workspace: &Workspace,
    project: &Path,
    store: &SessionStore,
    arguments: &RmArgs,
) -> Result<Exit, Failure> {
    let chosen = chosen(store, arguments)?;
    let console = &workspace.console;
    if chosen.is_empty() {
        console.line("no session ended before that day")?;
        return Ok(Exit::Success);
    }
    let needs_yes = |session: &SessionInfo| {
        let is_open = session.status != SessionStatus::Ended || has_tree(project, store, session);
        arguments.all_ended_before.is_some() || is_open
    };
    let unconfirmed: Vec<&SessionInfo> = chosen.iter().filter(|session| needs_yes(session)).collect();
    if !arguments.yes && !unconfirmed.is_empty() {
        let list: Vec<String> = unconfirmed
            .iter()
            .map(|session| {
                let note = if has_tree(project, store, session) { "; its work has not landed" } else { "" };
                format!("\n  {}{note}", described(session))
            })
            .collect();
        return Err(Failure::usage(format!("this would remove:{}", list.concat()))
            .with_hint("nothing was removed; use --yes to remove them"));
    }
    for session in &chosen {
        remove(workspace, project, store, session)?;
        console.line(&format!("removed {}", clean_line(&session.id)))?;
    }
    Ok(Exit::Success)
}

fn chosen(store: &SessionStore, arguments: &RmArgs) -> Result<Vec<SessionInfo>, Failure> {
    let mut sessions = store.list()?;
    if let Some(day) = &arguments.all_ended_before {
        sessions
            .retain(|session| ended_at(session).is_some_and(|at| at.to_rfc3339().as_str() < day.as_str()));
        return Ok(sessions);
    }
    let mut named = Vec::new();
    for id in &arguments.ids {
        // The last of the list, begun or not: what is removed is what people see there.
        let newest = sessions.iter().map(|session| session.id.as_str()).max().filter(|_| id == "last");
        let path = store.find(newest.unwrap_or(id))?;
        let name = path.parent().and_then(Path::file_name).unwrap_or_default();
        named.push(name.to_owned());
    }
    sessions.retain(|session| named.iter().any(|name| name.to_str() == Some(&session.id)));
    Ok(sessions)
}

fn ended_at(session: &SessionInfo) -> Option<Timestamp> {
    let outcome = session.outcome.as_ref()?;
    Some(Timestamp(session.created_at.0.saturating_add(outcome.duration_ms)))
}

fn remove(
    workspace: &Workspace,
    project: &Path,
    store: &SessionStore,
    session: &SessionInfo,
) -> Result<(), Failure> {
    let mut forgotten = Ok(());
    let mut removed = Ok(());
    let forget = |directory: &Path| {
        forgotten = Checkpoints::new(project, directory, &session.id).forget();
        removed = rawko::remove_tree_of_session(project, directory);
    };
    store.remove(&session.id, forget).map_err(|error| match error {
        JournalError::Locked { .. } => {
            Failure::new(Exit::Failed, format!("session {} is running and was not removed", session.id))
                .with_hint(format!("end it first: rawko cancel {}", session.id))
        }
        other => other.into(),
    })?;
    let forgotten = forgotten.map_err(|error| ("checkpoints", error.to_string()));
    let removed = removed.map_err(|error| ("tree", error.to_string()));
    for (what, error) in [forgotten, removed].into_iter().filter_map(Result::err) {
        let warning = console_warning(workspace);
        let text =
            format!("{warning} the {what} of {} could not be removed: {}\n", session.id, clean(&error));
        let _ = workspace.console.write_error(&text);
    }
    Ok(())
}

/// Whether there is work of the session that has not landed.
fn has_tree(project: &Path, store: &SessionStore, session: &SessionInfo) -> bool {
    rawko::tree_of_session(project, &store.folder().join(&session.id)).is_some()
}

fn console_warning(workspace: &Workspace) -> String {
    workspace.console.error_paint().warning("warning:")
}

fn described(session: &SessionInfo) -> String {
    let status = match (session.status, &session.outcome) {
        (_, Some(outcome)) => outcome.status.as_str(),
        (SessionStatus::Running, None) => "running",
        (SessionStatus::Unfinished | SessionStatus::Ended, None) => "unfinished, can be resumed",
        (SessionStatus::NotBegun, None) => "not begun",
        (SessionStatus::Unreadable, None) => "unreadable",
    };
    format!("{} ({status}): {}", clean_line(&session.id), clean_line(&session.task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_days() {
        for good in ["2026-01-31", "1999-12-01"] {
            assert_eq!(date(good).as_deref(), Ok(good));
        }
        for bad in
            ["", "2026", "2026-13-01", "2026-1-1", "2026-01-00", "26-01-01", "2026-01-31T00", "2026-01-+1"]
        {
            assert!(date(bad).is_err(), "{bad}");
        }
    }
}
