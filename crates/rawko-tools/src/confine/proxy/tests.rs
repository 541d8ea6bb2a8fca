//! Attacks on the proxy, by real connections.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::Ipv4Addr;
use std::sync::mpsc::{Receiver, channel};

use super::*;

/// A proxy with one command that is granted `hosts`.
struct Trial {
    address: SocketAddr,
    clients: Clients,
    client: Arc<ProxyClient>,
    _proxy: Proxy,
}

impl Trial {
    fn new(hosts: &[&str]) -> Self {
        Self::with(hosts, HEAD_TIMEOUT, look_up)
    }

    fn with(hosts: &[&str], patience: Duration, look_up: LookUp) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let (clients, client) = (Clients::default(), ProxyClient::new(Ipv4Addr::LOCALHOST, &hosts));
        clients.add(Arc::clone(&client));
        let proxy = Proxy::start_with(listener, clients.clone(), patience, look_up).unwrap();
        Self { address, clients, client, _proxy: proxy }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// What the command's result says.
    fn refused(&self) -> String {
        self.client.refusals.take().text()
    }
}

/// A server that takes one connection, sends `answer` once it has read a head, and reports all that it read.
fn server_at(ip: &str, answer: &'static str) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut asked = Vec::new();
        let _ = stream.read_to_end(&mut asked);
        let _ = stream.write_all(answer.as_bytes());
        let _ = sender.send(String::from_utf8(asked).unwrap());
    });
    (port, receiver)
}

fn server(answer: &'static str) -> (u16, Receiver<String>) {
    server_at("127.0.0.1", answer)
}

#[test]
fn a_granted_host_is_reached_at_any_port() {
    let (port, asked) = server("ANSWER");
    let trial = Trial::new(&["127.0.0.1", "localhost"]);
    let request = format!(
        "GET http://127.0.0.1:{port}/a?b HTTP/1.1\r\nHost: evil.com\r\nProxy-Connection: keep-alive\r\nA: b\r\n\r\n"
    );
    assert_eq!(trial.ask(&request), "ANSWER");
    assert_eq!(
        asked.recv().unwrap(),
        format!("GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nA: b\r\nConnection: close\r\n\r\n")
    );
    let (port, asked) = server("ANSWER");
    let answer = trial.ask(&format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\nhello"));
    assert_eq!(answer, "HTTP/1.1 200 Connection established\r\n\r\nANSWER");
    assert_eq!(asked.recv().unwrap(), "hello");
    assert_eq!(trial.refused(), "");
}

#[test]
fn others_are_refused_and_recorded_for_the_command() {
    let trial = Trial::new(&["example.com"]);
    let answer = trial.ask("CONNECT index.crates.io:443 HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    let words = "The sandbox refused index.crates.io: permissions.net does not grant it. Do without it, or name \
                 it in your report: the user can add `cargo` (all hosts of that package manager) or `index.crates.io`, \
                 or for one run: --allow-net=cargo.";
    assert!(answer.ends_with(&format!("\r\n\r\n{words}\n")), "{answer}");
    // A body that is not read does not lose the refusal.
    let body = "x".repeat(500_000);
    let post = format!("POST http://index.crates.io/ HTTP/1.1\r\nContent-Length: 500000\r\n\r\n{body}");
    assert!(trial.ask(&post).contains(words));
    assert_eq!(trial.refused(), format!("[{words}]"));
    for (request, status) in [
        ("CONNECT example.com.evil.com:443 HTTP/1.1\r\n\r\n", 403),
        ("CONNECT evil.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", 403),
        ("CONNECT EVIL.com.:443 HTTP/1.1\r\n\r\n", 403),
        ("GET http://example.com@evil.com/ HTTP/1.1\r\n\r\n", 400),
        ("GET http://evil.com\\@example.com/ HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", 400),
    ] {
        let answer = trial.ask(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
    }
    let refused = trial.refused();
    assert!(
        refused.contains("example.com.evil.com") && refused.matches("refused evil.com:").count() == 1,
        "{refused}"
    );
}

#[test]
fn a_granted_name_that_leads_home_is_refused() {
    let (port, _asked) = server("REACHED");
    // `*` grants every name, and no address of this machine or its neighbours.
    let trial = Trial::new(&["*"]);
    for (host, status) in [
        ("127.0.0.1", 403),
        ("localhost", 403),
        ("LOCALHOST.", 403),
        ("[::1]", 403),
        ("0.0.0.0", 403),
        ("[::]", 403),
        ("[::ffff:127.0.0.1]", 403),
        ("[64:ff9b::7f00:1]", 403),
        ("169.254.169.254", 403),
        ("10.0.0.1", 403),
        ("2130706433", 400),
        ("0x7f000001", 400),
        ("0177.0.0.1", 400),
        ("127.1", 400),
    ] {
        let answer = trial.ask(&format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
    }
    assert!(trial.refused().contains("the user can add `169.254.169.254`, or"));
}

#[test]
fn a_name_that_changes_where_it_leads_is_looked_up_once() {
    static LOOKED_UP: AtomicUsize = AtomicUsize::new(0);
    fn rebinding(_: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let last = u8::try_from(LOOKED_UP.fetch_add(1, Ordering::SeqCst) + 1).unwrap();
        Ok(vec![SocketAddr::from(([127, 0, 0, last], port))])
    }
    let (port, asked) = server_at("127.0.0.1", "FIRST");
    let _second = TcpListener::bind(("127.0.0.2", port)).unwrap();
    let trial = Trial::with(&["rebinds.com", "127.0.0.1"], HEAD_TIMEOUT, rebinding);
    assert_eq!(trial.ask(&format!("GET http://rebinds.com:{port}/ HTTP/1.1\r\n\r\n")), "FIRST");
    assert!(asked.recv().unwrap().contains("Host: rebinds.com"));
    assert_eq!(LOOKED_UP.load(Ordering::SeqCst), 1);
    // The next request is judged by itself.
    let answer = trial.ask(&format!("GET http://rebinds.com:{port}/ HTTP/1.1\r\n\r\n"));
    assert!(answer.contains("127.0.0.2 is not on the public Internet"), "{answer}");
}

#[test]
fn a_second_request_on_the_connection_goes_nowhere() {
    let second = "GET http://evil.com/ HTTP/1.1\r\nHost: evil.com\r\n\r\n";
    for (fields, body) in [
        ("", ""),
        ("Content-Length: 3\r\n", "abc"),
        ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("Upgrade: websocket\r\n", ""),
    ] {
        let (port, asked) = server("ANSWER");
        let trial = Trial::new(&["127.0.0.1"]);
        let request = format!("POST http://127.0.0.1:{port}/ HTTP/1.1\r\n{fields}\r\n{body}{second}");
        assert_eq!(trial.ask(&request), "ANSWER", "{fields}");
        let asked = asked.recv().unwrap();
        assert!(asked.ends_with(&format!("Connection: close\r\n\r\n{body}")), "{fields}: {asked}");
    }
}

#[test]
fn a_head_without_an_end_is_given_up() {
    let trial = Trial::new(&["*"]);
    let long = format!("GET http://evil.com/ HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(MAX_HEAD));
    assert!(trial.ask(&long).starts_with("HTTP/1.1 400"));
    // Time counts for the whole head, however slowly it drips.
    let trial = Trial::with(&["*"], Duration::from_millis(400), look_up);
    let begun = Instant::now();
    let mut stream = trial.connect();
    while begun.elapsed() < Duration::from_secs(5) && stream.write_all(b"G").is_ok() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "it was served on");
}

#[test]
fn connections_are_bounded_and_come_free_again() {
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let trial = Trial::new(&["127.0.0.1"]);
    let before = files();
    let streams: Vec<TcpStream> = (0..400).map(|_| trial.connect()).collect();
    std::thread::sleep(Duration::from_millis(300));
    // Those of this test, and what the proxy took of them. Other tests run in processes of their own or take a few.
    let taken = files().saturating_sub(before + streams.len());
    assert!(taken <= MAX_CONNECTIONS + 60, "{taken} files");
    drop(streams);
    let (port, _asked) = server("ANSWER");
    let begun = Instant::now();
    let mut answer = String::new();
    while !answer.ends_with("ANSWER") && begun.elapsed() < Duration::from_secs(10) {
        let mut stream = trial.connect();
        let _ = write!(stream, "GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n");
        answer.clear();
        let _ = stream.read_to_string(&mut answer);
    }
    assert_eq!(answer, "ANSWER");
}

#[test]
fn the_connections_of_a_command_end_with_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let trial = Trial::new(&["127.0.0.1"]);
    let mut stream = trial.connect();
    write!(stream, "CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n").unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    // The command's end is closed, and the server keeps its own open.
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.read(&mut [0; 10]).unwrap(), 0);
    server.write_all(b"more").unwrap();
    trial.clients.remove(&trial.client);
    // A socket that was shut down in both directions answers with a reset.
    let begun = Instant::now();
    while server.write_all(b"more").is_ok() && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "the tunnel lives on");
    let mut answer = String::new();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // It is no longer served.
    assert_eq!(trial.ask(""), "");
}

#[test]
fn a_connection_belongs_to_the_command_whose_address_it_uses() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // In a sandbox one socket listens at all addresses of loopback; here that would be at those of the machine.
    let also = TcpListener::bind(("127.0.0.2", port)).unwrap();
    let clients = Clients::default();
    let first = ProxyClient::new(Ipv4Addr::LOCALHOST, &["first.com".to_owned()]);
    let second = ProxyClient::new(Ipv4Addr::new(127, 0, 0, 2), &["second.com".to_owned()]);
    clients.add(Arc::clone(&first));
    clients.add(Arc::clone(&second));
    let _proxies =
        [Proxy::start(listener, clients.clone()).unwrap(), Proxy::start(also, clients.clone()).unwrap()];
    let ask = |ip: &str, host: &str| {
        let mut stream = TcpStream::connect((ip, port)).unwrap();
        write!(stream, "CONNECT {host}:443 HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    };
    ask("127.0.0.2", "first.com");
    assert_eq!(first.refusals.take().text(), "");
    assert!(second.refusals.take().text().contains("refused first.com"));
    // That of no command: it reaches what all may reach, and counts for all.
    clients.remove(&second);
    let third = ProxyClient::new(Ipv4Addr::new(127, 0, 0, 3), &["second.com".to_owned()]);
    clients.add(Arc::clone(&third));
    ask("127.0.0.2", "first.com");
    assert!(
        first.refusals.take().text().contains("first.com")
            && third.refusals.take().text().contains("first.com")
    );
}
