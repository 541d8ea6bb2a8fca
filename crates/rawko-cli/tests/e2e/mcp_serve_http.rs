//! rawko as an MCP server by HTTP: for the user's own clients alone, whatever else reaches the port.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{Answer, ModelServer};

use crate::answers::{bash, developer};
use crate::mcp_serve_client::HANDSHAKE;
use crate::support::Process;
use crate::trial::Trial;

const TOKEN: &str = "0123456789abcdef-of-a-test";

/// A server that listens.
struct Listening {
    trial: Trial,
    process: Process,
    host: String,
}

/// An answer: its status, its headers in lower case, its body.
struct Response {
    status: u16,
    headers: String,
    body: String,
}

impl Response {
    /// The message in it, whether it came as it is or as an event.
    #[track_caller]
    fn message(&self) -> Value {
        let events = self.body.lines().filter_map(|line| line.strip_prefix("data:"));
        let text = events.map(str::trim).rfind(|data| !data.is_empty()).unwrap_or(&self.body);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {}: {}", self.status, self.body))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

impl Listening {
    #[track_caller]
    fn start(trial: Trial, arguments: &[&str]) -> Self {
        let mut command = trial.asker();
        command.args(["mcp", "serve"]).args(arguments);
        Self::of(trial, &mut command)
    }

    #[track_caller]
    fn of(trial: Trial, command: &mut Command) -> Self {
        let process = Process::start(command);
        process.wait_to_hear(&["listening on http://", "/mcp\n"]);
        let err = process.err();
        let host = err.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
        Self { trial, process, host }
    }

    /// Sends a request as it is.
    #[track_caller]
    fn raw(&self, request: &str) -> Response {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // A server that refuses a request may close the connection while it is still sent.
        let _ = stream.write_all(request.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let headers = head.to_lowercase().replace("\r\n", "\n");
        let body =
            if headers.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        Response { status, headers, body }
    }

    /// Posts a message with these headers.
    #[track_caller]
    fn post(&self, headers: &[(&str, &str)], message: &Value) -> Response {
        let body = message.to_string();
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        self.raw(&format!("{request}\r\n{body}"))
    }

    /// Shakes hands with this token, and gives the session of the protocol.
    #[track_caller]
    fn shake_hands(&self, token: &str) -> String {
        let bearer = format!("Bearer {token}");
        let headers = [("host", self.host.as_str()), ("authorization", bearer.as_str())];
        let response = self.post(&headers, &hello());
        assert_eq!(response.status, 200, "{}", response.body);
        assert_eq!(response.message()["result"]["serverInfo"]["name"], "rawko");
        let session = response.header("mcp-session-id").unwrap().to_owned();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let headers = [headers[0], headers[1], ("mcp-session-id", session.as_str())];
        assert_eq!(self.post(&headers, &initialized).status, 202);
        session
    }

    /// Calls a tool in a session of the protocol.
    #[track_caller]
    fn call(&self, session: &str, tool: &str, arguments: &Value) -> Value {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [
            ("host", self.host.as_str()),
            ("authorization", bearer.as_str()),
            ("mcp-session-id", session),
            ("mcp-protocol-version", HANDSHAKE),
        ];
        let parameters = json!({"name": tool, "arguments": arguments});
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": parameters});
        let message = self.post(&headers, &request).message();
        assert_eq!(message["result"]["isError"], false, "{message}");
        message["result"]["structuredContent"].clone()
    }

    /// Stops it: its standard error.
    #[track_caller]
    fn stop(self) -> (String, Trial) {
        self.process.signal(Signal::TERM);
        let (code, out, err) = self.process.end().parts();
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        (err, self.trial)
    }
}

fn hello() -> Value {
    let client = json!({"name": "test", "version": "1"});
    let parameters = json!({"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters})
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}

fn quiet() -> Trial {
    Trial::new(ModelServer::sequence([Answer::Silence]))
}

#[test]
fn a_task_is_carried_out_over_http() {
    let trial = Trial::new(developer([bash("touch made")])).env("RAWKO_MCP_TOKEN", TOKEN);
    let listening = Listening::start(trial, &["--http"]);
    assert!(!listening.process.err().contains(TOKEN), "a token of the user's choice is not printed");
    let protocol = listening.shake_hands(TOKEN);
    let started = listening.call(&protocol, "start", &json!({"task": "Make it."}));
    let session = started["session"].as_str().unwrap().to_owned();
    let mut after = json!(0);
    let end = loop {
        let arguments = json!({"session": session, "after": after, "waitSeconds": 20});
        let seen = listening.call(&protocol, "watch", &arguments);
        if seen["status"] == "ended" {
            break seen["end"].clone();
        }
        after = seen["cursor"].clone();
    };
    assert_eq!(end["answer"], "did it", "{end:#}");
    // Another connection sees the same server.
    let other = listening.shake_hands(TOKEN);
    assert_eq!(listening.call(&other, "diff", &json!({}))["files"][0]["path"], "made");
    let (_, trial) = listening.stop();
    for file in crate::support::files_below(&trial.project()) {
        let text = std::fs::read(&file).unwrap_or_default();
        let has_token = text.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes());
        assert!(!has_token, "the token is in {}", file.display());
    }
}

#[test]
fn only_the_users_clients_are_answered() {
    let listening = Listening::start(quiet(), &["--http"]);
    let err = listening.process.err();
    let token = err.split("Authorization: Bearer ").nth(1).unwrap().trim().to_owned();
    assert_eq!(token.len(), 64, "{err}");
    listening.shake_hands(&token);
    let (host, bearer) = (listening.host.clone(), format!("Bearer {token}"));
    let local = format!("localhost:{}", host.split(':').nth(1).unwrap());
    let own = format!("http://{local}");
    let right = [("host", host.as_str()), ("authorization", bearer.as_str())];
    for (headers, expected) in [
        (vec![right[0], right[1]], 200),
        (vec![("host", local.as_str()), right[1], ("origin", own.as_str())], 200),
        (vec![right[0]], 401),
        (vec![right[0], ("authorization", "Bearer wrong")], 401),
        (vec![right[0], ("cookie", bearer.as_str())], 401),
        (vec![("host", "evil.example"), right[1]], 403),
        (vec![right[0], right[1], ("origin", "http://evil.example")], 403),
        (vec![right[0], right[1], ("origin", "null")], 403),
    ] {
        let response = listening.post(&headers, &hello());
        assert_eq!(response.status, expected, "{headers:?}: {}", response.body);
    }
    let unnamed = listening.raw("GET /mcp HTTP/1.1\r\nconnection: close\r\n\r\n");
    assert!(matches!(unnamed.status, 400 | 403), "{}", unnamed.status);
    listening.stop();
}

#[test]
fn what_a_request_may_be_is_bounded() {
    let trial = quiet().env("RAWKO_MCP_TOKEN", TOKEN);
    let listening = Listening::start(trial, &["--http=127.0.0.1:0"]);
    let host = &listening.host;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nauthorization: Bearer {TOKEN}\r\n"
    );
    let response = listening.raw(&format!(
        "{head}content-length: {}

x",
        5 * 1024 * 1024
    ));
    assert_eq!(response.status, 413, "{}", response.body);
    let garbage = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";
    let response = listening.raw(&format!("{head}{garbage}content-length: 7\r\n\r\nno json"));
    assert!((400..500).contains(&response.status), "{}: {}", response.status, response.body);
    let header = "y".repeat(200 * 1024);
    let response = listening.raw(&format!("{head}x-long: {header}\r\n\r\n"));
    assert!((400..500).contains(&response.status), "{}", response.status);
    listening.shake_hands(TOKEN);
    listening.stop();
}

#[test]
fn a_taken_port_a_foreign_address_and_a_bad_token_are_said() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let trial = quiet();
    let (code, out, err) = trial.ask(&["mcp", "serve", &format!("--http={port}")]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(
        err.contains(&format!("cannot listen on 127.0.0.1:{port}")) && err.contains("for a free one"),
        "{err}"
    );
    let (code, _, err) = trial.ask(&["mcp", "serve", "--http=0.0.0.0:0"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("only addresses of the loopback"), "{err}");
    let trial = trial.env("RAWKO_MCP_TOKEN", "short");
    let (code, _, err) = trial.ask(&["mcp", "serve", "--http"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("RAWKO_MCP_TOKEN") && err.contains("shorter than 16"), "{err}");
    let (code, _, err) = trial.ask(&["mcp", "serve", "--http", "--token-file", "none"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("the token from none cannot be used"), "{err}");
    trial.write("token", &format!("{TOKEN}\n"));
    let listening = Listening::start(trial, &["--http", "--token-file", "token"]);
    listening.shake_hands(TOKEN);
    listening.stop();
}

#[test]
fn connections_that_take_all_descriptors_end_and_the_server_goes_on() {
    let trial = quiet().env("RAWKO_MCP_TOKEN", TOKEN);
    let asker = trial.asker();
    let mut command = trial.program("sh");
    command.args(["-c", "ulimit -n 40; exec \"$0\" mcp serve --http"]).arg(asker.get_program());
    command.envs(asker.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let listening = Listening::of(trial, &mut command);
    let crowd: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&listening.host).unwrap()).collect();
    // The last of them waits for a place, so it gets no answer.
    let mut last = crowd.last().unwrap().try_clone().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    last.write_all(format!("GET /mcp HTTP/1.1\r\nhost: {}\r\n\r\n", listening.host).as_bytes()).unwrap();
    let mut line = String::new();
    assert!(BufReader::new(&last).read_line(&mut line).is_err(), "{line}");
    drop((last, crowd));
    let begun = Instant::now();
    listening.shake_hands(TOKEN);
    assert!(begun.elapsed() < Duration::from_secs(20));
    listening.stop();
}
