//! A server that gives prepared answers in order and takes the time of every request's last byte.
//!
//! It is light on purpose, because it shares the machine with what is measured: it parses nothing, and keeps only the
//! length of each body and the longest body.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use crate::process::{Process, Sample};

/// The server; it serves until the program ends.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    answers: Vec<Vec<u8>>,
    process: OnceLock<Mutex<Process>>,
    log: Mutex<Log>,
}

/// What the server saw.
#[derive(Default)]
pub(crate) struct Log {
    /// The requests, in order.
    pub(crate) requests: Vec<Request>,
    /// The longest body.
    pub(crate) longest: Vec<u8>,
}

/// One request.
pub(crate) struct Request {
    /// When its last byte was there.
    pub(crate) arrived: Instant,
    /// When its answer was about to be written, in one piece. Not when it had been: the kernel may run the reader
    /// before the writer goes on, and would hide what the reader does from the clock.
    pub(crate) answered: Instant,
    /// Bytes of its body.
    pub(crate) bytes: usize,
    /// The process as it was when the request had arrived.
    pub(crate) sample: Option<Sample>,
}

impl Server {
    /// Begins to serve.
    pub(crate) fn start(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { answers, process: OnceLock::new(), log: Mutex::default() });
        let for_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&for_thread);
                std::thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self { address, shared }
    }

    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Looks at this process whenever a request has arrived.
    pub(crate) fn watch(&self, pid: u32) {
        let _ = self.shared.process.set(Mutex::new(Process::new(pid)));
    }

    /// What it saw so far.
    pub(crate) fn take_log(&self) -> Log {
        std::mem::take(&mut *self.shared.log.lock().unwrap())
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::with_capacity(64 * 1024, stream);
    let mut body = Vec::new();
    let mut line = String::new();
    loop {
        let mut length = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line == "\r\n" {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok()?;
            }
        }
        body.resize(length, 0);
        reader.read_exact(&mut body).ok()?;
        let arrived = Instant::now();
        let sample = shared.process.get().map(|process| process.lock().unwrap().sample());
        let mut log = shared.log.lock().unwrap();
        let answer = shared.answers.get(log.requests.len())?;
        let answered = Instant::now();
        { stream }.write_all(answer).ok()?;
        log.requests.push(Request { arrived, answered, bytes: length, sample });
        if body.len() > log.longest.len() {
            std::mem::swap(&mut log.longest, &mut body);
        }
    }
}
