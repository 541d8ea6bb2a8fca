//! A project, the binary in it, and what was measured.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::answers;
use crate::floor::{self, Work};
use crate::server::{Log, Server};

/// What every turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Reads a file of one to two kilobytes.
    Read,
    /// Runs `true` in a shell.
    Bash,
}

impl Mode {
    /// Its name on the command line and in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Bash => "bash",
        }
    }

    fn tool(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Bash => "Bash",
        }
    }

    fn call(self, turn: usize) -> Vec<u8> {
        // Work that changes nothing is stopped in the end, and so are changes that settle nothing.
        if turn % SETTLE_EVERY == SETTLE_EVERY - 1 {
            let settled = turn / SETTLE_EVERY;
            let status = |step: usize| if step < settled { "complete" } else { "pending" };
            let steps = (0..STEPS).map(|step| json!({"description": word(step), "status": status(step)}));
            return answers::call(turn, "UpdatePlan", &json!({"steps": steps.collect::<Vec<_>>()}));
        }
        if turn % CHANGE_EVERY == CHANGE_EVERY - 1 {
            let input = json!({"file_path": format!("src/new{turn}.txt"), "content": word(turn)});
            return answers::call(turn, "Write", &input);
        }
        let input = match self {
            // Each turn something new: what comes again and again the loop breaker would stop.
            Self::Read => json!({"file_path": file(turn), "limit": 1_000 + turn}),
            Self::Bash => json!({"command": format!("true {turn}")}),
        };
        answers::call(turn, self.tool(), &input)
    }
}

/// One measured run.
pub(crate) struct Measured {
    pub(crate) mode: Mode,
    pub(crate) log: Log,
    /// The same bytes, sent by a minimal client.
    pub(crate) floor: Log,
    /// The same, with as many bytes appended to a file as durably, and with a shell where there is one.
    pub(crate) working_floor: Log,
    pub(crate) journal_bytes: u64,
    pub(crate) total: Duration,
}

const FILES: usize = 7;
/// One of so many turns writes a file. Medians do not show it.
const CHANGE_EVERY: usize = 25;
/// One of so many turns settles a step of the plan, which has as many steps as a plan may have.
const SETTLE_EVERY: usize = 120;
const STEPS: usize = 50;

fn file(turn: usize) -> String {
    format!("src/file{}.txt", turn % FILES)
}

/// Figures alone make no new text.
fn word(turn: usize) -> String {
    turn.to_string().chars().map(|digit| char::from(b'a' + digit as u8 - b'0')).collect()
}

/// A run of so many turns, and its floors.
pub(crate) fn run(mode: Mode, turns: usize) -> Measured {
    let mut prepared: Vec<Vec<u8>> = (0..turns).map(|turn| mode.call(turn)).collect();
    prepared.extend([answers::report(turns), answers::complete(turns + 1)]);
    let server = Server::start(prepared.clone());
    let folder = project(mode);
    let begun = Instant::now();
    let mut child = rawko(folder.path(), &server).spawn().expect("the binary starts");
    server.watch(child.id());
    let status = child.wait().unwrap();
    let total = begun.elapsed();
    assert!(status.success(), "the run ended with {status}");
    let log = server.take_log();
    assert_eq!(log.requests.len(), turns + 2, "every answer is asked for once");
    let journal_bytes = journal_bytes(folder.path());
    // The arbiter's question at the end belongs to another conversation.
    let lengths: Vec<usize> = log.requests.iter().take(turns + 1).map(|request| request.bytes).collect();
    let floor = |work| floor::run(prepared.clone(), &lengths, &log.longest, work);
    // The answer of the model and that of the tool are each made durable.
    let appends = 2;
    let bytes = usize::try_from(journal_bytes).unwrap() / (turns.max(1) * appends);
    let work = Work { appends, bytes, shell: mode == Mode::Bash };
    let (plain, working) = (floor(None), floor(Some(work)));
    Measured { mode, floor: plain, working_floor: working, log, journal_bytes, total }
}

/// From the start of the process to the arrival of its first request, and to its end after the shortest of runs.
pub(crate) fn start() -> (Duration, Duration) {
    let server = Server::start(vec![answers::report(0), answers::complete(1)]);
    let folder = project(Mode::Read);
    let begun = Instant::now();
    let status = rawko(folder.path(), &server).status().expect("the binary starts");
    let total = begun.elapsed();
    assert!(status.success(), "the run ended with {status}");
    let first = server.take_log().requests[0].arrived;
    (first.duration_since(begun), total)
}

fn project(mode: Mode) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    std::fs::create_dir_all(project.join("src")).unwrap();
    std::fs::create_dir_all(project.join(".rawko/agents")).unwrap();
    for number in 0..FILES {
        let line = |n: usize| format!("line {n} of file {number}, about as long as lines of code are\n");
        let text: String = (1..=24).map(line).collect();
        std::fs::write(project.join(file(number)), text).unwrap();
    }
    let agent = json!({
        "name": "looker",
        "systemPrompt": "You look at one file after the other. ".repeat(50),
        "tools": {"allowed": [mode.tool(), "Write"]},
        "limits": {"maxIterations": 1_000_000},
    });
    std::fs::write(project.join(".rawko/agents/looker.yaml"), agent.to_string()).unwrap();
    folder
}

fn rawko(folder: &Path, server: &Server) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rawko"));
    command
        .current_dir(folder.join("project"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("ANTHROPIC_BASE_URL", format!("http://{}", server.address()))
        .env("ANTHROPIC_API_KEY", "bench")
        .args(["run", "--yes", "--agent", "looker", "--output", "stream-json", "--", "Look at everything."])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn journal_bytes(folder: &Path) -> u64 {
    let sessions = std::fs::read_dir(folder.join("project/.rawko/sessions")).unwrap().flatten();
    let journals = sessions.filter_map(|session| session.path().join("journal.jsonl").metadata().ok());
    journals.map(|journal| journal.len()).sum()
}
