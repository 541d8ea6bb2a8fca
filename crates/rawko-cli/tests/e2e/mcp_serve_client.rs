//! A client of rawko's own MCP server: JSON lines to the real binary.

use std::io::Write as _;
use std::process::{ChildStdin, Command};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Process, Said};
use crate::trial::Trial;

/// What a client says that speaks the last revision with a handshake.
pub(crate) const HANDSHAKE: &str = "2025-11-25";

/// A server that was started as clients start it.
pub(crate) struct Served {
    pub(crate) trial: Trial,
    process: Process,
    input: Option<ChildStdin>,
    asked: u64,
}

impl Served {
    /// Starts it, and shakes hands.
    #[track_caller]
    pub(crate) fn start(trial: Trial) -> Self {
        Self::start_with(trial, &[], &json!({}))
    }

    /// The same with further arguments, and a client that can do this.
    #[track_caller]
    pub(crate) fn start_with(trial: Trial, arguments: &[&str], capabilities: &Value) -> Self {
        let mut command = trial.asker();
        command.args(["mcp", "serve"]).args(arguments);
        let mut served = Self::silent(trial, &mut command);
        let hello = json!({
            "protocolVersion": HANDSHAKE,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = served.ask("initialize", &hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "rawko", "{answer}");
        served.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        served
    }

    /// Starts it, and says nothing.
    #[track_caller]
    pub(crate) fn silent(trial: Trial, command: &mut Command) -> Self {
        let (process, input) = Process::start_with_input(command);
        Self { trial, process, input: Some(input), asked: 0 }
    }

    /// Says one line.
    #[track_caller]
    pub(crate) fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Sends a request, and gives its number.
    #[track_caller]
    pub(crate) fn send(&mut self, method: &str, parameters: &Value) -> u64 {
        self.asked += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters});
        self.say(&request.to_string());
        self.asked
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub(crate) fn answer(&self, id: u64) -> Value {
        let answered = || self.messages().into_iter().find(|message| message["id"] == id);
        self.process.wait_until(&format!("the answer to request {id}"), || {
            answered().is_some() || self.process.is_silent()
        });
        answered().unwrap_or_else(|| panic!("it ended: {}{}", self.process.out(), self.process.err()))
    }

    /// Sends a request, and waits for its answer.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.send(method, parameters);
        self.answer(id)
    }

    /// Calls a tool: what it says to a program, and its words.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> (Value, String) {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        assert_eq!(result["isError"], false, "{tool} {arguments}: {answer}");
        (result["structuredContent"].clone(), words(result))
    }

    /// Calls a tool that does not do it: its words.
    #[track_caller]
    pub(crate) fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let answer = self.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        assert_eq!(answer["result"]["isError"], true, "{tool} {arguments}: {answer}");
        words(&answer["result"])
    }

    /// Starts a task, and gives its session.
    #[track_caller]
    pub(crate) fn begin(&mut self, task: &str) -> String {
        let (started, _) = self.call("start", &json!({"task": task}));
        started["session"].as_str().unwrap().to_owned()
    }

    /// Watches the session until `is_so` of an answer, and gives that and all lines.
    #[track_caller]
    pub(crate) fn watch_until(
        &mut self,
        session: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> (Value, Vec<String>) {
        let mut arguments = json!({"session": session, "waitSeconds": 20});
        let mut lines = Vec::new();
        for _ in 0..200 {
            let (seen, _) = self.call("watch", &arguments);
            let events = seen["events"].as_array().unwrap();
            lines.extend(events.iter().map(|line| line.as_str().unwrap().to_owned()));
            if is_so(&seen) {
                return (seen, lines);
            }
            arguments["after"] = seen["cursor"].clone();
        }
        panic!("it never came: {lines:?}");
    }

    /// Waits until `is_so`.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Trial) -> bool) {
        self.process.wait_until(what, || is_so(&self.trial));
    }

    /// Everything that it has said.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let out = self.process.out();
        let whole = out.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Goes away: closes its input, as clients do. What the server said, and the trial.
    #[track_caller]
    pub(crate) fn leave(mut self) -> (Said, Trial) {
        self.input = None;
        let said = self.process.end();
        for line in said.out.lines() {
            let message: Value = serde_json::from_str(line).expect("only the protocol is on standard output");
            assert_eq!(message["jsonrpc"], "2.0");
        }
        crate::support::check_clean(crate::trial::CANARY, &said.out, &said.err);
        (said, self.trial)
    }
}

/// The words of a result.
fn words(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}
