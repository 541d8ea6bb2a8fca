//! The server: one thread accepts, and one more serves each connection.

use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::exchange::{Asked, Exchange, Wire};
use crate::http;
use crate::send::{SendOutcome, Sender};
use crate::service;

type Behaviour = Box<dyn FnMut(&Asked) -> Answer + Send>;

/// A model server on loopback. Stops when dropped.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
    accepting: Option<JoinHandle<()>>,
}

struct ServerState {
    behaviour: Mutex<Behaviour>,
    exchanges: Mutex<Vec<Exchange>>,
    changed: Condvar,
    stop: AtomicBool,
    connections: AtomicU64,
    /// All connections, to be closed at the end.
    open: Mutex<Vec<TcpStream>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ModelServer {
    /// Starts a server that answers each request with the result of `behaviour`.
    ///
    /// # Panics
    /// If loopback has no free port.
    #[must_use]
    #[allow(clippy::expect_used)]
    pub fn start(behaviour: impl FnMut(&Asked) -> Answer + Send + 'static) -> Self {
        Self::try_start("127.0.0.1:0", behaviour).expect("a free port on loopback")
    }

    /// Starts a server at `address`.
    ///
    /// # Errors
    /// If nothing can listen there.
    pub fn try_start(
        address: &str,
        behaviour: impl FnMut(&Asked) -> Answer + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ServerState {
            behaviour: Mutex::new(Box::new(behaviour)),
            exchanges: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            open: Mutex::default(),
            threads: Mutex::default(),
        });
        let for_thread = Arc::clone(&shared);
        let accepting = std::thread::Builder::new()
            .name("model-server".into())
            .spawn(move || accept(&listener, &for_thread))?;
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// Starts a server that gives these answers in order, and 400 after the last.
    #[must_use]
    pub fn sequence(answers: impl IntoIterator<Item = Answer>) -> Self {
        let mut answers: std::collections::VecDeque<Answer> = answers.into_iter().collect();
        Self::start(move |asked| {
            let none = || {
                let message = format!("request {} has no answer in this test", asked.number);
                Answer::refuse(400, "invalid_request_error", message)
            };
            answers.pop_front().unwrap_or_else(none)
        })
    }

    /// The base URL for the Messages API.
    #[must_use]
    pub fn claude_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base URL for Chat Completions and Responses.
    #[must_use]
    pub fn openai_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The base URL for a wire.
    #[must_use]
    pub fn url(&self, wire: Wire) -> String {
        match wire {
            Wire::Claude => self.claude_url(),
            Wire::OpenAi | Wire::Responses => self.openai_url(),
        }
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All exchanges so far, in order of arrival.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.shared.exchanges).clone()
    }

    /// All requests so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.exchanges().into_iter().map(|exchange| exchange.asked).collect()
    }

    /// Waits until `is_so` returns `true` for the exchanges; returns `false` after `limit`.
    #[must_use]
    pub fn wait_until(&self, limit: Duration, is_so: impl Fn(&[Exchange]) -> bool) -> bool {
        let end = Instant::now() + limit;
        let mut exchanges = lock(&self.shared.exchanges);
        while !is_so(&exchanges) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(exchanges, left);
            exchanges = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        for stream in lock(&self.shared.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let threads: Vec<_> = lock(&self.shared.threads).drain(..).collect();
        for thread in threads {
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<ServerState>) {
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(copy) = stream.try_clone() else { continue };
        lock(&shared.open).push(copy);
        let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let for_thread = Arc::clone(shared);
        let thread = std::thread::Builder::new()
            .name(format!("model-server-{number}"))
            .spawn(move || serve(&stream, number, &for_thread));
        if let Ok(thread) = thread {
            let mut threads = lock(&shared.threads);
            threads.retain(|t| !t.is_finished());
            threads.push(thread);
        }
    }
}

/// Answers requests on a connection until one side closes it.
fn serve(stream: &TcpStream, connection: u64, shared: &ServerState) {
    let _ = stream.set_nodelay(true);
    if let Ok(copy) = stream.try_clone() {
        let mut reader = BufReader::new(copy);
        while let Ok(Some(incoming)) = http::read_request(&mut reader) {
            if answer(stream, incoming, connection, shared) != SendOutcome::Kept {
                break;
            }
        }
    }
    // Other copies of the socket exist, so dropping this one would not close it.
    let _ = stream.shutdown(Shutdown::Both);
}

fn answer(
    stream: &TcpStream,
    incoming: http::Incoming,
    connection: u64,
    shared: &ServerState,
) -> SendOutcome {
    let sender = Sender { stream, stop: &shared.stop };
    let path = incoming.path.split('?').next().unwrap_or_default();
    let wire = match path {
        "/v1/messages" => Wire::Claude,
        "/v1/responses" | "/responses" => Wire::Responses,
        _ if incoming.headers.iter().any(|(name, _)| name == "anthropic-version") => Wire::Claude,
        _ => Wire::OpenAi,
    };
    let is_question = matches!(
        path,
        "/v1/messages" | "/v1/chat/completions" | "/chat/completions" | "/v1/responses" | "/responses"
    );
    let is_list = matches!(path, "/v1/models" | "/models");
    let mut exchanges = lock(&shared.exchanges);
    let asked = Asked {
        json: serde_json::from_slice(&incoming.body).unwrap_or(Value::Null),
        method: incoming.method,
        path: incoming.path,
        headers: incoming.headers,
        body: incoming.body,
        wire,
        arrived: Instant::now(),
        connection,
        number: exchanges.len(),
    };
    let number = asked.number;
    exchanges.push(Exchange { asked: asked.clone(), answered: None, client_left: false });
    drop(exchanges);
    shared.changed.notify_all();
    let answer = if is_question {
        service::refusal(&asked).unwrap_or_else(|| (lock(&shared.behaviour))(&asked))
    } else if is_list {
        Answer::Raw(http::response(200, "application/json", &[], models().to_string().as_bytes()))
    } else {
        Answer::refuse(404, "not_found_error", format!("nothing at {}", asked.path))
    };
    let outcome = sender.send(&answer, &asked);
    if let Some(exchange) = lock(&shared.exchanges).get_mut(number) {
        exchange.client_left = outcome == SendOutcome::ClientLeft;
        exchange.answered = (!exchange.client_left).then(Instant::now);
    }
    shared.changed.notify_all();
    outcome
}

fn models() -> Value {
    json!({"object": "list", "has_more": false, "data": [
        {"type": "model", "object": "model", "id": "test-large", "display_name": "Test Large"},
        {"type": "model", "object": "model", "id": "test-small"},
    ]})
}
