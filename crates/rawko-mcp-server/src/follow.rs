//! Sessions as a client sees them: by their journals, whichever process runs them. A session that is polled is read on from
//! where the last look ended, so that a look costs no more than what is new.

mod line;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rawko::journal::{SessionInfo, SessionStatus};
use rawko::{ApprovalQuestion, FollowedSession, RunEvent, SessionNews};
use rawko_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bounded;
use crate::project::ToolProblem;
use crate::server::RawkoServer;
use crate::tools::DoneAnswer;

/// How many sessions are kept open.
const KEPT: usize = 8;
/// Events of one answer, and the bytes of them.
pub(crate) const MOST_LINES: usize = 200;
pub(crate) const MOST_BYTES: usize = 24 * 1024;
/// Bytes of one text of an event or of the end, and of each of them.
const TEXT_BYTES: usize = 4 * 1024;
const EVENT_BYTES: usize = 8 * 1024;
/// Bytes of a call that a question shows whole. With the events and the end it fits into an answer.
const CALL_BYTES: usize = 10 * 1024;

/// How much of the events is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Detail {
    /// The events that matter, as lines.
    #[default]
    Brief,
    /// All of them, as objects.
    Full,
}

/// A call that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenQuestion {
    /// Names the question.
    pub(crate) call: String,
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) input: Value,
    pub(crate) needs: String,
    pub(crate) why: String,
    pub(crate) until: Timestamp,
    /// Whether the client sees all of the call. What it does not see it cannot allow.
    pub(crate) whole: bool,
}

impl OpenQuestion {
    /// The question as a client sees it.
    pub(crate) fn of(question: &ApprovalQuestion) -> Self {
        let (input, needs) = (&question.call.input, question.needs_in_words());
        let shown = (bounded::fitted(input, CALL_BYTES), bounded::text(&needs, TEXT_BYTES));
        Self {
            whole: shown.0 == *input && shown.1 == needs,
            call: question.digest.clone(),
            agent: question.agent.clone(),
            tool: question.call.name.clone(),
            input: shown.0,
            needs: shown.1,
            why: bounded::text(&question.why, TEXT_BYTES),
            until: question.until,
        }
    }

    /// The question, for people.
    pub(crate) fn text(&self) -> String {
        let Self { agent, tool, input, needs, why, .. } = self;
        format!("{agent} asks to make this call: {tool} {input}\nIt needs {needs}. {why}")
    }

    /// Why the client cannot allow it.
    pub(crate) fn unseen(session: &str) -> ToolProblem {
        ToolProblem::new(
            "the call cannot be shown whole here, so it cannot be allowed here: it is too long, or has hidden characters",
            format!("the user can read all of it and answer, in a terminal: rawko approve {session}"),
        )
    }
}

/// What a look at a session found.
pub(crate) struct Look {
    pub(crate) session: String,
    pub(crate) is_running: bool,
    state: String,
    /// How many events of the session were given so far.
    pub(crate) cursor: u64,
    /// The events as lines.
    pub(crate) lines: Vec<String>,
    /// The events as objects, where all are told.
    events: Option<Vec<Value>>,
    /// Whether there is more already.
    pub(crate) is_cut: bool,
    pub(crate) question: Option<OpenQuestion>,
    pub(crate) end: Option<Value>,
}

impl Look {
    /// Whether there is something to tell.
    pub(crate) fn is_news(&self) -> bool {
        let has_events = self.events.as_ref().map_or(!self.lines.is_empty(), |events| !events.is_empty());
        has_events || self.is_cut || self.end.is_some() || !self.is_running
    }

    /// In words, and for a program.
    pub(crate) fn answer(&self) -> DoneAnswer {
        let status = match (&self.end, self.is_running) {
            (Some(_), _) => "ended",
            (None, true) => "running",
            (None, false) => "interrupted",
        };
        let mut text = self.lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        text.push_str(&format!(
            "session {}: {status}, in {}; cursor {}\n",
            self.session, self.state, self.cursor
        ));
        if let Some(question) = &self.question {
            text.push_str(&format!(
                "it waits for an answer (`answer` with call {}): {}\n",
                question.call,
                question.text()
            ));
            if !question.whole {
                text.push_str(&format!("{}\n", OpenQuestion::unseen(&self.session).text()));
            }
        }
        if let Some(end) = &self.end {
            text.push_str(&line::end(end));
        } else if !self.is_running {
            text.push_str(
                "no process runs it, and it has not ended; `continue` without a task goes on with it\n",
            );
        }
        let mut value = json!({
            "session": self.session,
            "status": status,
            "state": self.state,
            "cursor": self.cursor,
            "more": self.is_cut,
        });
        if let Some(fields) = value.as_object_mut() {
            let events = self.events.clone().map_or_else(|| json!(self.lines), Value::Array);
            fields.insert("events".to_owned(), events);
            if let Some(question) = &self.question {
                fields.insert("question".to_owned(), json!(question));
            }
            if let Some(end) = &self.end {
                fields.insert("end".to_owned(), end.clone());
            }
        }
        DoneAnswer::new(text, value)
    }
}

/// A session that is being looked at.
struct WatchedSession {
    followed: FollowedSession,
    /// How many of its events were given.
    given: u64,
    pending: VecDeque<RunEvent>,
    end: Option<RunEvent>,
}

impl WatchedSession {
    fn open(path: &Path) -> Result<Self, rawko::Error> {
        let followed = FollowedSession::open(path)?;
        Ok(Self { followed, given: 0, pending: VecDeque::new(), end: None })
    }

    /// Reads what is new. Says whether a process runs the session.
    fn read(&mut self) -> Result<bool, rawko::Error> {
        let is_written = self.followed.is_written();
        for news in self.followed.news()? {
            if let SessionNews::Event(event, _) = news {
                self.pending.push_back(*event);
            }
        }
        if !self.followed.run().session().state().is_final() {
            self.end = None;
        }
        if let Some((event, _)) = self.followed.end(is_written) {
            self.end = Some(event);
        }
        Ok(is_written)
    }

    /// Leaves out what was given before, or what was before the present task.
    fn skip(&mut self, after: Option<u64>) -> Result<(), ToolProblem> {
        let begins = |event: &RunEvent| matches!(event, RunEvent::SessionStarted { .. });
        let known = self.given + self.pending.len() as u64;
        let after = match after {
            Some(after) => after,
            None => self.given + self.pending.iter().rposition(begins).unwrap_or(0) as u64,
        };
        if after > known {
            let message = format!("`after` is {after}, and the session has {known} events");
            return Err(ToolProblem::new(
                message,
                "give the `cursor` of the last answer, or leave `after` out",
            ));
        }
        while self.given < after && self.pending.pop_front().is_some() {
            self.given += 1;
        }
        Ok(())
    }

    fn look(&mut self, is_running: bool, detail: Detail) -> Look {
        let (mut lines, mut events, mut bytes) = (Vec::new(), Vec::new(), 0);
        while lines.len().max(events.len()) < MOST_LINES && bytes < MOST_BYTES {
            let Some(event) = self.pending.pop_front() else { break };
            self.given += 1;
            if let Some(line) = line::of(&event) {
                bytes += json!(line).to_string().len();
                lines.push(line);
            }
            if detail == Detail::Full {
                let event = bounded::texts(serde_json::to_value(&event).unwrap_or_default(), TEXT_BYTES);
                let event = bounded::fitted(&event, EVENT_BYTES);
                bytes += event.to_string().len();
                events.push(event);
            }
        }
        let session = self.followed.run().session();
        let is_cut = !self.pending.is_empty();
        let end = self.end.as_ref().filter(|_| !is_cut);
        Look {
            session: self.followed.id().to_owned(),
            is_running,
            state: session.state().to_string(),
            cursor: self.given,
            lines,
            events: (detail == Detail::Full).then_some(events),
            is_cut,
            question: session.open_question().map(|(_, question)| OpenQuestion::of(question)),
            end: end.map(|end| {
                let end = bounded::texts(serde_json::to_value(end).unwrap_or_default(), TEXT_BYTES);
                bounded::fitted(&end, EVENT_BYTES)
            }),
        }
    }
}

/// The sessions that were looked at last.
#[derive(Default)]
pub(crate) struct SessionWatchers {
    /// The one that was used last is the last.
    kept: Mutex<VecDeque<WatchedSession>>,
}

impl SessionWatchers {
    /// What happened in the session after the first `after` events. Takes files.
    pub(crate) fn look(
        &self,
        server: &RawkoServer,
        session: &str,
        after: Option<u64>,
        detail: Detail,
    ) -> Result<Look, ToolProblem> {
        let words = |error: rawko::Error| server.project.words(error);
        let mut watched = match self.take(session, after) {
            Some(watched) => watched,
            None => WatchedSession::open(&journal_of(server, Some(session))?).map_err(words)?,
        };
        let is_running = watched.read().map_err(words)?;
        watched.skip(after)?;
        let look = watched.look(is_running, detail);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(watched);
        if kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(look)
    }

    /// The one that was looked at up to there.
    fn take(&self, session: &str, after: Option<u64>) -> Option<WatchedSession> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|one| one.followed.id() == session && Some(one.given) == after)?;
        kept.remove(at)
    }
}

/// The journal of the session that is meant; without a name, the latest.
pub(crate) fn journal_of(server: &RawkoServer, session: Option<&str>) -> Result<PathBuf, ToolProblem> {
    let found = server.project.sessions().find(session.unwrap_or("last"));
    found.map_err(|error| server.project.words(error))
}

/// The whole id of the session that is meant; without a name, the newest that runs, or else the newest.
pub(crate) fn watched_id(server: &RawkoServer, session: Option<&str>) -> Result<String, ToolProblem> {
    if session.is_some() {
        return Ok(id_of(&journal_of(server, session)?));
    }
    let sessions = listed(server)?;
    let running = sessions.iter().rev().find(|session| session.status == SessionStatus::Running);
    match running.or(sessions.last()) {
        Some(session) => Ok(session.id.clone()),
        None => Err(ToolProblem::new("there are no sessions in this project", "begin one with `start`")),
    }
}

/// The whole id of the session that is meant; without a name, the only one that runs.
pub(crate) fn running_id(server: &RawkoServer, session: Option<&str>) -> Result<String, ToolProblem> {
    if session.is_some() {
        return Ok(id_of(&journal_of(server, session)?));
    }
    let sessions = listed(server)?;
    let mut running = sessions.iter().filter(|session| session.status == SessionStatus::Running);
    match (running.next(), running.next()) {
        (Some(one), None) => Ok(one.id.clone()),
        (None, _) => Err(ToolProblem::new(
            "no session is running in this project",
            "`start` begins one, and `continue` goes on with one",
        )),
        (Some(one), Some(other)) => Err(ToolProblem::new(
            "several sessions are running in this project",
            format!("name one as `session`: {}, {} …", one.id, other.id),
        )),
    }
}

fn listed(server: &RawkoServer) -> Result<Vec<SessionInfo>, ToolProblem> {
    server.project.sessions().list().map_err(|error| server.project.words(error))
}

/// `ID/journal.jsonl`.
pub(crate) fn id_of(journal: &Path) -> String {
    let name = journal.parent().and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}
