//! The recorded sessions of a project: which there are, and where one is.

use std::path::{Path, PathBuf};

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ListSessionsResponse, SessionId, SessionInfo};
use rawko::journal::{SessionInfo as RecordedInfo, SessionStatus, SessionStore};
use rawko_core::Timestamp;

use super::fault::{AcpFault, no_session};

/// Sessions on a page.
const PAGE: usize = 50;

/// The journal of the session of exactly this id.
pub(super) fn journal_of(store: &SessionStore, id: &SessionId) -> Result<PathBuf, Error> {
    let journals = store.journals().map_err(|error| AcpFault::of_rawko(error.to_string()))?;
    let found = journals.into_iter().find(|(known, _)| known.as_str() == &*id.0);
    found.map(|(_, path)| path).ok_or_else(|| no_session(id))
}

/// A page of the sessions of a project, the newest first. `folder` is what the client calls the project.
pub(super) fn page(
    store: &SessionStore,
    folder: &Path,
    cursor: Option<&str>,
) -> Result<ListSessionsResponse, Error> {
    let mut sessions = store.list().map_err(|error| AcpFault::of_rawko(error.to_string()))?;
    // One that cannot be read cannot be loaded either.
    let is_whole = |session: &RecordedInfo| {
        !matches!(session.status, SessionStatus::Unreadable | SessionStatus::NotBegun)
    };
    sessions.retain(is_whole);
    sessions.reverse();
    let older = |session: &&RecordedInfo| cursor.is_none_or(|cursor| session.id.as_str() < cursor);
    let mut page: Vec<&RecordedInfo> = sessions.iter().filter(older).take(PAGE + 1).collect();
    let is_last = page.len() <= PAGE;
    page.truncate(PAGE);
    let next = page.last().filter(|_| !is_last).map(|session| session.id.clone());
    let shown = page.into_iter().map(|session| {
        let title = session.task.lines().next().unwrap_or_default().to_owned();
        let changed = store.folder().join(&session.id).join("journal.jsonl");
        SessionInfo::new(session.id.clone(), folder)
            .title(title)
            .updated_at(changed_at(&changed).unwrap_or(session.created_at).to_rfc3339())
    });
    Ok(ListSessionsResponse::new(shown.collect()).next_cursor(next))
}

fn changed_at(path: &Path) -> Option<Timestamp> {
    let since = path.metadata().ok()?.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp(u64::try_from(since.as_millis()).ok()?))
}
