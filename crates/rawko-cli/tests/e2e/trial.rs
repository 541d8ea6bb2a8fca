//! One run of the binary: the project it works in, the server it asks, and everything that came of it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rawko::journal::Journal;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::{ModelServer, Wire};

use crate::journal;
use crate::side::Side;

/// A key that may reach the server and nothing else.
pub(crate) const CANARY: &str = "sk-canary-5b1e0c94";

/// Longer than any run here takes on the slowest machine; a run that hangs fails its test.
const PATIENCE: Duration = Duration::from_secs(60);

/// A user who does not wait for a provider that is down, and whose arbiter is always a model.
fn impatient() -> Value {
    json!({"provider": {"retry": {"patience": 0}}, "arbiter": {"mode": "llm"}})
}

/// Names another place of the binary, for tests that are run by a user who cannot see this one.
pub(crate) const BINARY: &str = "RAWKO_E2E_BINARY";

/// The binary.
fn rawko() -> String {
    std::env::var(BINARY).unwrap_or_else(|_| env!("CARGO_BIN_EXE_rawko").to_owned())
}

/// What the machine offers to confine commands.
#[derive(Debug, Clone, Copy)]
enum Machine {
    Full,
    /// No namespaces.
    Container,
    /// Namespaces for who has rights, as bubblewrap has.
    Bubblewrap,
}

/// A project, a server, and how the binary is started.
pub(crate) struct Trial {
    folder: tempfile::TempDir,
    pub(crate) server: ModelServer,
    wire: Wire,
    with_key: bool,
    machine: Machine,
    user_config: Value,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
    output: &'static str,
}

impl Trial {
    /// An empty git repository, and a user who retries once and at once.
    pub(crate) fn new(server: ModelServer) -> Self {
        let trial = Self::without_git(server);
        let git = trial.git(&["init", "--quiet"]);
        assert!(git.is_empty(), "{git}");
        trial
    }

    /// The same in a folder that is no repository.
    pub(crate) fn without_git(server: ModelServer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["project", "home", "marks"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self {
            folder,
            server,
            wire: Wire::Claude,
            with_key: true,
            machine: Machine::Full,
            user_config: impatient(),
            environment: Vec::new(),
            arguments: Vec::new(),
            output: "stream-json",
        }
        .retry(json!({"maxAttempts": 2, "baseMs": 1, "capMs": 2_000}))
    }

    /// The same project and user with another server.
    pub(crate) fn served_by(mut self, server: ModelServer) -> Self {
        self.server = server;
        self
    }

    /// Speaks this wire format.
    pub(crate) fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        // The provider is configured by its name: settings made so far move to it.
        let retry = self.user_config.pointer("/provider/claude/retry").cloned();
        self.user_config = impatient();
        self.retry(retry.unwrap_or_default())
    }

    /// How often and how patiently the provider is asked again.
    pub(crate) fn retry(self, policy: Value) -> Self {
        let name = self.provider();
        self.user_config(&format!("/provider/{name}/retry"), policy)
    }

    /// A value of the user's own configuration, which is trusted.
    pub(crate) fn user_config(mut self, pointer: &str, value: Value) -> Self {
        let mut at = &mut self.user_config;
        for key in pointer.trim_start_matches('/').split('/') {
            at = &mut at[key];
        }
        *at = value;
        self
    }

    /// Commands may leave marks in a folder beside the project, where no checkpoint and no copy of the project has them.
    pub(crate) fn with_marks(self) -> Self {
        let marks = self.marks();
        self.user_config("/permissions/write", json!([".", marks]))
    }

    /// The folder for marks.
    pub(crate) fn marks(&self) -> PathBuf {
        self.outside().join("marks")
    }

    /// Where the kernel makes no user namespaces, as in a typical container.
    pub(crate) fn without_namespaces(mut self) -> Self {
        self.machine = Machine::Container;
        self
    }

    /// The same, where bubblewrap has the rights to make them.
    pub(crate) fn with_bubblewrap_alone(mut self) -> Self {
        self.machine = Machine::Bubblewrap;
        self
    }

    /// Without a key in the environment.
    pub(crate) fn without_key(mut self) -> Self {
        self.with_key = false;
        self
    }

    /// A file of the project.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let path = self.project().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    /// An agent of the project.
    pub(crate) fn agent(self, agent: &Value) -> Self {
        let path = format!(".rawko/agents/{}.yaml", agent["name"].as_str().unwrap());
        self.file(&path, &agent.to_string())
    }

    /// The project's configuration.
    pub(crate) fn config(self, config: &Value) -> Self {
        self.file(".rawko/config.yaml", &config.to_string())
    }

    /// A variable of the environment.
    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Further arguments.
    pub(crate) fn args(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    /// By a user who trusts the folder, for this run.
    pub(crate) fn trusted(self) -> Self {
        self.args(&["--yes"])
    }

    /// Another form of output.
    pub(crate) fn output(mut self, form: &'static str) -> Self {
        self.output = form;
        self
    }

    /// The project's folder.
    pub(crate) fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// The folder that holds project and home: outside of what agents may touch.
    pub(crate) fn outside(&self) -> &Path {
        self.folder.path()
    }

    /// Runs git in the project and gives what it says.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let identity =
            ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
        let mut git = self.command("git");
        let output = git.args(identity).args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs another command of rawko in the project: its exit status, standard output and standard error.
    pub(crate) fn rawko(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(&rawko()).args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// The binary with this trial's variables, not told of any server.
    pub(crate) fn asked_by_nobody(&self) -> Command {
        let mut command = self.command(&rawko());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts another command of rawko beside the run.
    pub(crate) fn begin(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(&rawko());
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn provider(&self) -> &'static str {
        match self.wire {
            Wire::Claude => "claude",
            Wire::OpenAi => "openai",
            Wire::Responses => "responses",
        }
    }

    fn command(&self, program: &str) -> Command {
        let home = self.folder.path().join("home");
        let mut command = Command::new(program);
        command
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_STATE_HOME", home.join("state"))
            .env("TMPDIR", self.folder.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null());
        command
    }

    /// The binary, told where the server is.
    fn asking(&self) -> Command {
        let without = match self.machine {
            Machine::Full => None,
            // Who has this right needs no namespace of users to make the others.
            Machine::Container => Some("setpriv --bounding-set -sys_admin"),
            Machine::Bubblewrap => Some(""),
        };
        let rawko = rawko();
        let mut command = self.command(if without.is_some() { "unshare" } else { &rawko });
        if let Some(without) = without {
            let forbid =
                format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {without} \"$0\" \"$@\"");
            command.args(["--user", "--map-root-user", "sh", "-c", &forbid, &rawko]);
        }
        let (url, key) = match self.wire {
            Wire::Claude => ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
            Wire::OpenAi | Wire::Responses => ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
        };
        command.env(url, self.server.url(self.wire)).env("RAWKO_PROVIDER", self.provider());
        if self.with_key {
            command.env(key, CANARY);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Takes the last session up again: exit status, standard output and standard error.
    pub(crate) fn resume(&self) -> (Option<i32>, String, String) {
        self.resume_with(&[])
    }

    /// The same with further arguments.
    pub(crate) fn resume_with(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output =
            self.asking().args(["resume", "--output", self.output]).args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// The binary, told where the server is, to be started by the test.
    pub(crate) fn asker(&self) -> Command {
        self.write_user_config();
        self.asking()
    }

    /// Starts another command that asks the server.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Side {
        let mut command = self.asker();
        command.args(arguments);
        Side::of(command)
    }

    /// Runs another command that asks the server: its exit status, standard output and standard error.
    pub(crate) fn ask(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.write_user_config();
        let output = self.asking().args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// The same where no file may be longer than a few hundred kilobytes, as if the disk were full.
    pub(crate) fn ask_with_short_files(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.write_user_config();
        let asking = self.asking();
        let mut shell = self.command("sh");
        shell.args(["-c", r#"trap "" XFSZ; ulimit -f 600; exec "$0" "$@""#]).arg(asking.get_program());
        for (name, value) in asking.get_envs() {
            if let Some(value) = value {
                shell.env(name, value);
            }
        }
        let output = shell.args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// Another command that asks the server, ready to be started where its output is looked at: at a terminal.
    pub(crate) fn prepared(&self, arguments: &[&str]) -> Command {
        self.write_user_config();
        let mut command = self.asking();
        command.args(arguments);
        command
    }

    fn write_user_config(&self) {
        let config = self.folder.path().join("home/config/rawko/config.yaml");
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        std::fs::write(&config, self.user_config.to_string()).unwrap();
    }

    /// Starts `rawko run` with this task.
    pub(crate) fn start(self, task: &str) -> Running {
        self.start_with("run", task)
    }

    /// Starts another command with this task.
    pub(crate) fn start_with(self, name: &str, task: &str) -> Running {
        self.write_user_config();
        let mut command = self.asking();
        command.args([name, "--output", self.output]).args(&self.arguments);
        if !task.is_empty() {
            command.args(["--", task]);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (lines, stdout) = channel();
        let pipe = BufReader::new(child.stdout.take().unwrap());
        let reading = std::thread::spawn(move || {
            for line in pipe.split(b'\n') {
                let _ = lines.send(line.unwrap());
            }
        });
        let pipe = BufReader::new(child.stderr.take().unwrap());
        let stderr = Arc::new(Mutex::new(String::new()));
        let complained = Arc::clone(&stderr);
        let complaining = std::thread::spawn(move || {
            for line in pipe.split(b'\n') {
                let line = String::from_utf8(line.unwrap()).unwrap();
                complained.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Running {
            trial: self,
            child: Ending(child),
            stdout,
            seen: Vec::new(),
            reading,
            stderr,
            complaining,
            deadline: Instant::now() + PATIENCE,
        }
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(self, task: &str) -> Ended {
        self.start(task).end()
    }
}

/// A run that has not ended yet.
pub(crate) struct Running {
    pub(crate) trial: Trial,
    child: Ending,
    stdout: Receiver<Vec<u8>>,
    seen: Vec<Vec<u8>>,
    reading: JoinHandle<()>,
    stderr: Arc<Mutex<String>>,
    complaining: JoinHandle<()>,
    deadline: Instant,
}

/// A process that does not outlive its test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Sends the binary a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child.0), signal).unwrap();
    }

    /// What it has said on standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until `is_so`.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        while !is_so() {
            assert!(Instant::now() < self.deadline, "never came: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until a file of the project is there and has a whole line, and gives it.
    #[track_caller]
    pub(crate) fn wait_for_line(&self, file: &str) -> String {
        let path = self.trial.project().join(file);
        let text = || std::fs::read_to_string(&path).unwrap_or_default();
        self.wait_until(file, || text().ends_with('\n'));
        text().trim().to_owned()
    }

    /// Waits until the server was asked for the `count`th time.
    #[track_caller]
    pub(crate) fn wait_for_request(&self, count: usize) {
        self.wait_until("the request", || self.trial.server.asked().len() >= count);
    }

    /// Waits until an event of this type was printed.
    #[track_caller]
    pub(crate) fn wait_for_event(&mut self, kind: &str) {
        let start = format!("{{\"type\":\"{kind}\"");
        while !self.seen.iter().any(|line| line.starts_with(start.as_bytes())) {
            let line = self.next_line();
            self.seen.push(line.unwrap_or_else(|| panic!("ended without {kind}")));
        }
    }

    /// Ends it with this signal.
    #[track_caller]
    pub(crate) fn end_after(self, signal: Signal) -> Ended {
        self.signal(signal);
        self.end_unchecked()
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn end(self) -> Ended {
        let ended = self.end_unchecked();
        ended.check();
        ended
    }

    /// Waits for the end of a run that was not given the time to end in order.
    #[track_caller]
    pub(crate) fn end_unchecked(mut self) -> Ended {
        while let Some(line) = self.next_line() {
            self.seen.push(line);
        }
        self.reading.join().unwrap();
        self.complaining.join().unwrap();
        let status = self.child.0.wait().unwrap();
        Ended {
            trial: self.trial,
            status,
            stdout: String::from_utf8(self.seen.join(&b'\n')).unwrap(),
            stderr: std::mem::take(&mut self.stderr.lock().unwrap()),
        }
    }

    #[track_caller]
    fn next_line(&mut self) -> Option<Vec<u8>> {
        match self.stdout.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.0.kill();
                let seen = self.seen.iter().map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>();
                panic!("the run hangs; it said so far:\n{}", seen.join("\n"));
            }
        }
    }
}

/// Sends a process a signal once it has said something on standard error: its exit status, and all that it said there.
pub(crate) fn signalled_after_first_line(mut child: Child, signal: Signal) -> (Option<i32>, String) {
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    lines.read_line(&mut said).unwrap();
    kill_process(Pid::from_child(&child), signal).unwrap();
    while lines.read_line(&mut said).unwrap() > 0 {}
    (child.wait().unwrap().code(), said)
}

/// A run that is over.
pub(crate) struct Ended {
    pub(crate) trial: Trial,
    status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// What holds for every run: the key is in nothing that was written, no control character reaches the terminal,
    /// the stream of events has a beginning and one end, and the journal is whole and tells the same end.
    #[track_caller]
    fn check(&self) {
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            assert!(!text.contains(CANARY), "the key is in {name}:\n{text}");
            let wild = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
            assert_eq!(wild, None, "a control character in {name}:\n{text:?}");
        }
        for path in files_below(self.trial.outside()) {
            let bytes = std::fs::read(&path).unwrap_or_default();
            let found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
            assert!(!found, "the key is in {}", path.display());
        }
        let events = self.events();
        let Some((first, last)) = events.first().zip(events.last()) else { return };
        assert_eq!(last["type"], "session_finished", "{}", self.stdout);
        let ends = events.iter().filter(|event| event["type"] == "session_finished").count();
        assert_eq!(ends, 1, "{}", self.stdout);
        for field in ["status", "summary", "iterations", "usage", "costUsd", "filesModified", "durationMs"] {
            assert!(last.get(field).is_some(), "{field} is missing in {last}");
        }
        if first["type"] == "error" {
            // It could not even begin.
            assert_eq!((events.len(), &last["status"]), (2, &json!("failed")), "{}", self.stdout);
            assert!(!journal::is_there(&self.trial.project()));
            return;
        }
        assert_eq!(first["type"], "session_started");
        let (folded, recorded) = journal::ends(&self.journal());
        assert_eq!(folded, recorded, "folding the journal's events leads to another end");
        let recorded = recorded.expect("the journal has an end");
        assert_eq!(last["status"], recorded.status.as_str());
        assert_eq!(last["summary"], recorded.summary);
    }

    /// The exit status.
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(
            self.status.code(),
            Some(code),
            "{}\nstdout:\n{}\nstderr:\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Standard error has all of these words, in whatever case.
    #[track_caller]
    pub(crate) fn says(&self, words: &[&str]) -> &Self {
        let text = self.stderr.to_lowercase();
        for word in words {
            assert!(text.contains(&word.to_lowercase()), "{word:?} is missing in:\n{}", self.stderr);
        }
        self
    }

    /// The events on standard output; none where something else is printed.
    pub(crate) fn events(&self) -> Vec<Value> {
        if self.trial.output != "stream-json" {
            return Vec::new();
        }
        self.stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    /// The events of one type.
    pub(crate) fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// The last event.
    #[track_caller]
    pub(crate) fn finish(&self) -> Value {
        self.events().pop().expect("a run has events")
    }

    /// The journal, verified.
    #[track_caller]
    pub(crate) fn journal(&self) -> Journal {
        journal::only(&self.trial.project())
    }

    /// The results of the calls of `tool`: what the model was told, and whether as an error.
    pub(crate) fn results(&self, tool: &str) -> Vec<(String, bool)> {
        let results = self.events_of("tool_finished").into_iter().filter(|event| event["tool"] == tool);
        results
            .map(|event| {
                (
                    event["outcome"]["content"].as_str().unwrap().to_owned(),
                    event["outcome"]["isError"] == true,
                )
            })
            .collect()
    }
}

/// All regular files below `folder`; links are not followed.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files
}
