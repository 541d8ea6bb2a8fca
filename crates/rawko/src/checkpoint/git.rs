//! Git, asked in a way that runs no code of the repository.
//!
//! Owns how git is found and started: by absolute path and never one inside the project, with an environment of its
//! own, with every setting overridden that names a program, without the network, and ended when it takes too long. Only
//! plumbing commands are asked, and only those that start no other process: nothing that looks into submodules (`add`,
//! `status`, `diff-files`) is ever used. It knows nothing of what is kept.

use std::ffi::{OsStr, OsString};
use std::io::{Seek as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rawko_tools::output_within;

use super::error::CheckpointError;

/// Settings of a repository that would run a program, use the network or leave traces. The command line wins over every
/// file, whatever includes it.
const SETTINGS: [&str; 12] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.untrackedCache=false",
    "core.logAllRefUpdates=false",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
];

/// The whole environment of a git process. Older versions of git ignore some of these; newer ones need them.
const ENVIRONMENT: [(&str, &str); 15] = [
    ("LC_ALL", "C"),
    ("PATH", "/usr/bin:/bin"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_ASKPASS", "/bin/false"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_TRACE2", "0"),
];

/// Most bytes of an answer.
const MAX_ANSWER: usize = 512 * 1024 * 1024;
/// What git may take for a question about its repository alone.
pub(super) const BRIEF: Duration = Duration::from_secs(10);
/// What git may take for one that reads no files' contents.
const QUICK: Duration = Duration::from_secs(30);
/// What git may take for one that does.
pub(super) const THOROUGH: Duration = Duration::from_secs(300);

/// The first question that git did not answer in time, and its seconds. It would not answer the next ones either, so no
/// more are asked, and no caller has to wait for each.
pub(super) type Unanswered = Arc<OnceLock<(&'static str, u64)>>;

/// A git program.
#[derive(Debug, Clone)]
pub(super) struct Git {
    program: PathBuf,
    unanswered: Unanswered,
}

impl Git {
    /// The first git in `path`, ignoring any inside `work_tree`: the repository decides what is in a folder there.
    pub(super) fn find(path: Option<&OsStr>, work_tree: &Path, unanswered: &Unanswered) -> Option<Self> {
        let folders: Vec<PathBuf> =
            path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
        folders.into_iter().filter(|folder| folder.is_absolute()).find_map(|folder| {
            let program = folder.join("git").canonicalize().ok()?;
            // A shim may decide by its name what it is, so the name as found is what is run.
            let folder_inside = folder.canonicalize().ok()?.starts_with(work_tree);
            let inside = folder_inside || program.starts_with(work_tree);
            (!inside && is_executable(&program))
                .then(|| Self { program: folder.join("git"), unanswered: Arc::clone(unanswered) })
        })
    }

    /// A command for git. `doing` completes "git …" in an error.
    pub(super) fn ask(&self, doing: &'static str) -> GitQuery {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(ENVIRONMENT).current_dir("/");
        // Ctrl-C at the terminal is for rawko, which ends this in good order.
        command.process_group(0);
        command.arg("--no-pager");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        GitQuery {
            command,
            doing,
            input: Vec::new(),
            deadline: QUICK,
            unanswered: Arc::clone(&self.unanswered),
        }
    }
}

fn is_executable(program: &Path) -> bool {
    let access = rustix::fs::Access::EXEC_OK;
    program.is_file() && rustix::fs::access(program, access).is_ok()
}

/// One question to git.
pub(super) struct GitQuery {
    command: Command,
    doing: &'static str,
    input: Vec<u8>,
    deadline: Duration,
    unanswered: Unanswered,
}

impl GitQuery {
    /// Sets a variable of the environment.
    pub(super) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Takes a variable away.
    pub(super) fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Objects are also looked for here.
    pub(super) fn alternates(self, folders: &[PathBuf]) -> Self {
        if folders.is_empty() {
            return self;
        }
        let quoted: Vec<Vec<u8>> =
            folders.iter().map(|folder| quoted(folder.as_os_str().as_bytes())).collect();
        self.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", OsString::from_vec(quoted.join(&b':')))
    }

    /// Works in this folder.
    pub(super) fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// A setting.
    pub(super) fn setting(mut self, name: &str, value: &OsStr) -> Self {
        let mut setting = OsString::from(format!("{name}="));
        setting.push(value);
        self.command.arg("-c").arg(setting);
        self
    }

    /// What it writes survives a power cut: git syncs no loose object and no ref unasked. Versions before 2.36
    /// ignore these settings.
    pub(super) fn durable(self) -> Self {
        self.setting("core.fsync", "objects,reference".as_ref()).setting("core.fsyncMethod", "batch".as_ref())
    }

    /// The subcommand and its arguments.
    pub(super) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// One more argument.
    pub(super) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// What it reads from its standard input.
    pub(super) fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = bytes;
        self
    }

    /// How long it may take.
    pub(super) fn within_time(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Asks, and gives what git wrote to standard output.
    pub(super) fn answer(mut self) -> Result<Vec<u8>, CheckpointError> {
        if let Some((doing, seconds)) = self.unanswered.get().copied() {
            return Err(CheckpointError::TooSlow { doing, seconds });
        }
        let doing = self.doing;
        let failed = |message: String| CheckpointError::Git { doing, message };
        // A file, not a pipe: no thread has to write while another reads.
        let input = input_file(&self.input).map_err(|error| failed(error.to_string()))?;
        self.command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = self.command.get_program().to_owned();
        let output = output_within(&mut self.command, self.deadline, MAX_ANSWER)
            .map_err(|error| failed(format!("{} could not be run: {error}", program.display())))?;
        match output {
            None => {
                let seconds = self.deadline.as_secs();
                let _ = self.unanswered.set((doing, seconds));
                Err(CheckpointError::TooSlow { doing, seconds })
            }
            Some(output) if output.status.success() => Ok(output.answer),
            Some(output) => {
                let complaint = String::from_utf8_lossy(&output.complaint);
                let complaint = complaint.trim();
                let status = output.status;
                Err(failed(if complaint.is_empty() { status.to_string() } else { complaint.to_owned() }))
            }
        }
    }

    /// Asks, and gives the answer as one line.
    pub(super) fn line(self) -> Result<String, CheckpointError> {
        let doing = self.doing;
        let answer = self.answer()?;
        match std::str::from_utf8(&answer).map(str::trim) {
            Ok(line) if !line.is_empty() => Ok(line.to_owned()),
            _ => {
                Err(CheckpointError::Git { doing, message: "the answer is not what was expected".to_owned() })
            }
        }
    }
}

fn input_file(bytes: &[u8]) -> std::io::Result<Stdio> {
    if bytes.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = rawko_tools::temporary::file()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// A path as git reads it from a list that colons separate.
fn quoted(path: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for byte in path {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    quoted
}
