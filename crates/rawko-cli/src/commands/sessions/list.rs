//! `rawko sessions list`.

use std::time::{SystemTime, UNIX_EPOCH};

use rawko::journal::{SessionInfo, SessionStatus, SessionStore};
use rawko_core::Timestamp;
use rawko_core::text::truncate;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Table, age, clean_line, cost};
use crate::workspace::Workspace;

/// Characters of a task that are shown.
const TASK_CHARS: usize = 60;

/// Lists the sessions.
pub(super) fn list(workspace: &Workspace, store: &SessionStore, as_json: bool) -> Result<Exit, Failure> {
    let sessions = store.list()?;
    let console = &workspace.console;
    if as_json {
        console.json(&sessions)?;
        return Ok(Exit::Success);
    }
    if sessions.is_empty() {
        console.line("no sessions yet; to start one: rawko \"a task\"")?;
        return Ok(Exit::Success);
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    let mut table = Table::new(&["ID", "AGE", "STATUS", "ITERATIONS", "COST", "TASK"]);
    for session in &sessions {
        table.row(row(session, now));
    }
    console.write(&table.render(console.paint()))?;
    for session in &sessions {
        if let Some(problem) = &session.problem {
            console.line(&format!("{}: {}", clean_line(&session.id), clean_line(problem)))?;
        }
    }
    Ok(Exit::Success)
}

fn row(session: &SessionInfo, now: Timestamp) -> Vec<String> {
    let (status, spent) = match (session.status, &session.outcome) {
        (_, Some(outcome)) => (outcome.status.as_str(), cost(session.cost_usd)),
        (SessionStatus::Running | SessionStatus::Unfinished, None) if session.approval_until.is_some() => {
            ("needs approval", "-".to_owned())
        }
        (SessionStatus::Running | SessionStatus::Unfinished, None) if session.paused => {
            ("paused", "-".to_owned())
        }
        (SessionStatus::Running, None) => ("running", "-".to_owned()),
        (SessionStatus::Unfinished | SessionStatus::Ended, None) => ("unfinished", "-".to_owned()),
        (SessionStatus::Unreadable, None) => ("unreadable", "-".to_owned()),
    };
    let age = match session.status {
        SessionStatus::Unreadable => "-".to_owned(),
        SessionStatus::Running | SessionStatus::Unfinished | SessionStatus::Ended => {
            age(now.since(session.created_at))
        }
    };
    vec![
        clean_line(&session.id),
        age,
        status.to_owned(),
        session.iterations.map_or("-".to_owned(), |iterations| iterations.to_string()),
        spent,
        truncate(&clean_line(&session.task), TASK_CHARS),
    ]
}
