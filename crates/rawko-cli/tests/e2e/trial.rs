//! One run of the binary: the project it works in, the server it asks, and everything that came of it.

use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;

use rawko::journal::Journal;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::{ModelServer, Wire};

use crate::journal;
use crate::support::{Process, Said, World, check_clean, files_below};

/// A key that may reach the server and nothing else.
pub(crate) const CANARY: &str = "sk-canary-5b1e0c94";

/// A user who does not wait for a provider that is down, and whose arbiter is always a model.
fn impatient() -> Value {
    json!({"provider": {"retry": {"patience": 0}}, "arbiter": {"mode": "llm"}})
}

/// What the machine offers to confine commands.
#[derive(Debug, Clone, Copy)]
enum Machine {
    Full,
    /// No namespaces.
    Container,
    /// Namespaces for who has rights, as bubblewrap has.
    Bubblewrap,
    /// What a shell script left.
    After(&'static str),
}

/// A project, a server, and how the binary is started.
pub(crate) struct Trial {
    world: World,
    pub(crate) server: ModelServer,
    wire: Wire,
    with_key: bool,
    machine: Machine,
    user_config: Value,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
    output: &'static str,
}

impl Deref for Trial {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
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
        let world = World::new();
        std::fs::create_dir(world.outside().join("marks")).unwrap();
        Self {
            world,
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

    /// Where this was done first by a shell in the project, in name spaces of its own: it mounts something, or knows one
    /// user and one group alone.
    pub(crate) fn after(mut self, script: &'static str) -> Self {
        self.machine = Machine::After(script);
        self
    }

    /// Without a key in the environment.
    pub(crate) fn without_key(mut self) -> Self {
        self.with_key = false;
        self
    }

    /// A file of the project.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        self.write(path, text);
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

    /// Runs another command of rawko in the project: its exit status, standard output and standard error.
    pub(crate) fn rawko(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        Said::of(self.command(arguments).output().unwrap()).parts()
    }

    /// The binary with this trial's variables, without the address of a server.
    pub(crate) fn unattended_command(&self) -> Command {
        let mut command = self.command(&[]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts another command of rawko beside the run.
    pub(crate) fn begin(&self, arguments: &[&str]) -> Process {
        Process::start(&mut self.command(arguments))
    }

    fn provider(&self) -> &'static str {
        match self.wire {
            Wire::Claude => "claude",
            Wire::OpenAi => "openai",
            Wire::Responses => "responses",
        }
    }

    /// The binary, with the server's address.
    fn asking(&self) -> Command {
        let without = match self.machine {
            Machine::Full | Machine::After(_) => None,
            // Who has this right needs no namespace of users to make the others.
            Machine::Container => Some("setpriv --bounding-set -sys_admin"),
            Machine::Bubblewrap => Some(""),
        };
        let rawko = World::binary();
        let mut command = self.program(if without.is_some() { "unshare" } else { &rawko });
        if let Machine::After(script) = self.machine {
            command = self.program("unshare");
            let script = format!("{script} && exec \"$0\" \"$@\"");
            command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, &rawko]);
        }
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
        let mut command = self.asking();
        command.args(["resume", "--output", self.output]).args(arguments);
        Said::of(command.output().unwrap()).parts()
    }

    /// The binary, with the server's address, to be started by the test.
    pub(crate) fn asker(&self) -> Command {
        self.configure(&self.user_config);
        self.asking()
    }

    /// Starts another command that asks the server.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Process {
        Process::start(self.asker().args(arguments))
    }

    /// Runs another command that asks the server: its exit status, standard output and standard error.
    pub(crate) fn ask(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        Said::of(self.asker().args(arguments).output().unwrap()).parts()
    }

    /// The same where no file may be longer than a few hundred kilobytes, as if the disk were full.
    pub(crate) fn ask_with_short_files(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let asker = self.asker();
        let mut shell = self.program("sh");
        shell.args(["-c", r#"trap "" XFSZ; ulimit -f 600; exec "$0" "$@""#]).arg(asker.get_program());
        shell.envs(asker.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Said::of(shell.args(arguments).output().unwrap()).parts()
    }

    /// Starts `rawko run` with this task.
    pub(crate) fn start(self, task: &str) -> Running {
        self.start_with("run", task)
    }

    /// Starts another command with this task.
    pub(crate) fn start_with(self, name: &str, task: &str) -> Running {
        let mut command = self.asker();
        command.args([name, "--output", self.output]).args(&self.arguments);
        if !task.is_empty() {
            command.args(["--", task]);
        }
        let process = Process::start(&mut command);
        Running { trial: self, process }
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
    process: Process,
}

impl Deref for Running {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl Running {
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
    pub(crate) fn wait_for_event(&self, kind: &str) {
        let start = format!("{{\"type\":\"{kind}\"");
        let is_there =
            || self.out().split_inclusive('\n').any(|line| line.starts_with(&start) && line.ends_with('\n'));
        self.wait_until(kind, || self.is_silent() || is_there());
        assert!(is_there(), "ended without {kind}");
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
    pub(crate) fn end_unchecked(self) -> Ended {
        let (code, stdout, stderr) = self.process.end().parts();
        Ended { trial: self.trial, code, stdout, stderr }
    }
}

/// A run that is over.
pub(crate) struct Ended {
    pub(crate) trial: Trial,
    code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// What holds for every run: the key is in nothing that was written, no control character reaches the terminal,
    /// the stream of events has a beginning and one end, and the journal is whole and tells the same end.
    #[track_caller]
    fn check(&self) {
        check_clean(CANARY, &self.stdout, &self.stderr);
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
            assert!(!journal::is_there(&self.trial));
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
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
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
        journal::only(&self.trial)
    }

    /// The results of the calls of `tool`: what the model got, and whether as an error.
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
