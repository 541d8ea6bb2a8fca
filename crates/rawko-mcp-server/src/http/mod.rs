//! The server on the loopback, by streamable HTTP: for programs of this user that have the token.
//!
//! [`guard`] decides which requests are answered. Everything that a client without the token can make this process do is
//! bounded: connections, the time of a request's head and body, and its size.

mod guard;
mod token;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::handler::{Handler, factory};
use crate::server::RawkoServer;
use guard::{HttpGuard, UnansweredRequest};
pub use token::{McpToken, McpTokenError};

/// Connections at a time.
const CONNECTIONS: usize = 64;
/// How long a connection may say nothing, and how long the head of a request may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the body of a request may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a request.
const LONGEST_BODY: usize = 4 * 1024 * 1024;
const TOO_LONG: &str = "the request cannot be read, or is longer than 4 MiB";
/// How long to wait before the next try, where the system cannot accept a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

type HttpBody = BoxBody<Bytes, Infallible>;
type McpService = StreamableHttpService<Handler, LocalSessionManager>;

/// Where the server listens, and for whom.
#[derive(Debug)]
pub struct HttpServerOptions {
    /// An address of the loopback; the port 0 takes a free one.
    pub address: SocketAddr,
    /// What a request has to bring.
    pub token: McpToken,
}

/// The server, once it has a port.
pub struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    answers: Arc<HttpAnswers>,
}

struct HttpAnswers {
    guard: HttpGuard,
    service: McpService,
}

impl RawkoServer {
    /// Listens on the loopback.
    ///
    /// # Errors
    /// If the address is not of the loopback, or the port is taken.
    pub async fn listen(&self, options: HttpServerOptions) -> io::Result<HttpServer> {
        let HttpServerOptions { address, token } = options;
        if !address.ip().is_loopback() {
            let message = "the address is not of the loopback, and others could reach it";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let config = StreamableHttpServerConfig::default().with_max_request_body_bytes(LONGEST_BODY);
        let service = McpService::new(factory(self), Arc::default(), config);
        let guard = HttpGuard::new(address, token);
        Ok(HttpServer { listener, address, answers: Arc::new(HttpAnswers { guard, service }) })
    }
}

impl HttpServer {
    /// Where clients find it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{}", self.address, guard::PATH)
    }

    /// Answers requests until the future is dropped.
    pub async fn serve(self) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((stream, _)) = self.listener.accept().await else {
                // The client went away before it was accepted, or the process has no descriptor left: others may end.
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            let answers = Arc::clone(&self.answers);
            tokio::spawn(async move {
                let answer = service_fn(move |request| {
                    let answers = Arc::clone(&answers);
                    async move { Ok::<_, Infallible>(answers.answer(request).await) }
                });
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(64 * 1024);
                // A connection that breaks is the client's affair.
                let _ = server.serve_connection(TokioIo::new(stream), answer).await;
                drop(place);
            });
        }
    }
}

impl HttpAnswers {
    async fn answer(&self, request: Request<Incoming>) -> Response<HttpBody> {
        let mut response = match self.guard.check(&request) {
            Ok(()) => self.served(request).await,
            Err(UnansweredRequest { status, why }) => {
                let mut response = refusal(status, why);
                if status == StatusCode::UNAUTHORIZED {
                    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                }
                response
            }
        };
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    async fn served(&self, request: Request<Incoming>) -> Response<HttpBody> {
        let (head, body) = request.into_parts();
        if body.size_hint().lower() > LONGEST_BODY as u64 {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, TOO_LONG);
        }
        let whole = Limited::new(body, LONGEST_BODY).collect();
        let body = match tokio::time::timeout(BODY_TIMEOUT, whole).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => {
                return refusal(StatusCode::PAYLOAD_TOO_LARGE, TOO_LONG);
            }
            Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "the request did not come in time"),
        };
        self.service.handle(Request::from_parts(head, Full::new(body))).await
    }
}

fn refusal(status: StatusCode, why: &str) -> Response<HttpBody> {
    let body = serde_json::json!({"error": why}).to_string();
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl std::fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpServer").field("address", &self.address).finish_non_exhaustive()
    }
}
