//! The only way out of a sandbox: an HTTP proxy that reaches the hosts of `permissions.net` and no others.
//!
//! It listens in the network of the sandbox, at a socket that the helper made there, and connects from outside. Names are
//! looked up here, so a command needs no name service, and the address that was judged is the one that is connected to.
//! A host is granted with all its ports. A refusal is recorded for the command that asked.

mod address;
mod client;
mod request;

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::refusals::RefusedHost;

use address::{Unreached, look_up, reach};
use client::ProxiedConnection;
pub(super) use client::{Clients, ProxyClient, next_address};
use request::Request;

/// The port inside.
pub(super) const PORT: u16 = 3128;
/// The most connections at the same time.
const MAX_CONNECTIONS: usize = 128;
/// The longest head of a request.
const MAX_HEAD: usize = 64 * 1024;
/// How long a command may take to say what it wants.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long, and for how many bytes, a program may go on to send what is not read, before it reads the refusal.
const REFUSAL_PATIENCE: Duration = Duration::from_millis(500);
const MAX_UNREAD: usize = 1024 * 1024;

/// How names are looked up.
type LookUp = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// The proxy of one agent. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Proxy {
    listener: TcpListener,
}

impl Proxy {
    pub(super) fn start(listener: TcpListener, clients: Clients) -> io::Result<Self> {
        Self::start_with(listener, clients, HEAD_TIMEOUT, look_up)
    }

    fn start_with(
        listener: TcpListener,
        clients: Clients,
        patience: Duration,
        look_up: LookUp,
    ) -> io::Result<Self> {
        let accepting = listener.try_clone()?;
        let work = move || {
            let open = Arc::new(AtomicUsize::new(0));
            for stream in accepting.incoming() {
                let stream = match stream {
                    Ok(stream) => Arc::new(stream),
                    // The listener was shut down.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                    // This connection was lost, or there are too many files: the next may do better.
                    Err(_) => {
                        std::thread::sleep(Duration::from_millis(10));
                        continue;
                    }
                };
                // Each holds two files of this process at most.
                if open.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
                    continue;
                }
                let (clients, count) = (clients.clone(), Counted::new(&open));
                let serve = move || {
                    let _count = count;
                    let Ok(address) = stream.local_addr() else { return };
                    let owners = clients.at(address.ip());
                    if owners.is_empty() {
                        return;
                    }
                    let connection = ProxiedConnection::new(owners);
                    connection.hold(&stream);
                    // A connection that fails is the command's affair: it sees the end of it.
                    let _ = serve(&stream, &connection, Instant::now() + patience, look_up);
                    connection.close();
                };
                // Without a thread the connection is closed.
                let _ = std::thread::Builder::new().name("proxy".to_owned()).spawn(serve);
            }
        };
        std::thread::Builder::new().name("proxy".to_owned()).spawn(work)?;
        Ok(Self { listener })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Wakes the thread that accepts.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

/// One of the open connections.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves one request: what follows it on the same connection could be for another host.
fn serve(
    stream: &Arc<TcpStream>,
    connection: &ProxiedConnection,
    deadline: Instant,
    look_up: LookUp,
) -> io::Result<()> {
    let mut reader = BufReader::new(&**stream);
    let Some(head) = read_head(&mut reader, deadline)? else {
        return refuse(stream, "400 Bad Request", "the request's head has no end, or comes too slowly");
    };
    let Some(request) = Request::parse(&head) else {
        return refuse(stream, "400 Bad Request", "this is no request to a proxy that has one meaning only");
    };
    let deny = |host: &str, address: Option<IpAddr>| {
        let address = address.map(|address| address.to_string());
        let refused = RefusedHost { host: host.to_owned(), address };
        connection.note(&refused);
        refuse(stream, "403 Forbidden", &refused.denial())
    };
    let Request { host, port, plain } = request;
    if !connection.grants(&host) {
        return deny(&host, None);
    }
    let server = match reach(&host, look_up(&host, port), &|name| connection.names(name)) {
        Ok(server) => Arc::new(server),
        Err(Unreached::NotPublic(address)) => return deny(&host, Some(address)),
        Err(Unreached::Failed(error)) => {
            return refuse(stream, "502 Bad Gateway", &format!("{host}: {error}"));
        }
    };
    connection.hold(&server);
    stream.set_read_timeout(None)?;
    match &plain {
        None => (&**stream).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?,
        Some(plain) => (&*server).write_all(&plain.head)?,
    }
    let (from_server, to_client) = (Arc::clone(&server), Arc::clone(stream));
    let back = std::thread::Builder::new().name("proxy".to_owned()).spawn(move || {
        let _ = io::copy(&mut &*from_server, &mut &*to_client);
        let _ = to_client.shutdown(Shutdown::Write);
    })?;
    match plain {
        None => {
            // What the reader has already taken belongs to the server.
            let _ = io::copy(&mut reader, &mut &*server);
            let _ = server.shutdown(Shutdown::Write);
        }
        Some(plain) => {
            if plain.body.copy(&mut reader, &mut &*server).is_err() {
                connection.close();
            }
        }
    }
    let _ = back.join();
    Ok(())
}

/// The head of a request with its last empty line; `None` if it does not end, or not in time.
fn read_head(reader: &mut BufReader<&TcpStream>, deadline: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    while head.len() < MAX_HEAD {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        reader.get_ref().set_read_timeout(Some(left))?;
        let some = match reader.fill_buf() {
            Ok(some) => some,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if some.is_empty() {
            return Ok(None);
        }
        let (before, taken) = (head.len(), some.len());
        head.extend_from_slice(some);
        let from = before.saturating_sub(3);
        let end =
            memchr::memmem::find(head.get(from..).unwrap_or_default(), b"\r\n\r\n").map(|at| from + at + 4);
        if let Some(end) = end {
            head.truncate(end);
            reader.consume(end - before);
            return Ok(Some(head));
        }
        reader.consume(taken);
    }
    Ok(None)
}

fn refuse(mut stream: &TcpStream, status: &str, why: &str) -> io::Result<()> {
    let length = why.len() + 1;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{why}\n"
    )?;
    // If it were closed with something unread, the refusal would be lost.
    stream.shutdown(Shutdown::Write)?;
    let deadline = Instant::now() + REFUSAL_PATIENCE;
    let (mut buffer, mut left) = ([0; 8 * 1024], MAX_UNREAD);
    loop {
        let time = deadline.saturating_duration_since(Instant::now());
        if time.is_zero() || left == 0 {
            return Ok(());
        }
        stream.set_read_timeout(Some(time))?;
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            read => left = left.saturating_sub(read),
        }
    }
}

#[cfg(test)]
mod tests;
