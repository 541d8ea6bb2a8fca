//! The commands of fleets with the real binary, on a real Temporal server. `crates/rawko-temporal/tests/fleet` has what goes
//! wrong; this is what a user does.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Answer, Asked, ModelServer, TemporalServer, TlsPort, Who};

/// A user at a terminal: a home, a project with an `origin`, a model server and an engine.
struct Desk {
    engine: TemporalServer,
    _models: ModelServer,
    folder: tempfile::TempDir,
}

/// What a command printed, and how it ended.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ended {
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stdout.contains(part), "{part:?} is missing in:\n{}\n{}", self.stdout, self.stderr);
        }
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

fn model(asked: &Asked) -> Answer {
    let developer = json!({"decision": "SELECT_MODE", "mode": "developer", "reason": "it is next"});
    let complete = json!({"decision": "COMPLETE", "summary": "all done", "reason": "one.txt is there"});
    match asked.who() {
        Who::Select => Answer::decision(developer),
        Who::Evaluate => Answer::decision(complete),
        Who::Agent => {
            match asked.messages().iter().filter(|message| message["role"] == "assistant").count() {
                0 => Answer::call("Write", &json!({"file_path": "one.txt", "content": "1\n"})),
                // Long enough to end the run in the middle of it.
                1 => Answer::call("Bash", &json!({"command": "sleep 2; cat one.txt"})),
                _ => Answer::call("Report", &json!({"outcome": "success", "summary": "wrote one.txt"})),
            }
        }
    }
}

impl Desk {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let engine = TemporalServer::start(folder.path(), &[])?;
        let models = ModelServer::start(model);
        let desk = Self { engine, _models: models, folder };
        for name in ["home/.config/rawko", "project"] {
            std::fs::create_dir_all(desk.path(name)).unwrap();
        }
        let address = desk._models.claude_url();
        let config = json!({
            "provider": {"default": "claude", "claude": {"baseUrl": address}},
            "arbiter": {"mode": "llm"},
            "fleet": {"address": desk.engine.address()},
        });
        std::fs::write(desk.path("home/.config/rawko/config.yaml"), config.to_string()).unwrap();
        desk.git(&["init", "--quiet", "--initial-branch=main"]);
        std::fs::write(desk.path("project/README.md"), "A project.\n").unwrap();
        desk.git(&["add", "."]);
        desk.git(&["commit", "--quiet", "-m", "begin"]);
        let origin = desk.path("origin.git");
        desk.git(&["clone", "--quiet", "--bare", ".", origin.to_str().unwrap()]);
        desk.git(&["remote", "add", "origin", origin.to_str().unwrap()]);
        desk.git(&["fetch", "--quiet", "origin"]);
        Some(desk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Me", "-c", "user.email=me@example.com"])
            .args(arguments)
            .current_dir(self.path("project"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rawko"));
        command
            .args(arguments)
            .current_dir(self.path("project"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("ANTHROPIC_API_KEY", "sk-test")
            .stdin(Stdio::null());
        command
    }

    fn rawko(&self, arguments: &[&str]) -> Ended {
        ended(&mut self.command(arguments))
    }

    /// A worker that has said that it is ready.
    fn worker(&self) -> Worker {
        Worker::start(&mut self.command(&["worker", "--yes"]))
    }
}

fn ended(command: &mut Command) -> Ended {
    let output = command.output().unwrap();
    Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

struct Worker(Child);

impl Worker {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the worker ended");
        Self(child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something is so.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn session_of(folder: &Path) -> String {
    let sessions = std::fs::read_dir(folder.join(".rawko/sessions")).unwrap();
    let names = sessions.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("20")).max().unwrap()
}

#[test]
fn a_task_is_submitted_watched_exported_and_explained() {
    let Some(desk) = Desk::new() else { return };
    let worker = desk.worker();
    desk.rawko(&["submit", "--id", "first", "--wait", "Write one.txt."]).exits(0).says(&["first"]);
    // A second time it is the same task.
    let again = desk.rawko(&["submit", "--id", "first", "--json", "Write one.txt."]).exits(0).json();
    assert_eq!(again[0]["isNew"], json!(false));
    desk.rawko(&["submit", "--id", "first", "Write two.txt."]).exits(2);

    // From here on nobody works.
    drop(worker);
    desk.rawko(&["fleet", "list"]).exits(0).says(&["first", "claimed"]);
    let shown = desk.rawko(&["fleet", "show", "first", "--json"]).exits(0).json();
    assert_eq!((&shown["outcome"]["status"], &shown["branch"]), (&json!("claimed"), &json!("rawko/first")));
    desk.rawko(&["fleet", "watch", "first"]).exits(0);

    desk.rawko(&["fleet", "export", "first"]).exits(0);
    let session = session_of(&desk.path("project"));
    assert_eq!(shown["session"], json!(session));
    desk.rawko(&["explain", &session]).exits(0).says(&["developer"]);
    desk.rawko(&["replay", &session]).exits(0);
    desk.rawko(&["sessions", "export", "--format", "json", &session]).exits(0).says(&["one.txt"]);
    desk.rawko(&["fleet", "cancel", "first"]);
    assert_eq!(desk.git(&["show", "origin/rawko/first:one.txt"]), "1\n", "export fetches the branch");
}

#[test]
fn a_worker_that_does_not_trust_says_so_and_leaves_the_task_to_another_one() {
    let Some(desk) = Desk::new() else { return };
    std::fs::create_dir(desk.path("project/.rawko")).unwrap();
    std::fs::write(desk.path("project/.rawko/config.yaml"), "verify: [\"test -e one.txt\"]\n").unwrap();
    desk.git(&["add", "."]);
    desk.git(&["commit", "--quiet", "-m", "verify"]);
    desk.git(&["push", "--quiet", "origin", "HEAD:main"]);
    desk.git(&["fetch", "--quiet", "origin"]);
    let mut distrusts = desk.command(&["worker", "--dir", desk.path("distrusts").to_str().unwrap()]);
    let mut distrusts = Worker::start(distrusts.stderr(Stdio::piped()));
    desk.rawko(&["submit", "--id", "claims", "Write one.txt."]).exits(0);
    let mut said = String::new();
    BufReader::new(distrusts.0.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(
        said.contains("warning: task claims is handed back") && said.contains("rawko worker --yes"),
        "{said}"
    );
    until("show says why", || {
        let shown = desk.rawko(&["fleet", "show", "claims"]).exits(0).stdout;
        shown.contains("waiting for a worker") && shown.contains("handed back by the worker")
    });
    let _trusts = desk.worker();
    desk.rawko(&["submit", "--id", "claims", "--wait", "Write one.txt."]).exits(0).says(&["verified"]);
}

#[test]
fn a_task_without_a_worker_waits_and_is_cancelled() {
    let Some(desk) = Desk::new() else { return };
    desk.rawko(&["submit", "--id", "waits", "Write one.txt."]).exits(0);
    desk.rawko(&["fleet", "list", "--json"]).exits(0).says(&["waits", "waiting"]);
    let cancel = desk.command(&["fleet", "cancel", "waits"]).spawn().unwrap();
    // The engine ends it once a worker has looked at it.
    let _worker = desk.worker();
    let mut cancel = cancel;
    cancel.wait().unwrap();
    let shown = desk.rawko(&["fleet", "show", "waits", "--json"]).exits(0).json();
    assert_eq!(shown["engine"], json!("cancelled"), "{shown}");
}

#[test]
fn a_session_that_was_begun_here_ends_in_the_fleet() {
    let Some(desk) = Desk::new() else { return };
    let mut run = desk.command(&["run", "--yes", "Write one.txt."]).stderr(Stdio::null()).spawn().unwrap();
    until("the first step is done", || desk.path("project/one.txt").exists());
    run.kill().unwrap();
    run.wait().unwrap();
    let _worker = desk.worker();
    desk.rawko(&["submit", "--session", "last", "--id", "moved", "--wait"])
        .exits(0)
        .says(&["moved", "claimed"]);
    // A second time it is the same task.
    let again = desk.rawko(&["submit", "--session", "last", "--id", "moved", "--json"]).exits(0).json();
    assert_eq!(again[0]["isNew"], json!(false));
    desk.git(&["fetch", "--quiet", "origin"]);
    assert_eq!(desk.git(&["show", "origin/rawko/moved:one.txt"]), "1\n");
    let shown = desk.rawko(&["fleet", "show", "moved", "--json"]).exits(0).json();
    assert_eq!(shown["session"], json!(session_of(&desk.path("project"))));
}

#[test]
fn a_session_that_the_fleet_began_ends_here() {
    let Some(desk) = Desk::new() else { return };
    let worker = desk.worker();
    desk.rawko(&["submit", "--id", "back", "Write one.txt."]).exits(0);
    until("the first step is done", || {
        let branch = desk.path("origin.git/refs/heads/rawko/back");
        branch.exists()
    });
    desk.rawko(&["fleet", "export", "back", "--release"]).exits(0);
    drop(worker);
    desk.rawko(&["fleet", "list"]).exits(0).says(&["back", "released"]);
    desk.git(&["switch", "--quiet", "rawko/back"]);
    assert_eq!(std::fs::read_to_string(desk.path("project/one.txt")).unwrap(), "1\n");
    let resumed = desk.rawko(&["resume", "--yes", "--output", "json"]).exits(0).json();
    assert_eq!(resumed["status"], json!("claimed"), "{resumed}");
    assert_eq!(resumed["session"], json!(session_of(&desk.path("project"))));
}

#[test]
fn two_servers_do_not_share_their_data() {
    let Some(desk) = Desk::new() else { return };
    let temporal = desk.engine.program().parent().unwrap();
    let path = format!("{}:{}", temporal.display(), std::env::var("PATH").unwrap());
    let port = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port().to_string()
    };
    let up = || {
        let mut up =
            desk.command(&["fleet", "up", "--dir", desk.path("data").to_str().unwrap(), "--port", &port()]);
        up.env("PATH", &path);
        up
    };
    let mut first = up().stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(first.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let second = up().output().unwrap();
    let said = String::from_utf8(second.stderr).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&first), rustix::process::Signal::TERM)
        .unwrap();
    first.wait().unwrap();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains("another server has its data in"), "{said}");
}

#[test]
fn a_server_behind_tls_takes_those_whose_certificate_it_knows() {
    let Some(desk) = Desk::new() else { return };
    let port = TlsPort::for_known_clients(desk.engine.address().parse().unwrap(), "localhost");
    let (certificate, key) = port.client.clone();
    let with = |arguments: &[&str], is_known: bool, is_trusted: bool| {
        let mut command = desk.command(arguments);
        command.env("TEMPORAL_ADDRESS", port.url()).env("TEMPORAL_TLS", "true");
        if is_trusted {
            command.env("TEMPORAL_TLS_SERVER_CA_CERT_DATA", &port.authority);
        }
        if is_known {
            command
                .env("TEMPORAL_TLS_CLIENT_CERT_DATA", &certificate)
                .env("TEMPORAL_TLS_CLIENT_KEY_DATA", &key);
        }
        command
    };
    let _worker = Worker::start(&mut with(&["worker", "--yes"], true, true));
    let submit = ["submit", "--id", "secret", "--wait", "Write one.txt."];
    ended(&mut with(&submit, true, true)).exits(0).says(&["secret", "claimed"]);
    for (is_known, is_trusted) in [(false, true), (true, false)] {
        let refused = ended(&mut with(&["fleet", "list"], is_known, is_trusted));
        assert_ne!(refused.code, 0);
        assert!(refused.stderr.contains("no Temporal server answers"), "{}", refused.stderr);
    }
}
