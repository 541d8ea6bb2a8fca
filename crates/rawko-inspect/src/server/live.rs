//! The sessions of the project as the page sees them. Those that were looked at last are kept, and only what their
//! journals gained is read.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rawko::journal::{
    CheckedJournals, JournalError, JournalTail, SessionInfo, SessionStatus, SessionStore, read,
};
use rawko::{Explanation, explain};
use rawko_core::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::text::{bounded, plain};
use crate::view::{FORMAT, SessionEntry, SessionHead, SessionView, ViewBuilder, ViewLimits};

/// How many sessions are kept.
const KEPT: usize = 6;
/// Bytes of a journal up to which its texts are kept whole, once an entry of it was opened.
const WHOLE: u64 = 64 * 1024 * 1024;
/// Bytes of one text of a decision.
const DECISION_TEXT: usize = 4 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Missing {
    /// There is no such thing.
    Unknown,
    /// It cannot be read.
    Unreadable(String),
}

impl From<JournalError> for Missing {
    fn from(error: JournalError) -> Self {
        match error.hint() {
            Some(hint) => Self::Unreadable(format!("{error}; {hint}")),
            None => Self::Unreadable(error.to_string()),
        }
    }
}

/// What the journal does not say of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LiveStatus {
    /// Whether it runs.
    pub(super) status: SessionStatus,
    /// When the question is over with which it waits for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) approval_until: Option<Timestamp>,
    /// The sessions that were forked from it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) forks: Vec<String>,
}

/// A session, or what changed in it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionAnswer<'a> {
    format: u32,
    standing: &'a LiveStatus,
    head: &'a SessionHead,
    entries: Vec<&'a SessionEntry>,
}

/// A session that is being looked at.
struct ViewedSession {
    view: Growing,
    /// Its decisions, and up to which record they are known.
    decisions: Option<(u64, Vec<Explanation>)>,
}

/// A view that grows with its journal.
struct Growing {
    tail: JournalTail,
    builder: ViewBuilder,
}

/// A kept session, by its id.
type KeptSession = (String, Arc<Mutex<ViewedSession>>);

/// The sessions of one project.
pub(super) struct Sessions {
    store: SessionStore,
    /// Whose records were read for the list.
    checked: Mutex<CheckedJournals>,
    /// The one that was used last is the last.
    kept: Mutex<VecDeque<KeptSession>>,
    /// The session of which an entry was opened last, with its texts whole.
    whole: Mutex<Option<(String, Growing)>>,
}

impl Sessions {
    pub(super) fn of_project(project: &Path) -> Self {
        Self {
            store: SessionStore::of_project(project),
            checked: Mutex::default(),
            kept: Mutex::default(),
            whole: Mutex::default(),
        }
    }

    /// All sessions, the newest first. A damaged one is listed as such, whatever its end says.
    pub(super) fn list(&self) -> Result<Vec<SessionInfo>, Missing> {
        let mut sessions = self.store.list_checked(&mut lock(&self.checked))?;
        sessions.reverse();
        sessions.iter_mut().for_each(make_plain);
        Ok(sessions)
    }

    /// The journal of the session with exactly this id. Only what the folder lists is a session, so no id leads elsewhere.
    pub(super) fn path(&self, id: &str) -> Result<PathBuf, Missing> {
        let found = self.store.journals()?.into_iter().find(|(known, _)| known == id);
        found.map(|(_, path)| path).ok_or(Missing::Unknown)
    }

    pub(super) fn standing(&self, id: &str, with_forks: bool) -> Result<LiveStatus, Missing> {
        let info = self.store.info(id)?.ok_or(Missing::Unknown)?;
        let forks = match with_forks {
            true => self.store.list()?,
            false => Vec::new(),
        };
        let is_fork = |other: &SessionInfo| other.forked_from.as_ref().is_some_and(|from| from.session == id);
        Ok(LiveStatus {
            status: info.status,
            approval_until: info.approval_until,
            forks: forks.into_iter().filter(is_fork).map(|other| other.id).collect(),
        })
    }

    /// The whole session, as JSON.
    pub(super) fn session(&self, id: &str) -> Result<String, Missing> {
        let standing = self.standing(id, true)?;
        let live = self.live(id)?;
        let mut live = lock(&live);
        live.view.refresh();
        let builder = &live.view.builder;
        let entries = builder.entries().iter().collect();
        Ok(json(&SessionAnswer { format: FORMAT, standing: &standing, head: builder.head(), entries }))
    }

    /// What happened in the session after `record`, as JSON, and up to which record that is. `known` is what the last answer
    /// said besides. Nothing, where neither has changed.
    pub(super) fn updates(
        &self,
        id: &str,
        record: u64,
        known: Option<&LiveStatus>,
    ) -> Result<Option<(u64, LiveStatus, String)>, Missing> {
        // Forks are of interest when the page is opened; to look for them reads every journal's end.
        let mut standing = self.standing(id, false)?;
        if let Some(known) = known {
            standing.forks.clone_from(&known.forks);
        }
        let live = self.live(id)?;
        let mut live = lock(&live);
        live.view.refresh();
        let builder = &live.view.builder;
        let head = builder.head();
        if head.records <= record && known == Some(&standing) {
            return Ok(None);
        }
        let entries = builder.changed_since(record).collect();
        let answer = json(&SessionAnswer { format: FORMAT, standing: &standing, head, entries });
        Ok(Some((head.records, standing, answer)))
    }

    /// One entry with its texts whole.
    pub(super) fn entry(&self, id: &str, number: usize) -> Result<String, Missing> {
        let path = self.path(id)?;
        if std::fs::metadata(&path).is_ok_and(|journal| journal.len() > WHOLE) {
            let limits = ViewLimits { whole: Some(number), ..ViewLimits::default() };
            let view = SessionView::of(&read(&path)?, limits);
            return view.entries.get(number).map(json).ok_or(Missing::Unknown);
        }
        // Read once: each further entry costs no more than what the journal has gained.
        let mut kept = lock(&self.whole);
        if kept.as_ref().is_none_or(|(known, _)| known != id) {
            *kept =
                Some((id.to_owned(), Growing::open(&path, ViewLimits { text: usize::MAX, whole: None })?));
        }
        let Some((_, view)) = kept.as_mut() else { return Err(Missing::Unknown) };
        view.refresh();
        view.builder.entries().get(number).map(json).ok_or(Missing::Unknown)
    }

    /// A decision with its input, its answers and its alternatives.
    pub(super) fn decision(&self, id: &str, number: usize) -> Result<String, Missing> {
        let live = self.live(id)?;
        let mut live = lock(&live);
        live.view.refresh();
        let records = live.view.builder.head().records;
        if live.decisions.as_ref().is_none_or(|(known, _)| *known != records) {
            live.decisions = Some((records, explain(&read(&self.path(id)?)?)));
        }
        let decisions = live.decisions.as_ref().map(|(_, decisions)| decisions);
        let found = decisions.and_then(|decisions| decisions.get(number.checked_sub(1)?));
        let value = found.and_then(|decision| serde_json::to_value(decision).ok());
        value.map(|value| bounded(value, DECISION_TEXT).to_string()).ok_or(Missing::Unknown)
    }

    /// The session as it was read last.
    fn live(&self, id: &str) -> Result<Arc<Mutex<ViewedSession>>, Missing> {
        let mut kept = lock(&self.kept);
        if let Some(at) = kept.iter().position(|(known, _)| known == id)
            && let Some(found) = kept.remove(at)
        {
            let live = found.1.clone();
            kept.push_back(found);
            return Ok(live);
        }
        let view = Growing::open(&self.path(id)?, ViewLimits::default())?;
        let live = Arc::new(Mutex::new(ViewedSession { view, decisions: None }));
        kept.push_back((id.to_owned(), live.clone()));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(live)
    }
}

impl Growing {
    fn open(path: &Path, limits: ViewLimits) -> Result<Self, Missing> {
        let tail = JournalTail::open(path)?;
        let builder = ViewBuilder::new(tail.header(), limits);
        Ok(Self { tail, builder })
    }

    fn refresh(&mut self) {
        let builder = &mut self.builder;
        if builder.head().damage.is_some() {
            return;
        }
        loop {
            let seq = self.tail.next_seq();
            match self.tail.next_record() {
                Ok(Some(record)) => builder.record(seq, &record),
                Ok(None) => return,
                Err(error) => return builder.damaged(&error.to_string()),
            }
        }
    }
}

/// Leaves out of a session in the list what is shown with the session itself, and what acts on the text around it.
fn make_plain(session: &mut SessionInfo) {
    session.task = plain(&session.task);
    let Some(outcome) = &mut session.outcome else { return };
    outcome.verification = None;
    outcome.summary = plain(&outcome.summary);
    outcome.agent_summary = outcome.agent_summary.as_deref().map(plain);
    for text in outcome.files_modified.iter_mut().chain(outcome.beside.iter_mut()) {
        *text = plain(text);
    }
    for task in &mut outcome.earlier_tasks {
        task.task = plain(&task.task);
    }
    if let Some(error) = &mut outcome.error {
        error.message = plain(&error.message);
    }
}

/// A value that is not changed halfway: what panicked held no more than a read lock on it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| Value::Null.to_string())
}

#[cfg(test)]
mod tests {
    use rawko_core::session::Outcome;
    use rawko_core::{ErrorCode, ErrorInfo};

    use super::*;

    #[test]
    fn nothing_in_the_list_acts_on_the_text_around_it() {
        let hostile = "red\u{1b}[31m \u{202e}back";
        let mut outcome = Outcome::failed(ErrorInfo::new(ErrorCode::Unknown, hostile));
        outcome.files_modified.push(hostile.to_owned());
        let mut session = SessionInfo {
            id: "s".to_owned(),
            created_at: Timestamp(1),
            task: hostile.to_owned(),
            status: SessionStatus::Ended,
            iterations: None,
            approval_until: None,
            paused: false,
            forked_from: None,
            cost_usd: None,
            outcome: Some(outcome),
            problem: None,
        };
        make_plain(&mut session);
        let shown = json(&session);
        assert!(!shown.contains("u001b") && !shown.contains('\u{202e}'), "{shown}");
        assert_eq!(shown.matches("red").count(), 4, "{shown}");
    }
}
