//! The Copilot CLI as a child process.
//!
//! Owns the process, its private folders and the SDK's connection to it. All of them end together.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use github_copilot_sdk::{Client, ErrorKind};
use rawko_core::error::{ErrorCode, ErrorInfo};
use rawko_core::text::truncate;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use crate::failure;
use crate::settings::CopilotSettings;

/// How long the CLI may take to start. Its first start unpacks 240 MB.
const START: Duration = Duration::from_secs(120);

/// The variable that the token is given in, as the SDK itself does.
const TOKEN: &str = "COPILOT_SDK_AUTH_TOKEN";

/// Bytes of the CLI's complaints that an error quotes.
const COMPLAINTS: usize = 2_000;

/// A running CLI.
pub(crate) struct Cli {
    /// The SDK's connection.
    pub(crate) client: Client,
    /// The empty folder that it works in.
    pub(crate) work: PathBuf,
    complaints: Arc<Mutex<String>>,
    /// Whether the connection broke.
    is_gone: AtomicBool,
    // Dropped in this order: the process ends before its folder is removed.
    _process: Process,
    _folder: TempDir,
}

impl Cli {
    /// Starts the CLI and waits until it answers.
    ///
    /// # Errors
    /// `config_error` if it cannot be started or speaks another protocol, `timeout` if it does not answer.
    pub(crate) async fn start(settings: &CopilotSettings) -> Result<Self, ErrorInfo> {
        let program = settings.program()?;
        let wrong = |what: &str, error: &dyn std::fmt::Display| {
            ErrorInfo::new(ErrorCode::ConfigError, format!("{what} {}: {error}", program.display()))
        };
        let folder = private_folder(settings).map_err(|error| wrong("no private folder for", &error))?;
        let work = folder.path().join("work");
        let mut process = Process::spawn(settings, &program, folder.path())
            .map_err(|error| wrong("cannot start the Copilot CLI", &error))?;
        let complaints = Arc::new(Mutex::new(String::new()));
        let listening = process.child.stderr.take().map(|mut errors| {
            let kept = Arc::clone(&complaints);
            tokio::spawn(async move {
                let mut chunk = [0; 1024];
                while let Ok(read @ 1..) = errors.read(&mut chunk).await {
                    let text = String::from_utf8_lossy(&chunk[..read]);
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    if kept.len() < COMPLAINTS {
                        kept.push_str(&text);
                    }
                }
            })
        });
        let (Some(input), Some(output)) = (process.child.stdin.take(), process.child.stdout.take()) else {
            return Err(wrong("no pipes to the Copilot CLI", &"they are taken"));
        };
        let client = Client::from_streams(output, input, work.clone())
            .map_err(|error| wrong("no connection to the Copilot CLI", &error))?;
        let is_gone = AtomicBool::new(false);
        let cli = Self { client, work, complaints, is_gone, _process: process, _folder: folder };
        match tokio::time::timeout(START, cli.client.verify_protocol_version()).await {
            Ok(Ok(())) => Ok(cli),
            Ok(Err(error)) => {
                // What it says before it ends is the reason.
                if let Some(listening) = listening {
                    let _ = tokio::time::timeout(Duration::from_secs(1), listening).await;
                }
                Err(wrong("this is not a Copilot CLI that serves:", &cli.failed(&error)))
            }
            Err(_) => Err(ErrorInfo::new(
                ErrorCode::Timeout,
                format!("the Copilot CLI {} did not answer for {} s", program.display(), START.as_secs()),
            )),
        }
    }

    /// Whether requests may reach it.
    pub(crate) fn is_alive(&self) -> bool {
        !self.is_gone.load(Ordering::Relaxed)
    }

    /// The error for a request that failed: because the CLI refuses it, or because it is gone.
    pub(crate) fn failed(&self, error: &github_copilot_sdk::Error) -> ErrorInfo {
        match error.kind() {
            ErrorKind::Protocol(_) | ErrorKind::Io => self.gone(&error.to_string()),
            _ => failure::of_words(&format!("the Copilot CLI refuses: {error}")),
        }
    }

    /// The error for a CLI whose connection broke, with what it said last.
    pub(crate) fn gone(&self, why: &str) -> ErrorInfo {
        self.is_gone.store(true, Ordering::Relaxed);
        let complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        let words = complaints.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = if words.is_empty() { why.to_owned() } else { truncate(&words, COMPLAINTS) };
        ErrorInfo::new(ErrorCode::NetworkError, format!("the Copilot CLI has ended: {said}"))
    }
}

/// A process and all that it started, which end with this value.
struct Process {
    child: Child,
    leader: Option<Pid>,
}

impl Process {
    fn spawn(settings: &CopilotSettings, program: &Path, folder: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        command
            .args(["--server", "--stdio", "--no-auto-update", "--log-level", "none"])
            .env_clear()
            .envs(settings.environment.iter().cloned())
            .env("COPILOT_HOME", folder.join("home"))
            .env("TMPDIR", folder.join("tmp"))
            .current_dir(folder.join("work"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C in the terminal is rawko's to handle, and the whole group is ended at once.
            .process_group(0)
            .kill_on_drop(true);
        match (&settings.own_server, &settings.token) {
            (Some(own), _) => {
                command.arg("--no-auto-login").envs(own.variables(&settings.default_model));
            }
            (None, Some(token)) => {
                command.args(["--auth-token-env", TOKEN, "--no-auto-login"]).env(TOKEN, token.expose());
            }
            (None, None) => {}
        }
        let child = command.spawn()?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { child, leader })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(leader) = self.leader else { return };
        let _ = kill_process_group(leader, Signal::KILL);
        // The folder is removed next, and nothing may write to it any more.
        for _ in 0..200 {
            let _ = self.child.try_wait();
            if test_kill_process_group(leader).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A folder that only this user can enter, with the CLI's configuration: who is logged in, and nothing else.
fn private_folder(settings: &CopilotSettings) -> io::Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("rawko-copilot-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir()?;
    for name in ["home", "work", "tmp"] {
        std::fs::create_dir(folder.path().join(name))?;
    }
    let is_needed = settings.token.is_none() && !settings.has_own_server();
    if let Some(login) = settings.login().filter(|_| is_needed) {
        std::fs::write(folder.path().join("home/config.json"), login)?;
    }
    Ok(folder)
}
