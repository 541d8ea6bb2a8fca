//! The server of the page: for the user of this machine alone, and for reading alone.
//!
//! It listens on the loopback. The page itself holds no data and is open to all; what it shows needs the token of this
//! process ([`guard`]). No request changes anything.

mod guard;
mod live;
mod routes;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::{TokioIo, TokioTimer};
use rawko_core::text::hex;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

use crate::diff::Mask;
use guard::RequestGuard;
use live::Sessions;

/// Connections at a time. A browser opens six.
const CONNECTIONS: usize = 64;
/// How long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// What is shown.
pub struct InspectorOptions {
    /// The project whose sessions are shown.
    pub project: PathBuf,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Takes the secrets out of the lines of diffs.
    pub mask: Arc<Mask>,
}

/// The server, once it has a port.
pub struct Inspector {
    listener: TcpListener,
    port: u16,
    token: String,
    shared: Arc<InspectorState>,
}

/// What all requests share.
struct InspectorState {
    guard: RequestGuard,
    sessions: Sessions,
    project: PathBuf,
    mask: Arc<Mask>,
}

impl Inspector {
    /// Listens on 127.0.0.1, with a new token.
    ///
    /// # Errors
    /// If the port is taken, or the system gives no random bytes.
    pub async fn bind(options: InspectorOptions) -> io::Result<Self> {
        let InspectorOptions { project, port, mask } = options;
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        let token = hex(&bytes);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        let guard = RequestGuard::new(port, token.clone());
        let sessions = Sessions::of_project(&project);
        Ok(Self {
            listener,
            port,
            token,
            shared: Arc::new(InspectorState { guard, sessions, project, mask }),
        })
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What a request for data has to bring: `Authorization: Bearer TOKEN`.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The page's address, with the token in its fragment, which no browser sends. With a session, the page opens that.
    #[must_use]
    pub fn url(&self, session: Option<&str>) -> String {
        let session = session.map(|id| {
            let id = percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC);
            format!("&session={id}")
        });
        format!("http://127.0.0.1:{}/#token={}{}", self.port, self.token, session.unwrap_or_default())
    }

    /// Answers requests until the future is dropped.
    ///
    /// # Errors
    /// If no connection can be accepted any more.
    pub async fn serve(self) -> io::Result<()> {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut silent = SilentConnections::default();
        loop {
            // One that has asked for nothing yet gives its place to the next.
            if places.available_permits() == 0 {
                silent.end_oldest();
            }
            let Ok(place) = places.clone().acquire_owned().await else { return Ok(()) };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                // The client went away before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            let shared = self.shared.clone();
            let connection = silent.add();
            tokio::spawn(async move {
                let answer = service_fn(|request| answer(shared.clone(), &connection, request));
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(64 * 1024);
                tokio::select! {
                    // A connection that breaks is the client's affair.
                    _ = server.serve_connection(TokioIo::new(stream), answer) => {}
                    () = connection.end.notified() => {}
                }
                connection.is_known.store(true, Ordering::Relaxed);
                drop(place);
            });
        }
    }
}

/// An open connection of a client.
#[derive(Default)]
struct ClientConnection {
    /// Whether it has asked for something that it may have, or is over.
    is_known: AtomicBool,
    end: Notify,
}

/// The connections that have asked for nothing yet, the oldest first.
#[derive(Default)]
struct SilentConnections(VecDeque<Arc<ClientConnection>>);

impl SilentConnections {
    fn add(&mut self) -> Arc<ClientConnection> {
        self.0.retain(|connection| !connection.is_known.load(Ordering::Relaxed));
        let connection = Arc::new(ClientConnection::default());
        self.0.push_back(connection.clone());
        connection
    }

    fn end_oldest(&mut self) {
        self.0.retain(|connection| !connection.is_known.load(Ordering::Relaxed));
        if let Some(oldest) = self.0.pop_front() {
            oldest.end.notify_one();
        }
    }
}

async fn answer(
    shared: Arc<InspectorState>,
    connection: &ClientConnection,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, Infallible> {
    let checked = shared.guard.check(&request);
    if checked.is_ok() && guard::is_for_data(&request) {
        connection.is_known.store(true, Ordering::Relaxed);
    }
    let mut response = match checked {
        Ok(()) => routes::answer(&shared, &request).await,
        Err(refused) => routes::refusal(refused),
    };
    guard::protect(response.headers_mut());
    Ok(response)
}
