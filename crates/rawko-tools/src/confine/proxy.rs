//! The only way out of a sandbox: an HTTP proxy that reaches the hosts of `permissions.net` and no others.
//!
//! It listens in the network of the sandbox, at a socket that the helper made there, and connects from outside. Names are
//! looked up here, so a command needs no name service, and the address that was judged is the one that is connected to.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rawko_core::policy::{host_is_granted, net_preset_of};

/// The port inside.
pub(super) const PORT: u16 = 3128;
/// The most connections at the same time.
const MAX_CONNECTIONS: usize = 128;
/// The longest head of a request.
const MAX_HEAD: u64 = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a command may take to say what it wants.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The hosts that are granted now.
pub(super) type Hosts = Arc<Mutex<Vec<String>>>;

/// The proxy of one agent. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Proxy {
    listener: TcpListener,
}

impl Proxy {
    pub(super) fn start(listener: TcpListener, hosts: Hosts) -> io::Result<Self> {
        let accepting = listener.try_clone()?;
        let work = move || {
            let open = Arc::new(AtomicUsize::new(0));
            for connection in accepting.incoming() {
                let connection = match connection {
                    Ok(connection) => connection,
                    // The listener was shut down.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                    // This connection was lost, or there are too many files: the next may do better.
                    Err(_) => {
                        std::thread::sleep(Duration::from_millis(10));
                        continue;
                    }
                };
                if open.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
                    continue;
                }
                let (hosts, count) = (Arc::clone(&hosts), Counted::new(&open));
                let serve = move || {
                    let _count = count;
                    // A connection that fails is the command's affair: it sees the end of it.
                    let _ = serve(&connection, &hosts);
                    let _ = connection.shutdown(Shutdown::Both);
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

/// Where a request wants to go, and what is sent there first.
struct Target {
    host: String,
    port: u16,
    /// The request's head, rewritten for the server; `None` for a tunnel.
    head: Option<Vec<u8>>,
}

fn serve(connection: &TcpStream, hosts: &Hosts) -> io::Result<()> {
    connection.set_read_timeout(Some(HEAD_TIMEOUT))?;
    let mut reader = BufReader::new(connection);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let left = MAX_HEAD.saturating_sub(head.len() as u64);
        if left == 0 || reader.by_ref().take(left).read_until(b'\n', &mut head)? == 0 {
            return refuse(connection, "400 Bad Request", "the request's head has no end");
        }
    }
    let Some(target) = Target::of(&head) else {
        return refuse(connection, "400 Bad Request", "this is no request to a proxy");
    };
    let granted = hosts.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if !host_is_granted(&granted, &target.host) {
        return refuse(connection, "403 Forbidden", &denial(&target.host));
    }
    let server = match reach(&target, &granted) {
        Ok(server) => server,
        Err(error) => return refuse(connection, "502 Bad Gateway", &format!("{}: {error}", target.host)),
    };
    connection.set_read_timeout(None)?;
    match &target.head {
        None => (&*connection).write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?,
        Some(head) => (&server).write_all(head)?,
    }
    // What the reader has already taken belongs to the server.
    (&server).write_all(reader.buffer())?;
    let (from_server, to_client) = (server.try_clone()?, connection.try_clone()?);
    let back = std::thread::Builder::new().name("proxy".to_owned()).spawn(move || {
        let _ = io::copy(&mut &from_server, &mut &to_client);
        let _ = to_client.shutdown(Shutdown::Write);
    })?;
    let _ = io::copy(&mut &*connection, &mut &server);
    let _ = server.shutdown(Shutdown::Write);
    let _ = back.join();
    Ok(())
}

fn refuse(mut connection: &TcpStream, status: &str, why: &str) -> io::Result<()> {
    let length = why.len() + 1;
    write!(
        connection,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{why}\n"
    )
}

/// What a command is told that asks for a host that is not granted.
fn denial(host: &str) -> String {
    let preset =
        net_preset_of(host).map(|preset| format!(", or {preset} for all hosts of that package manager"));
    format!(
        "rawko: permissions.net does not grant {host}. To allow it, add it there{}",
        preset.unwrap_or_default()
    )
}

impl Target {
    /// Parses `CONNECT host:port` or `METHOD http://host[:port]/path`.
    fn of(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let (first, rest) = text.split_once("\r\n")?;
        let mut words = first.split(' ');
        let (method, address, version) = (words.next()?, words.next()?, words.next()?);
        if method == "CONNECT" {
            let (host, port) = split(address, None)?;
            return Some(Self { host, port, head: None });
        }
        let (authority, path) = match address.strip_prefix("http://")?.split_once('/') {
            Some((authority, path)) => (authority, format!("/{path}")),
            None => (address.strip_prefix("http://")?, "/".to_owned()),
        };
        let (host, port) = split(authority, Some(80))?;
        // The server gets the host that was judged, and is told to end after this request: the next might be for another.
        let is_kept = |line: &&str| {
            const REPLACED: [&str; 4] = ["connection", "host", "keep-alive", "proxy-connection"];
            let name = line.split(':').next().unwrap_or_default().trim();
            !line.is_empty() && !REPLACED.iter().any(|replaced| name.eq_ignore_ascii_case(replaced))
        };
        let kept: String = rest.lines().filter(is_kept).map(|line| format!("{line}\r\n")).collect();
        let head =
            format!("{method} {path} {version}\r\nHost: {authority}\r\n{kept}Connection: close\r\n\r\n");
        Some(Self { host, port, head: Some(head.into_bytes()) })
    }
}

/// The host and the port of an authority. What may be spelt in ways that others read otherwise is refused.
fn split(authority: &str, default: Option<u16>) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok()?,
        None => default?,
    };
    let is_plain = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':'));
    (is_plain && !host.is_empty()).then(|| (host.to_ascii_lowercase(), port))
}

/// Connects to a host whose name is granted. An address that is not on the public Internet has to be granted itself,
/// because a name can be made to lead anywhere.
fn reach(target: &Target, granted: &[String]) -> io::Result<TcpStream> {
    let is_named = |address: IpAddr| granted.iter().any(|entry| *entry == address.to_string());
    let is_local = target.host == "localhost" && granted.iter().any(|entry| entry == "localhost");
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (target.host.as_str(), target.port).to_socket_addrs()? {
        if !(is_public(address.ip()) || is_named(address.ip()) || is_local) {
            last = io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "its address {} is not on the public Internet, and permissions.net does not name it",
                    address.ip()
                ),
            );
            continue;
        }
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public_v4(v4),
            None => {
                let segments = v6.segments();
                // Global unicast without the ranges for documentation, tunnels and translation.
                (0x2000..0x4000).contains(&segments[0])
                    && segments[0] != 0x2002
                    && !(segments[0] == 0x2001 && (segments[1] < 0x200 || segments[1] == 0xdb8))
            }
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || address.is_unspecified()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::net::SocketAddr;

    use super::*;

    fn ask(hosts: &[&str], request: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let hosts = Arc::new(Mutex::new(hosts.iter().map(|host| (*host).to_owned()).collect()));
        let _proxy = Proxy::start(listener, hosts).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    /// A server that answers once with what it was asked.
    fn server() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1000];
            let length = stream.read(&mut asked).unwrap();
            stream.write_all(&asked[..length]).unwrap();
        });
        port
    }

    #[test]
    fn a_granted_host_is_reached() {
        let port = server();
        let request = format!(
            "GET http://127.0.0.1:{port}/a?b HTTP/1.1\r\nHost: x\r\nProxy-Connection: keep-alive\r\n\r\n"
        );
        let answer = ask(&["127.0.0.1"], &request);
        assert_eq!(
            answer,
            format!("GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")
        );
        let port = server();
        let answer = ask(&["localhost"], &format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\nhello"));
        assert_eq!(answer, "HTTP/1.1 200 Connection established\r\n\r\nhello");
    }

    #[test]
    fn others_are_refused_and_the_line_is_named() {
        let answer = ask(&["example.com"], "CONNECT crates.io:443 HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("permissions.net"), "{answer}");
        assert!(answer.contains("or cargo for all"), "{answer}");
        for request in [
            "CONNECT example.com.evil.com:443 HTTP/1.1\r\n\r\n",
            "CONNECT evil.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
            "GET http://example.com@evil.com/ HTTP/1.1\r\n\r\n",
            "GET http://evil.com\\@example.com/ HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n",
        ] {
            let answer = ask(&["example.com"], request);
            assert!(answer.starts_with("HTTP/1.1 40"), "{request}: {answer}");
        }
    }

    #[test]
    fn a_granted_name_that_leads_home_is_refused() {
        let port = server();
        // `*` grants every name, and no address of this machine or its neighbours.
        for host in [
            "127.0.0.1",
            "localhost",
            "[::1]",
            "0.0.0.0",
            "[::ffff:127.0.0.1]",
            "169.254.169.254",
            "10.0.0.1",
        ] {
            let answer = ask(&["*"], &format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n"));
            assert!(answer.starts_with("HTTP/1.1 502"), "{host}: {answer}");
        }
    }

    #[test]
    fn public_addresses() {
        for (address, expected) in [
            ("1.1.1.1", true),
            ("192.168.0.1", false),
            ("100.64.0.1", false),
            ("198.18.0.1", false),
            ("2606:4700::1111", true),
            ("fe80::1", false),
            ("fc00::1", false),
            ("::", false),
            ("2002:7f00:1::", false),
            ("64:ff9b::7f00:1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}
