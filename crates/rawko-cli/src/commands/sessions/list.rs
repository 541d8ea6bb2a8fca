//! `rawko sessions list`.

use rawko::journal::{CheckedJournals, SessionInfo, SessionStatus, SessionStore};
use rawko_core::Timestamp;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Clock, Paint, Rows, age, clean_line, cost, or_dash, shortened};
use crate::workspace::Workspace;

/// Characters of a task that are shown.
const TASK_CHARS: usize = 60;

/// Lists the sessions.
pub(super) fn list(workspace: &Workspace, store: &SessionStore, as_json: bool) -> Result<Exit, Failure> {
    let sessions = store.list_checked(&mut CheckedJournals::default())?;
    workspace.console.output(as_json, &sessions, |paint| text(&sessions, Clock::local().now(), paint))?;
    Ok(Exit::Success)
}

fn text(sessions: &[SessionInfo], now: Timestamp, paint: Paint) -> String {
    if sessions.is_empty() {
        return "no sessions yet; to start one: rawko \"a task\"\n".to_owned();
    }
    let mut text = Rows::new(paint, sessions).table(&[
        ("ID", &|session| session.id.clone()),
        ("AGE", &|session| {
            let is_known = session.created_at != Timestamp::default();
            or_dash(is_known.then(|| age(now.since(session.created_at))))
        }),
        ("STATUS", &|session| status(session).to_owned()),
        ("ITERATIONS", &|session| or_dash(session.iterations.map(|iterations| iterations.to_string()))),
        ("COST", &|session| or_dash(session.outcome.as_ref().map(|_| cost(session.cost_usd)))),
        ("TASK", &|session| shortened(&session.task, TASK_CHARS)),
    ]);
    for session in sessions {
        let landing = session.outcome.as_ref().and_then(|outcome| outcome.landing.as_ref());
        if landing.is_some_and(|landing| landing.end.is_open()) {
            let id = clean_line(&session.id);
            text.push_str(&format!("{id}: its work has not landed: rawko land {id}\n"));
        }
        if let Some(problem) = &session.problem {
            text.push_str(&format!("{}: {}\n", clean_line(&session.id), clean_line(problem)));
        }
    }
    text
}

fn status(session: &SessionInfo) -> &'static str {
    match (session.status, &session.outcome) {
        (_, Some(outcome)) => outcome.status.as_str(),
        (SessionStatus::Running | SessionStatus::Unfinished, None) if session.approval_until.is_some() => {
            "needs approval"
        }
        (SessionStatus::Running | SessionStatus::Unfinished, None) if session.paused => "paused",
        (SessionStatus::Running, None) => "running",
        (SessionStatus::Unfinished | SessionStatus::Ended, None) => "unfinished",
        (SessionStatus::NotBegun, None) => "not begun",
        (SessionStatus::Unreadable, None) => "unreadable",
    }
}
