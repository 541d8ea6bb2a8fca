//! A client of the protocol: `rawko acp` in a world of its own, with a scripted model, driven line by line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::ModelServer;

use crate::support::{Said, World};

/// Longer than anything here takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A project, a model server, and a user who is configured for it.
pub(crate) struct Desk {
    pub(crate) world: World,
    pub(crate) models: ModelServer,
}

impl Desk {
    pub(crate) fn new(models: ModelServer) -> Self {
        Self::with(models, &json!({}))
    }

    /// The same with more in the user's configuration.
    pub(crate) fn with(models: ModelServer, more: &Value) -> Self {
        let world = World::new();
        let mut config = json!({"provider": {"retry": {"patience": 0}}, "arbiter": {"mode": "llm"}});
        for (key, value) in more.as_object().unwrap() {
            config[key] = value.clone();
        }
        world.configure(&config);
        world.git(&["init", "--quiet"]);
        Self { world, models }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.command(arguments);
        command.env("ANTHROPIC_BASE_URL", self.models.claude_url()).env("ANTHROPIC_API_KEY", "sk-test");
        command.env("RAWKO_PROVIDER", "claude");
        command
    }

    /// Runs another command of rawko: its exit status, standard output and standard error.
    pub(crate) fn rawko(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        Said::of(self.command(arguments).output().unwrap()).parts()
    }

    /// A client that has said hello.
    pub(crate) fn client(&self) -> AcpClient {
        let mut client = AcpClient::start(&mut self.command(&["acp"]));
        let hello = client.ask("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}));
        assert_eq!(hello["protocolVersion"], 1);
        client
    }

    /// Where the project is.
    pub(crate) fn folder(&self) -> String {
        self.world.project().canonicalize().unwrap().display().to_string()
    }
}

/// `rawko acp`, and what it has said that nobody has read yet.
pub(crate) struct AcpClient {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<std::thread::JoinHandle<String>>,
    last_id: u64,
    /// The updates so far.
    pub(crate) updates: Vec<Value>,
    /// What it answers to requests for permission.
    pub(crate) permits: bool,
    /// The requests for permission so far.
    pub(crate) asked: Vec<Value>,
}

impl AcpClient {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut errors = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = std::io::Read::read_to_string(&mut errors, &mut text);
            text
        });
        let input = child.stdin.take();
        Self {
            child,
            input,
            lines,
            errors: Some(errors),
            last_id: 0,
            updates: Vec::new(),
            permits: false,
            asked: Vec::new(),
        }
    }

    /// Writes a line as it is.
    pub(crate) fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
        input.flush().unwrap();
    }

    /// Sends a request, and gives its id.
    pub(crate) fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// The next message. Standard output carries nothing else than messages.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}")),
            Err(RecvTimeoutError::Timeout) => panic!("it says nothing; updates so far: {:#?}", self.updates),
            Err(RecvTimeoutError::Disconnected) => {
                let errors = self.errors.take().map(|errors| errors.join().unwrap());
                panic!("it has ended: {errors:?}; updates so far: {:#?}", self.updates)
            }
        }
    }

    /// Takes a message that answers nothing.
    fn take(&mut self, message: Value) {
        match message["method"].as_str() {
            Some("session/update") => self.updates.push(message["params"].clone()),
            Some("session/request_permission") => {
                let option = if self.permits { "allow-once" } else { "reject-once" };
                let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
                self.write(&json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome}).to_string());
                self.asked.push(message["params"].clone());
            }
            _ => panic!("unexpected: {message}"),
        }
    }

    /// Waits until an update is there for which `is_so`.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, is_so: impl Fn(&Value) -> bool) {
        while !self.updates.iter().any(|update| is_so(&update["update"])) {
            let message = self.next();
            self.take(message);
        }
    }

    /// The answer to a request: its result or its error.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Result<Value, Value> {
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return match message.get("result") {
                    Some(result) => Ok(result.clone()),
                    None => Err(message["error"].clone()),
                };
            }
            self.take(message);
        }
    }

    /// Sends a request and gives its result.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.answer(id).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The message of the error with which a request is refused.
    #[track_caller]
    pub(crate) fn refused(&mut self, method: &str, params: &Value) -> String {
        let id = self.send(method, params);
        let error = self.answer(id).expect_err("it was not refused");
        error["message"].as_str().unwrap().to_owned()
    }

    /// A new session, by its id.
    #[track_caller]
    pub(crate) fn session(&mut self, desk: &Desk) -> String {
        let session = self.ask("session/new", &json!({"cwd": desk.folder(), "mcpServers": []}));
        session["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt, and gives the id of the request.
    pub(crate) fn begin(&mut self, session: &str, text: &str) -> u64 {
        self.send("session/prompt", &prompt(session, text))
    }

    /// The same, and waits for its end.
    #[track_caller]
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.ask("session/prompt", &prompt(session, text))
    }

    /// The updates of one kind.
    pub(crate) fn updates_of(&self, kind: &str) -> Vec<&Value> {
        let updates = self.updates.iter().map(|update| &update["update"]);
        updates.filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// All that was said, by the agents or by the user.
    pub(crate) fn said(&self, kind: &str) -> String {
        let chunks = self.updates_of(kind).into_iter();
        chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Hangs up, and waits for the end of the process.
    #[track_caller]
    pub(crate) fn hang_up(mut self) -> (Option<i32>, String) {
        self.input = None;
        self.wait()
    }

    /// Waits for the end of the process.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end"),
            }
        }
        (self.child.wait().unwrap().code(), self.errors.take().unwrap().join().unwrap())
    }
}

impl Drop for AcpClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}
