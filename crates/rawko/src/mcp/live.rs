//! The running server: started when it is first needed, shared by all agents, ended with the run.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rawko_core::text::keep_ends;
use rawko_mcp::{Connection, McpError, Options, StoreCredentials};
use rawko_tools::{Confinement, ServerProcess};
use tokio::sync::Mutex as AsyncMutex;

use super::approval::Catalogue;
use super::server::{ConfiguredServer, ServerTransport};

/// How often a server is started in one run: one that always ends does not work.
const MOST_STARTS: u32 = 3;
/// How long the end of a program may take to be known after the end of its connection.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// Bytes of a server's standard error in a message.
const STDERR_SHOWN: usize = 2_000;

/// What runs of a server, if it does.
#[derive(Default)]
pub(super) struct RunningServer {
    /// Held while it is started, so that two calls do not start it twice.
    state: AsyncMutex<ConnectionState>,
    /// Beside the connection, because the end of a run does not wait.
    process: Mutex<Option<Arc<ServerProcess>>>,
    is_over: AtomicBool,
}

#[derive(Default)]
struct ConnectionState {
    connection: Option<Arc<Connection>>,
    starts: u32,
    /// Why it is not used any more.
    off: Option<String>,
}

/// Why a server cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It does not list what was approved, or nothing of it was.
    NotApproved(String),
    /// It does not work.
    Broken(String),
}

impl ConfiguredServer {
    /// The connection to the server, which lists what was approved. Starts it if it does not run.
    pub(super) async fn approved(
        &self,
        root: &Path,
        confinement: &Confinement,
    ) -> Result<Arc<Connection>, Unusable> {
        let mut state = self.live.state.lock().await;
        if let Some(why) = &state.off {
            return Err(Unusable::NotApproved(why.clone()));
        }
        if let Some(connection) = state.connection.clone().filter(|connection| !connection.is_closed()) {
            if connection.take_changed() {
                self.compare(&connection, &mut state).await?;
            }
            return Ok(connection);
        }
        state.connection = None;
        // Nothing of the one before is left, and none runs beside the new one.
        self.kill();
        if self.live.is_over.load(Ordering::Acquire) {
            return Err(Unusable::Broken("the run is ending".to_owned()));
        }
        if state.starts >= MOST_STARTS {
            let why =
                format!("it was started {MOST_STARTS} times in this run and did not stay; {}", self.ended());
            return Err(Unusable::Broken(why));
        }
        state.starts += 1;
        let connection = Arc::new(self.connect(root, confinement).await.map_err(Unusable::Broken)?);
        if let Err(unusable) = self.compare(&connection, &mut state).await {
            self.kill();
            return Err(unusable);
        }
        state.connection = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Ends a server that did not answer in time: it may hang, and what it says later is not read. The next call starts
    /// it again. Returns what is to be said of that.
    pub(super) async fn give_up(&self, connection: &Arc<Connection>) -> String {
        let mut state = self.live.state.lock().await;
        if state.connection.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            state.connection = None;
            self.kill();
        }
        let (ended, again) = match &self.target {
            Ok(ServerTransport::Http(_)) => ("the connection was ended", "makes a new one"),
            Ok(ServerTransport::Program(_)) | Err(_) => ("the server was ended", "starts it again"),
        };
        match MOST_STARTS.saturating_sub(state.starts) {
            0 => format!("{ended}, for the rest of this run"),
            left => format!("{ended}; the next call {again} ({left} of {MOST_STARTS} times left)"),
        }
    }

    /// Whether the server lists what was approved. Else it is off until the end of the run.
    async fn compare(&self, connection: &Connection, state: &mut ConnectionState) -> Result<(), Unusable> {
        let listed = match self.catalogue(connection).await {
            Ok(listed) => listed,
            Err(error) => return Err(Unusable::Broken(self.explained(&error).await)),
        };
        let approved = self.approval.as_ref().map(|approval| approval.catalogue.digest());
        if approved.as_deref() == Some(&listed.digest()) {
            return Ok(());
        }
        let why = format!(
            "the tools that the MCP server `{name}` lists are not those that were approved. It is off until a person has \
             looked at the change: rawko mcp check {name}",
            name = self.name
        );
        state.off = Some(why.clone());
        state.connection = None;
        self.kill();
        Err(Unusable::NotApproved(why))
    }

    /// What the server lists.
    pub(super) async fn catalogue(&self, connection: &Connection) -> Result<Catalogue, McpError> {
        let (resources, prompts) = connection.offers();
        let tools = connection.tools().await?;
        Ok(Catalogue { tools: tools.usable, unusable: tools.unusable, resources, prompts })
    }

    /// Starts the server, or connects to it.
    ///
    /// # Errors
    /// Why that does not work, with what the server wrote to its standard error.
    async fn connect(&self, root: &Path, confinement: &Confinement) -> Result<Connection, String> {
        self.connect_with(root, confinement, self.options.clone()).await
    }

    /// The same with other options.
    pub(super) async fn connect_with(
        &self,
        root: &Path,
        confinement: &Confinement,
        options: Options,
    ) -> Result<Connection, String> {
        match self.target.clone()? {
            ServerTransport::Http(server) => {
                let credentials = self.credentials.clone().map(|file| file as Arc<dyn StoreCredentials>);
                let connected = Connection::over_http(&server, credentials, options).await;
                match connected {
                    Ok(connection) => Ok(connection),
                    Err(error) => Err(self.explained(&error).await),
                }
            }
            ServerTransport::Program(program) => {
                let (root, confinement) = (root.to_owned(), confinement.clone());
                let started =
                    rawko_tools::on_thread(move || ServerProcess::start(&program, &root, &confinement));
                let (process, socket) = started.await.map_err(|error| error.to_string())??;
                *lock(&self.live.process) = Some(Arc::new(process));
                if self.live.is_over.load(Ordering::Acquire) {
                    // The run ended meanwhile.
                    self.kill();
                }
                let stream =
                    socket.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(socket));
                let (reader, writer) = stream.map_err(|error| error.to_string())?.into_split();
                let connected = Connection::over_stream(reader, writer, options).await;
                match connected {
                    Ok(connection) => Ok(connection),
                    Err(error) => {
                        let explained = self.explained(&error).await;
                        self.kill();
                        Err(explained)
                    }
                }
            }
        }
    }

    /// An error, with what is known of the program, and what to do about it.
    pub(super) async fn explained(&self, error: &McpError) -> String {
        if matches!(error, McpError::Closed { .. } | McpError::Protocol(_)) {
            self.wait_for_end().await;
        }
        let mut text = error.to_string();
        if let McpError::LoginNeeded { .. } = error {
            text.push_str(&format!("; log in: rawko mcp login {}", self.name));
        }
        if matches!(error, McpError::Closed { .. } | McpError::Timeout { .. } | McpError::Protocol(_)) {
            let ended = self.ended();
            if !ended.is_empty() {
                text.push_str(&format!("; {ended}"));
            }
        }
        text
    }

    /// Waits a moment for the end of a program whose connection has ended: its pipes close before it is collected.
    async fn wait_for_end(&self) {
        let Some(process) = lock(&self.live.process).clone() else { return };
        let deadline = Instant::now() + LAST_WAIT;
        while process.end().is_none() && Instant::now() < deadline {
            tokio::time::sleep(LAST_WAIT / 100).await;
        }
    }

    /// How the program ended, and what it wrote to its standard error; empty if there is nothing to say.
    fn ended(&self) -> String {
        let Some(process) = lock(&self.live.process).clone() else { return String::new() };
        let mut parts = Vec::new();
        if let Some(end) = process.end() {
            parts.push(format!("its program ended: {end}"));
        }
        let stderr = process.stderr();
        if !stderr.is_empty() {
            parts.push(format!("its standard error:\n{}", keep_ends(&stderr, STDERR_SHOWN)));
        }
        parts.join("; ")
    }

    fn kill(&self) {
        if let Some(process) = lock(&self.live.process).as_ref() {
            process.kill();
        }
    }

    /// The run is over: ends the server, without waiting.
    pub(super) fn end(&self) {
        self.live.is_over.store(true, Ordering::Release);
        self.kill();
    }

    /// Ends a server that could change the project. It may be started again.
    pub(super) fn interrupt(&self) {
        if self.permissions.write.as_ref().is_none_or(|write| !write.is_empty()) {
            self.kill();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
