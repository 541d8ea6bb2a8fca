//! The requests of one client, from its first line to its last. What takes time is done beside the connection, so that a
//! cancellation gets through.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AuthenticateRequest, CancelNotification, ClientCapabilities, CloseSessionRequest,
    CloseSessionResponse, CurrentModeUpdate, Implementation, InitializeRequest, InitializeResponse,
    ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, McpCapabilities,
    McpServer, NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptRequest, PromptResponse,
    ResumeSessionRequest, ResumeSessionResponse, SessionCapabilities, SessionCloseCapabilities, SessionId,
    SessionListCapabilities, SessionModeState, SessionResumeCapabilities, SessionUpdate,
    SetSessionModeRequest, SetSessionModeResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, Error, JsonRpcResponse, Lines, on_receive_notification, on_receive_request,
};
use rawko::journal::SessionStore;
use tokio::io::{AsyncRead, AsyncWrite};

use super::fault::AcpFault;
use super::history;
use super::host::AgentHost;
use super::lines;
use super::listing;
use super::mode::Modes;
use super::outbox::{Budget, Outbox};
use super::servers::HandedServers;
use super::session::{OpenSession, OpenSessions, PromptTurn, WhyStopped};
use super::turn::{blocking, carry_out};

/// How long runs may take to end when the client is gone: their commands get a moment to end by themselves.
const LAST_TURNS: Duration = Duration::from_secs(20);
/// How long a client that has stopped sending may take to read what is left.
const LAST_LINES: Duration = Duration::from_secs(2);

/// What serves one client.
pub(super) struct AcpServer {
    pub(super) host: AgentHost,
    pub(super) sessions: OpenSessions,
    client: OnceLock<ClientCapabilities>,
    budget: Arc<Budget>,
    /// The turns that have not ended with everything that follows them.
    turns: Mutex<Vec<Arc<PromptTurn>>>,
}

/// Serves a client that writes to `input` and reads `output`, until it is gone or `stop` says so. Then runs end in order.
///
/// # Errors
/// Why the connection broke off.
pub async fn serve(
    host: AgentHost,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: impl Future<Output = ()>,
) -> Result<(), AcpFault> {
    let server = Arc::new(AcpServer {
        host,
        sessions: OpenSessions::default(),
        client: OnceLock::new(),
        budget: Arc::default(),
        turns: Mutex::default(),
    });
    let (hang_up, mut hung_up) = tokio::sync::watch::channel(false);
    let input = lines::incoming(lines::Watched::new(input, hang_up));
    let transport = Lines::new(lines::outgoing(output, Arc::clone(&server.budget)), input);
    let connection = connect(&server, transport);
    let hangs_up = async {
        let _ = hung_up.wait_for(|gone| *gone).await;
        server.stop_all();
        tokio::time::sleep(LAST_LINES).await;
    };
    let ended = tokio::select! {
        ended = connection => ended,
        () = hangs_up => Ok(()),
        () = stop => Ok(()),
    };
    server.budget.close();
    server.end().await;
    ended.map_err(|error| {
        AcpFault::of_rawko(format!("the connection to the client broke off: {}", error.message))
    })
}

/// Answers requests until the client is gone.
async fn connect<O, I>(server: &Arc<AcpServer>, transport: Lines<O, I>) -> Result<(), Error>
where
    O: futures_util::Sink<String, Error = std::io::Error> + Send + 'static,
    I: futures_util::Stream<Item = std::io::Result<String>> + Send + 'static,
{
    let here = || Arc::clone(server);
    let (new, load, resume, list) = (here(), here(), here(), here());
    let (close, mode, prompt, cancel, first) = (here(), here(), here(), here(), here());
    Agent
        .v1()
        .name("rawko")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                responder.respond(first.initialize(request))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: AuthenticateRequest, responder, _| {
                responder.respond_with_error(not_offered().into())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, _| {
                answer(responder, Arc::clone(&new).new_session(request));
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder, connection| {
                answer(responder, Arc::clone(&load).load(request, connection));
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ResumeSessionRequest, responder, _| {
                answer(responder, Arc::clone(&resume).resume(request));
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ListSessionsRequest, responder, _| {
                answer(responder, Arc::clone(&list).list(request));
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CloseSessionRequest, responder, _| {
                answer(responder, Arc::clone(&close).close(request.session_id));
                Ok(())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: SetSessionModeRequest, responder, connection| {
                mode.set_mode(request, responder, connection)
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, connection| {
                Arc::clone(&prompt).prompt(request, responder, connection)
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: CancelNotification, _| {
                cancel.sessions.cancel(&notification.session_id);
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(transport)
        .await
}

/// Answers once the work is done, and lets the connection go on meanwhile.
fn answer<T: JsonRpcResponse + Send + 'static>(
    responder: Responder<T>,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) {
    // A client that is gone gets no answer.
    tokio::spawn(async move { drop(responder.respond_with_result(work.await)) });
}

fn not_offered() -> AcpFault {
    AcpFault::of_request("rawko has no login of its own").with_hint(Some(
        "give it the key of a provider: set its variable, such as ANTHROPIC_API_KEY, in the environment of `rawko acp`",
    ))
}

impl AcpServer {
    fn initialize(&self, request: InitializeRequest) -> InitializeResponse {
        let _ = self.client.set(request.client_capabilities);
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .resume(SessionResumeCapabilities::new())
            .close(SessionCloseCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
            .mcp_capabilities(McpCapabilities::new().http(true))
            .session_capabilities(sessions);
        let agent = Implementation::new("rawko", self.host.version.clone()).title("rawko");
        InitializeResponse::new(ProtocolVersion::V1).agent_capabilities(capabilities).agent_info(agent)
    }

    /// Whether the client shows the output of commands as a terminal, without running them.
    pub(super) fn has_terminals(&self) -> bool {
        let meta = self.client.get().and_then(|client| client.meta.as_ref());
        meta.and_then(|meta| meta.get("terminal_output")).and_then(serde_json::Value::as_bool) == Some(true)
    }

    async fn new_session(self: Arc<Self>, request: NewSessionRequest) -> Result<NewSessionResponse, Error> {
        let folder = folder(request.cwd, &request.additional_directories)?;
        let id = rawko::new_session_id();
        let modes = self.open(&id, folder, request.mcp_servers).await?;
        Ok(NewSessionResponse::new(id).modes(modes))
    }

    async fn load(
        self: Arc<Self>,
        request: LoadSessionRequest,
        connection: ConnectionTo<Client>,
    ) -> Result<LoadSessionResponse, Error> {
        let folder = folder(request.cwd, &request.additional_directories)?;
        let (there, id, place) = (Arc::clone(&self), request.session_id.clone(), folder.clone());
        let has_terminals = self.has_terminals();
        let updates = blocking(move || {
            let journal = listing::journal_of(&there.store(&place)?, &id)?;
            let explain = |error: rawko::journal::JournalError| (there.host.explain)(error.into(), &place);
            Ok::<_, Error>(history::updates(&journal, has_terminals).map_err(explain)?)
        });
        let updates = updates.await??;
        let modes = self.open(&request.session_id.0, folder, request.mcp_servers).await?;
        let outbox = self.outbox(connection, &request.session_id);
        for update in updates {
            if outbox.send(update).await.is_err() {
                break;
            }
        }
        Ok(LoadSessionResponse::new().modes(modes))
    }

    async fn resume(self: Arc<Self>, request: ResumeSessionRequest) -> Result<ResumeSessionResponse, Error> {
        let folder = folder(request.cwd, &request.additional_directories)?;
        let (there, id, place) = (Arc::clone(&self), request.session_id.clone(), folder.clone());
        blocking(move || listing::journal_of(&there.store(&place)?, &id)).await??;
        let modes = self.open(&request.session_id.0, folder, request.mcp_servers).await?;
        Ok(ResumeSessionResponse::new().modes(modes))
    }

    async fn list(self: Arc<Self>, request: ListSessionsRequest) -> Result<ListSessionsResponse, Error> {
        let folder = match request.cwd {
            Some(cwd) => folder(cwd, &[])?,
            None => self.host.folder.clone(),
        };
        blocking(move || {
            let store = self.store(&folder)?;
            listing::page(&store, &folder, request.cursor.as_deref())
        })
        .await?
    }

    async fn close(self: Arc<Self>, id: SessionId) -> Result<CloseSessionResponse, Error> {
        if let Some(turn) = self.sessions.close(&id)? {
            turn.ended().await;
        }
        Ok(CloseSessionResponse::new())
    }

    fn set_mode(
        &self,
        request: SetSessionModeRequest,
        responder: Responder<SetSessionModeResponse>,
        connection: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        if let Err(error) = self.sessions.choose(&request.session_id, &request.mode_id) {
            return responder.respond_with_error(error);
        }
        let outbox = self.outbox(connection, &request.session_id);
        answer(responder, async move {
            let update = SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(request.mode_id));
            // A client that is gone needs no update.
            let _ = outbox.send(update).await;
            Ok(SetSessionModeResponse::new())
        });
        Ok(())
    }

    fn prompt(
        self: Arc<Self>,
        request: PromptRequest,
        responder: Responder<PromptResponse>,
        connection: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let (known, turn) = match self.sessions.begin_turn(&request.session_id) {
            Ok(begun) => begun,
            Err(error) => return responder.respond_with_error(error),
        };
        self.turns().push(Arc::clone(&turn));
        tokio::spawn(async move {
            let ending = TurnEnding { server: self, session: request.session_id.clone(), turn };
            let (server, turn) = (&ending.server, &ending.turn);
            let (cancellation, outbox) =
                (responder.cancellation(), server.outbox(connection, &request.session_id));
            let cancelled = async {
                cancellation.cancelled().await;
                turn.stop(WhyStopped::Cancelled);
                std::future::pending::<()>().await;
            };
            let result = tokio::select! {
                result = carry_out(server, known, turn, request, outbox) => result,
                () = cancelled => return,
            };
            // Before the answer, after which the next prompt may come at once.
            server.sessions.end_turn(&ending.session, turn);
            let (result, afterwards) = match result {
                Ok((response, afterwards)) => (Ok(response), Some(afterwards)),
                Err(error) => (Err(error), None),
            };
            let _ = responder.respond_with_result(result);
            if let Some(afterwards) = afterwards {
                let _ = blocking(afterwards).await;
            }
        });
        Ok(())
    }

    /// Opens a session in a folder whose configuration can be used.
    async fn open(
        self: &Arc<Self>,
        id: &str,
        folder: PathBuf,
        servers: Vec<McpServer>,
    ) -> Result<SessionModeState, Error> {
        let (there, place) = (Arc::clone(self), folder.clone());
        let modes = blocking(move || {
            let explain = |error| (there.host.explain)(error, &place);
            let rawko = (there.host.builder)(&place)?.build().map_err(explain)?;
            Ok::<_, AcpFault>(Modes::of(rawko.config()))
        });
        let (modes, handed) = (modes.await??, HandedServers::of(servers));
        self.sessions.open(id, OpenSession { folder, modes, handed, is_asked: false, turn: None })
    }

    fn store(&self, folder: &Path) -> Result<SessionStore, AcpFault> {
        Ok(SessionStore::of_project(&(self.host.project)(folder)?))
    }

    fn outbox(&self, connection: ConnectionTo<Client>, session: &SessionId) -> Outbox {
        Outbox { connection, budget: Arc::clone(&self.budget), session: session.clone() }
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, Vec<Arc<PromptTurn>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop_all(&self) {
        self.turns().iter().for_each(|turn| turn.stop(WhyStopped::Left));
    }

    /// Stops everything, and waits until it has ended in order.
    async fn end(&self) {
        self.stop_all();
        let turns = self.turns().clone();
        let all = async {
            for turn in turns {
                turn.ended().await;
            }
        };
        // What is left then is dropped, which closes its journal too.
        let _ = tokio::time::timeout(LAST_TURNS, all).await;
    }
}

/// Ends a turn, also where its task breaks off.
struct TurnEnding {
    server: Arc<AcpServer>,
    session: SessionId,
    turn: Arc<PromptTurn>,
}

impl Drop for TurnEnding {
    fn drop(&mut self) {
        self.server.sessions.end_turn(&self.session, &self.turn);
        self.server.turns().retain(|turn| !Arc::ptr_eq(turn, &self.turn));
        self.turn.end();
    }
}

/// The folder that a client names.
fn folder(cwd: PathBuf, more: &[PathBuf]) -> Result<PathBuf, AcpFault> {
    let shown = rawko_core::text::truncate(&cwd.to_string_lossy(), 200);
    if !cwd.is_absolute() {
        return Err(AcpFault::of_request(format!("cwd is `{shown}`, and has to be an absolute path")));
    }
    if !cwd.is_dir() {
        return Err(AcpFault::of_request(format!("cwd is `{shown}`, and there is no such folder")));
    }
    if !more.is_empty() {
        return Err(AcpFault::of_request("rawko works in one folder, and takes no additional directories")
            .with_hint(Some("grant them in the configuration: permissions.read and permissions.write")));
    }
    Ok(cwd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(cwd: &str, more: &[PathBuf], part: &str) {
        let fault = folder(PathBuf::from(cwd), more).unwrap_err();
        assert!(fault.message().contains(part), "{}", fault.message());
    }

    #[test]
    fn a_folder_is_absolute_and_there() {
        let there = tempfile::tempdir().unwrap();
        assert_eq!(folder(there.path().to_owned(), &[]).unwrap(), there.path());
        check_refused("src", &[], "an absolute path");
        check_refused("", &[], "an absolute path");
        check_refused("/nowhere/at/all", &[], "no such folder");
        check_refused("/etc/passwd", &[], "no such folder");
        check_refused(there.path().to_str().unwrap(), &[PathBuf::from("/etc")], "one folder");
    }
}
