//! The commands of fleets with the real binary, on a real Temporal server. `crates/rawko-temporal/tests/fleet` has what goes
//! wrong; this is what a user does.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use support::{Process, Said, World};
use testkit::{Answer, Asked, ModelServer, TemporalServer, TlsPort, Who};

/// A user at a terminal: a home, a project with an `origin`, a model server and an engine.
struct Desk {
    engine: TemporalServer,
    _models: ModelServer,
    world: World,
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
        let world = World::new();
        let engine = TemporalServer::start(world.outside(), &[])?;
        let models = ModelServer::start(model);
        world.configure(&json!({
            "provider": {"default": "claude", "claude": {"baseUrl": models.claude_url()}},
            "arbiter": {"mode": "llm"},
            "fleet": {"address": engine.address()},
        }));
        let desk = Self { engine, _models: models, world };
        desk.git(&["init", "--quiet", "--initial-branch=main"]);
        desk.world.write("README.md", "A project.\n");
        desk.git(&["add", "."]);
        desk.git(&["commit", "--quiet", "-m", "begin"]);
        let origin = desk.path("origin.git");
        desk.git(&["clone", "--quiet", "--bare", ".", origin.to_str().unwrap()]);
        desk.git(&["remote", "add", "origin", origin.to_str().unwrap()]);
        desk.git(&["fetch", "--quiet", "origin"]);
        Some(desk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.outside().join(name)
    }

    fn git(&self, arguments: &[&str]) -> String {
        self.world.git(arguments)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.command(arguments);
        command.env("ANTHROPIC_API_KEY", "sk-test");
        command
    }

    fn rawko(&self, arguments: &[&str]) -> Said {
        Said::of(self.command(arguments).output().unwrap())
    }

    fn worker(&self) -> Process {
        worker(&mut self.command(&["worker", "--yes"]))
    }
}

/// A worker that has said that it is ready.
#[track_caller]
fn worker(command: &mut Command) -> Process {
    let worker = Process::start(command);
    worker.wait_until("the worker is ready", || worker.out().contains('\n'));
    worker
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
    desk.rawko(&["submit", "--id", "first", "--wait", "Write one.txt."]).ends(0).says(&["first"]);
    // A second time it is the same task.
    let again = desk.rawko(&["submit", "--id", "first", "--json", "Write one.txt."]).ends(0).json();
    assert_eq!(again[0]["isNew"], json!(false));
    desk.rawko(&["submit", "--id", "first", "Write two.txt."]).ends(2);

    // From here on no worker runs.
    drop(worker);
    desk.rawko(&["fleet", "list"]).ends(0).says(&["first", "claimed"]);
    let shown = desk.rawko(&["fleet", "show", "first", "--json"]).ends(0).json();
    assert_eq!((&shown["outcome"]["status"], &shown["branch"]), (&json!("claimed"), &json!("rawko/first")));
    desk.rawko(&["fleet", "watch", "first"]).ends(0);

    desk.rawko(&["fleet", "export", "first"]).ends(0);
    let session = session_of(&desk.path("project"));
    assert_eq!(shown["session"], json!(session));
    desk.rawko(&["explain", &session]).ends(0).says(&["developer"]);
    desk.rawko(&["replay", &session]).ends(0);
    desk.rawko(&["sessions", "export", "--format", "json", &session]).ends(0).says(&["one.txt"]);
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
    let distrusts = worker(&mut distrusts);
    desk.rawko(&["submit", "--id", "claims", "Write one.txt."]).ends(0);
    distrusts.wait_to_hear(&["warning: task claims is handed back", "rawko worker --yes"]);
    until("show says why", || {
        let shown = desk.rawko(&["fleet", "show", "claims"]).ends(0).out;
        shown.contains("waiting for a worker") && shown.contains("handed back by the worker")
    });
    let _trusts = desk.worker();
    desk.rawko(&["submit", "--id", "claims", "--wait", "Write one.txt."]).ends(0).says(&["verified"]);
}

#[test]
fn a_task_without_a_worker_waits_and_is_cancelled() {
    let Some(desk) = Desk::new() else { return };
    desk.rawko(&["submit", "--id", "waits", "Write one.txt."]).ends(0);
    desk.rawko(&["fleet", "list", "--json"]).ends(0).says(&["waits", "waiting"]);
    let cancel = Process::start(&mut desk.command(&["fleet", "cancel", "waits"]));
    // The engine ends it once a worker has looked at it.
    let _worker = desk.worker();
    cancel.end();
    let shown = desk.rawko(&["fleet", "show", "waits", "--json"]).ends(0).json();
    assert_eq!(shown["engine"], json!("cancelled"), "{shown}");
}

#[test]
fn a_session_that_was_begun_here_ends_in_the_fleet() {
    let Some(desk) = Desk::new() else { return };
    let run = Process::start(&mut desk.command(&["run", "--yes", "Write one.txt."]));
    assert!(run.kill_when(|| desk.path("project/one.txt").exists()));
    let _worker = desk.worker();
    desk.rawko(&["submit", "--session", "last", "--id", "moved", "--wait"])
        .ends(0)
        .says(&["moved", "claimed"]);
    // A second time it is the same task.
    let again = desk.rawko(&["submit", "--session", "last", "--id", "moved", "--json"]).ends(0).json();
    assert_eq!(again[0]["isNew"], json!(false));
    desk.git(&["fetch", "--quiet", "origin"]);
    assert_eq!(desk.git(&["show", "origin/rawko/moved:one.txt"]), "1\n");
    let shown = desk.rawko(&["fleet", "show", "moved", "--json"]).ends(0).json();
    assert_eq!(shown["session"], json!(session_of(&desk.path("project"))));
}

#[test]
fn a_session_that_the_fleet_began_ends_here() {
    let Some(desk) = Desk::new() else { return };
    let worker = desk.worker();
    desk.rawko(&["submit", "--id", "back", "Write one.txt."]).ends(0);
    until("the first step is done", || {
        let branch = desk.path("origin.git/refs/heads/rawko/back");
        branch.exists()
    });
    desk.rawko(&["fleet", "export", "back", "--release"]).ends(0);
    drop(worker);
    desk.rawko(&["fleet", "list"]).ends(0).says(&["back", "released"]);
    desk.git(&["switch", "--quiet", "rawko/back"]);
    assert_eq!(std::fs::read_to_string(desk.path("project/one.txt")).unwrap(), "1\n");
    let resumed = desk.rawko(&["resume", "--yes", "--output", "json"]).ends(0).json();
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
    let first = Process::start(&mut up());
    first.wait_until("a line", || first.out().contains('\n'));
    let second = Said::of(up().output().unwrap());
    first.signal(rustix::process::Signal::TERM);
    first.end();
    second.ends(2).complains(&["another server has its data in"]);
}

#[test]
fn a_server_with_tls_takes_those_whose_certificate_it_knows() {
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
    let _worker = worker(&mut with(&["worker", "--yes"], true, true));
    let submit = ["submit", "--id", "secret", "--wait", "Write one.txt."];
    Said::of(with(&submit, true, true).output().unwrap()).ends(0).says(&["secret", "claimed"]);
    for (is_known, is_trusted) in [(false, true), (true, false)] {
        let refused = Said::of(with(&["fleet", "list"], is_known, is_trusted).output().unwrap());
        assert_ne!(refused.code, Some(0));
        refused.complains(&["no Temporal server answers"]);
    }
}
