//! The sessions that a client has open, and their turns.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::v1::schema::{SessionId, SessionModeId, SessionModeState};
use agent_client_protocol::{Error, ErrorCode};
use rawko::RunControl;
use tokio::sync::watch;

use super::fault::{AcpFault, no_session};
use super::mode::Modes;
use super::servers::HandedServers;

/// The most sessions that are open at once.
const MOST_OPEN: usize = 500;

/// Why a turn is stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhyStopped {
    /// The client cancelled the prompt. Its task is over.
    Cancelled,
    /// The client closed the session or is gone, or the whole process ends. The task is taken up with the next prompt.
    Left,
}

/// One prompt that is being carried out.
#[derive(Debug, Default)]
pub(super) struct PromptTurn {
    state: Mutex<TurnState>,
    ended: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct TurnState {
    control: Option<RunControl>,
    stopped: Option<WhyStopped>,
}

impl PromptTurn {
    fn state(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its run begins.
    pub(super) fn begin(&self, control: RunControl) {
        let mut state = self.state();
        if let Some(why) = state.stopped {
            stop_run(&control, why);
        }
        state.control = Some(control);
    }

    /// Stops it. Its run ends in order.
    pub(super) fn stop(&self, why: WhyStopped) {
        let mut state = self.state();
        if state.stopped.is_none() {
            state.stopped = Some(why);
            if let Some(control) = &state.control {
                stop_run(control, why);
            }
        }
    }

    /// Whether it was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.state().stopped.is_some()
    }

    /// Makes the agent of a mode work now.
    fn force(&self, agent: &str) {
        if let Some(control) = &self.state().control {
            drop(control.force(agent));
        }
    }

    /// It has ended, with everything that follows it.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Waits until it has.
    pub(super) async fn ended(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// Stops a run in order: its calls are ended, and the journal is closed. The next prompt goes on in the same conversations.
fn stop_run(control: &RunControl, why: WhyStopped) {
    match why {
        WhyStopped::Cancelled => control.cancel("cancelled by the ACP client"),
        WhyStopped::Left => control.suspend(),
    }
}

/// What is known of an open session.
#[derive(Debug, Clone)]
pub(super) struct OpenSession {
    pub(super) folder: PathBuf,
    pub(super) modes: Modes,
    pub(super) handed: HandedServers,
    /// Whether the person was asked about its servers.
    pub(super) is_asked: bool,
    pub(super) turn: Option<Arc<PromptTurn>>,
}

/// The sessions of one client.
#[derive(Debug, Default)]
pub(super) struct OpenSessions(Mutex<BTreeMap<String, OpenSession>>);

impl OpenSessions {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, OpenSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens one, or opens it again with other servers. Its mode stays.
    pub(super) fn open(&self, id: &str, session: OpenSession) -> Result<SessionModeState, Error> {
        let mut all = self.all();
        let mut session = session;
        match all.get(id) {
            Some(known) if known.turn.is_some() => return Err(busy(id)),
            Some(known) => session.modes = session.modes.keeping(&known.modes),
            None if all.len() >= MOST_OPEN => {
                let fault = AcpFault::of_request(format!("{MOST_OPEN} sessions are open"));
                return Err(fault.with_hint(Some("close some with session/close")).into());
            }
            None => {}
        }
        let shown = session.modes.shown();
        all.insert(id.to_owned(), session);
        Ok(shown)
    }

    /// Begins a turn, with what is known of its session.
    pub(super) fn begin_turn(&self, id: &SessionId) -> Result<(OpenSession, Arc<PromptTurn>), Error> {
        let mut all = self.all();
        let session = all.get_mut(&*id.0).ok_or_else(|| no_session(id))?;
        if session.turn.is_some() {
            return Err(busy(&id.0));
        }
        let turn = Arc::new(PromptTurn::default());
        session.turn = Some(Arc::clone(&turn));
        Ok((session.clone(), turn))
    }

    /// The person was asked about the session's servers of tools.
    pub(super) fn asked(&self, id: &SessionId) {
        if let Some(session) = self.all().get_mut(&*id.0) {
            session.is_asked = true;
        }
    }

    /// Another turn may begin.
    pub(super) fn end_turn(&self, id: &SessionId, ended: &Arc<PromptTurn>) {
        if let Some(session) = self.all().get_mut(&*id.0)
            && session.turn.as_ref().is_some_and(|turn| Arc::ptr_eq(turn, ended))
        {
            session.turn = None;
        }
    }

    /// Stops the turn of a session, if it has one.
    pub(super) fn cancel(&self, id: &SessionId) {
        let turn = self.all().get(&*id.0).and_then(|session| session.turn.clone());
        if let Some(turn) = turn {
            turn.stop(WhyStopped::Cancelled);
        }
    }

    /// Forgets a session. Gives its turn, which is stopped.
    pub(super) fn close(&self, id: &SessionId) -> Result<Option<Arc<PromptTurn>>, Error> {
        let session = self.all().remove(&*id.0).ok_or_else(|| no_session(id))?;
        session.turn.iter().for_each(|turn| turn.stop(WhyStopped::Left));
        Ok(session.turn)
    }

    /// Chooses who works. During a turn that agent works at once.
    pub(super) fn choose(&self, id: &SessionId, mode: &SessionModeId) -> Result<(), Error> {
        let mut all = self.all();
        let session = all.get_mut(&*id.0).ok_or_else(|| no_session(id))?;
        if !session.modes.choose(mode) {
            let mode = rawko_core::text::truncate(&mode.0, 60);
            let fault = AcpFault::of_request(format!("there is no mode `{mode}`"));
            return Err(fault.with_hint(Some(&format!("the modes: {}", session.modes.names()))).into());
        }
        if let (Some(turn), Some(agent)) = (&session.turn, session.modes.agent()) {
            turn.force(agent);
        }
        Ok(())
    }
}

fn busy(id: &str) -> Error {
    let message =
        format!("session {id} works on a prompt: wait for its end, or cancel it with session/cancel");
    Error::new(ErrorCode::INVALID_REQUEST, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rawko::Rawko;

    fn session() -> OpenSession {
        let folder = tempfile::tempdir().unwrap();
        let rawko = Rawko::builder().project(folder.path()).env(|_| None).build().unwrap();
        OpenSession {
            folder: folder.path().to_owned(),
            modes: Modes::of(rawko.config()),
            handed: HandedServers::default(),
            is_asked: false,
            turn: None,
        }
    }

    #[test]
    fn a_session_has_one_turn_at_a_time() {
        let sessions = OpenSessions::default();
        let id = SessionId::from("a");
        let unknown = sessions.begin_turn(&id).unwrap_err();
        assert!(unknown.message.contains("no open session `a`"), "{unknown:?}");
        sessions.open("a", session()).unwrap();
        let (known, turn) = sessions.begin_turn(&id).unwrap();
        assert!(!known.is_asked);
        assert!(sessions.begin_turn(&id).unwrap_err().message.contains("works on a prompt"));
        assert!(sessions.open("a", session()).is_err());
        sessions.cancel(&id);
        assert!(turn.is_stopped());
        sessions.end_turn(&id, &turn);
        let (known, next) = sessions.begin_turn(&id).unwrap();
        assert!(!known.is_asked && !next.is_stopped(), "the first turn has not come to the question");
        sessions.asked(&id);
        // The end of an old turn is not that of the next.
        sessions.end_turn(&id, &turn);
        assert!(sessions.begin_turn(&id).is_err());
        sessions.end_turn(&id, &next);
        let (known, last) = sessions.begin_turn(&id).unwrap();
        assert!(known.is_asked);
        assert!(sessions.close(&id).unwrap().is_some() && last.is_stopped());
        assert!(sessions.close(&id).is_err());
    }

    #[test]
    fn a_mode_is_an_agent_of_the_team() {
        let sessions = OpenSessions::default();
        let shown = sessions.open("a", session()).unwrap();
        assert_eq!(&*shown.current_mode_id.0, "team");
        sessions.choose(&SessionId::from("a"), &"developer".into()).unwrap();
        let error = sessions.choose(&SessionId::from("a"), &"nobody".into()).unwrap_err();
        assert!(error.message.contains("the modes: team, "), "{error:?}");
        // Opened again, it keeps its mode.
        let shown = sessions.open("a", session()).unwrap();
        assert_eq!(&*shown.current_mode_id.0, "developer");
    }
}
