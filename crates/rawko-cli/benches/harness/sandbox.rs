//! What the sandbox adds to a command: `bash -c true` alone, in the sandbox, and in bubblewrap, side by side.
//!
//! The project is a clone of this repository, and the home is the user's own, so the plan is one that an agent gets.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use rawko::Permissions;
use rawko::tools::{Confinement, FileTracker, Sandbox, ToolContext, ToolRegistry, builtin_tools};
use serde_json::json;

/// What one of the agents is denied. Patterns need a look at the whole project.
const DENIED: &str = "**/*.pem";

/// Milliseconds from start to exit, one for each round.
pub(crate) struct Measured {
    /// `bash -c true`, started and waited for.
    pub(crate) bare: Vec<f64>,
    /// A call of the tool `Bash`, not confined.
    pub(crate) call: Vec<f64>,
    /// The same in the sandbox.
    pub(crate) confined: Vec<f64>,
    /// The same where `permissions.deny` holds a pattern.
    pub(crate) denying: Vec<f64>,
    /// `bash -c true` in bubblewrap, where it is installed.
    pub(crate) bubblewrap: Option<Vec<f64>>,
}

/// Runs each kind once a round, so that what else the machine does touches all of them.
pub(crate) fn measure(rounds: usize) -> Measured {
    let folder = tempfile::tempdir().unwrap();
    let project = clone_of_this(folder.path());
    let sandbox = || {
        let variable = |name: &str| std::env::var_os(name);
        Sandbox::new(&project, None, Some(&folder.path().join("cache")), None, &variable)
            .expect("a sandbox can be had here")
    };
    let plain = Caller::new(&project, None, &[]);
    let confined = Caller::new(&project, Some(sandbox()), &[]);
    let denying = Caller::new(&project, Some(sandbox()), &[DENIED]);
    let has_bubblewrap = Command::new("bwrap").arg("--version").stdout(Stdio::null()).status().is_ok();
    let mut measured = Measured {
        bare: Vec::new(),
        call: Vec::new(),
        confined: Vec::new(),
        denying: Vec::new(),
        bubblewrap: has_bubblewrap.then(Vec::new),
    };
    for _ in 0..rounds {
        measured.bare.push(timed(|| run(Command::new("bash").args(["-c", "true"]))));
        measured.call.push(timed(|| plain.call()));
        measured.confined.push(timed(|| confined.call()));
        measured.denying.push(timed(|| denying.call()));
        if let Some(times) = &mut measured.bubblewrap {
            times.push(timed(|| run(&mut bubblewrap(&project, folder.path()))));
        }
    }
    measured
}

/// An agent's tools.
struct Caller {
    runtime: tokio::runtime::Runtime,
    registry: ToolRegistry,
    context: ToolContext,
}

impl Caller {
    fn new(project: &Path, sandbox: Option<Sandbox>, denied: &[&str]) -> Self {
        let mut registry = ToolRegistry::new();
        for tool in builtin_tools(&Arc::new(FileTracker::default())) {
            registry.add(tool).unwrap();
        }
        let here = || Some(vec![".".to_owned()]);
        let deny = denied.iter().map(|entry| (*entry).to_owned()).collect();
        let permissions =
            Permissions { read: here(), write: here(), deny: Some(deny), ..Permissions::default() };
        let context = ToolContext {
            root: project.to_owned(),
            agent: "developer".to_owned(),
            permissions: Arc::new(permissions),
            approved: Vec::new(),
            confinement: sandbox.map_or(Confinement::Off, Confinement::Sandboxed),
            traceparent: None,
            progress: Arc::new(|_| {}),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, registry, context }
    }

    fn call(&self) {
        let outcome =
            self.runtime.block_on(self.registry.call("Bash", json!({"command": "true"}), &self.context));
        assert!(!outcome.is_error, "{}", outcome.content);
    }
}

fn timed(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64() * 1e3
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn clone_of_this(folder: &Path) -> PathBuf {
    let project = folder.join("project");
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    run(Command::new("git").args(["clone", "--quiet", here]).arg(&project));
    project
}

/// A view like the sandbox's: the system for reading, the project for writing, a home and a temporary folder of its own.
fn bubblewrap(project: &Path, folder: &Path) -> Command {
    let mut command = Command::new("bwrap");
    let home = std::env::var_os("HOME").unwrap_or_else(|| "/root".into());
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]);
    command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]);
    command.arg("--tmpfs").arg(&home);
    for name in [".cargo", ".rustup", ".npm", ".cache"] {
        let place = Path::new(&home).join(name);
        command.arg("--ro-bind-try").arg(&place).arg(&place);
    }
    command.arg("--tmpfs").arg(folder).arg("--bind").arg(project).arg(project).arg("--chdir").arg(project);
    command.args(["bash", "-c", "true"]);
    command
}
