//! Runs the commands that verify a task. They belong to rawko, not to an agent.
//!
//! They run like the commands of `Bash`: `bash -c` in the project, with a process group of their own, a clean environment
//! without any key and an empty stdin. The whole process tree is ended on timeout, on cancellation and when this process
//! dies. No policy applies: the commands come from a configuration that the user trusts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rawko_core::agent::Permissions;
use rawko_core::facts::{CommandRun, parse_test_counts};

use crate::confine::Sandbox;
use crate::confinement::{Confined, Confinement};
use crate::mounts;
use crate::process::{
    Cause, CommandLine, HeadAndTail, Invocation, KillHandle, KillOnDrop, OrphanReaper, environment, on_thread,
};

/// Bytes of output that are kept, half of them from its head.
const MAX_OUTPUT: usize = 8_000;
/// Bytes of output in which tests are counted.
const MAX_COUNTED: usize = 8 * 1024 * 1024;

/// Runs commands in one directory.
#[derive(Debug, Clone)]
pub struct CommandRunner {
    root: PathBuf,
    /// Variables that the commands get in addition to the base.
    named: Vec<String>,
    /// A folder whose programs are found before any other.
    programs: Option<PathBuf>,
    /// Whether test runners are asked to name each test.
    names_tests: bool,
    reaper: OrphanReaper,
    /// The sandbox, if there is one; or why no command runs.
    confined: Result<Option<Confined>, String>,
}

impl CommandRunner {
    /// Runs commands in `root`. They get the variables `named`, except those whose names indicate a secret.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, named: Vec<String>) -> Self {
        let (root, reaper) = (root.into(), OrphanReaper::default());
        Self { root, named, programs: None, names_tests: false, reaper, confined: Ok(None) }
    }

    /// The same, confined like this: in a sandbox the commands may write the directory that they run in, and nothing else.
    #[must_use]
    pub fn confined(&self, confinement: &Confinement, permissions: Permissions) -> Self {
        let confined = |sandbox: &Sandbox| Confined {
            sandbox: sandbox.clone(),
            who: "verification".to_owned(),
            permissions: Arc::new(permissions),
            approved_hosts: Vec::new(),
            root: self.root.clone(),
            also: Vec::new(),
            layered: Vec::new(),
            changes: None,
            lasts: false,
        };
        Self { confined: confinement.sandbox().map(|sandbox| sandbox.map(confined)), ..self.clone() }
    }

    /// The same in another directory, a copy of this one. What they may read in this one stays readable: the other may have
    /// links to it. They write nothing outside the copy.
    #[must_use]
    pub fn within(&self, root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let mut inner = self.clone();
        if let Ok(Some(confined)) = &mut inner.confined {
            let original = std::mem::replace(&mut confined.root, root.clone());
            let mut permissions = (*confined.permissions).clone();
            permissions.write = Some(vec![".".to_owned()]);
            // A path that is denied in the original as an absolute path is denied in the copy.
            let deny = permissions.deny.get_or_insert_default();
            let copied = |entry: &String| {
                let inside = Path::new(entry).strip_prefix(&original).ok()?;
                Some(root.join(inside).to_string_lossy().into_owned())
            };
            deny.extend(deny.iter().filter_map(copied).collect::<Vec<_>>());
            confined.permissions = Arc::new(permissions);
            confined.also.push(original);
        }
        Self { root, ..inner }
    }

    /// The same, with programs that are found before any other.
    #[must_use]
    pub fn finding(&self, programs: impl Into<PathBuf>) -> Self {
        let programs = programs.into();
        Self { programs: Some(programs.clone()), ..self.seeing(programs) }
    }

    /// The same, where a sandbox shows this folder too, for reading.
    #[must_use]
    pub fn seeing(&self, folder: impl Into<PathBuf>) -> Self {
        let mut seeing = self.clone();
        if let Ok(Some(confined)) = &mut seeing.confined {
            confined.also.push(folder.into());
        }
        seeing
    }

    /// The same, where a command in a sandbox may change this folder for itself: see [`Self::has_layers`].
    #[must_use]
    pub fn layering(&self, folder: impl Into<PathBuf>) -> Self {
        let mut layering = self.clone();
        if let Ok(Some(confined)) = &mut layering.confined {
            confined.layered.push(folder.into());
        }
        layering
    }

    /// The same, where the project is seen with `changes/upper` laid over it (an overlay's upper folder), and commands write
    /// there and nowhere else: see [`Self::has_views`].
    #[must_use]
    pub fn viewing(&self, changes: impl Into<PathBuf>) -> Self {
        let mut viewing = self.clone();
        if let Ok(Some(confined)) = &mut viewing.confined {
            confined.changes = Some(changes.into());
            let write = Some(vec![".".to_owned()]);
            confined.permissions = Arc::new(Permissions { write, ..(*confined.permissions).clone() });
        }
        viewing
    }

    /// Whether other files can be laid over the project for a command: in a sandbox of rawko's own namespaces, if nothing in
    /// the project's path means something to an overlay file system, and nothing is mounted in the project: an overlay
    /// shows what is below that.
    #[must_use]
    pub fn has_views(&self) -> bool {
        matches!(&self.confined, Ok(Some(confined)) if confined.sandbox.offer().layers)
            && !self.has_signs()
            && !mounts::are_inside(&self.root)
    }

    /// Whether a command can write to a folder that is not granted to it: what it writes is kept apart, or nothing confines
    /// it.
    #[must_use]
    pub fn has_layers(&self) -> bool {
        match &self.confined {
            Ok(Some(confined)) => confined.sandbox.offer().layers && !self.has_signs(),
            Ok(None) | Err(_) => true,
        }
    }

    /// Whether something in the project's path means something to an overlay file system.
    fn has_signs(&self) -> bool {
        self.root.as_os_str().as_encoded_bytes().iter().any(|byte| b":,\\".contains(byte))
    }

    /// The same, with a Go that names each test: it only does if it is asked to, and what is not named is not counted.
    #[must_use]
    pub fn naming_tests(&self) -> Self {
        Self { names_tests: true, ..self.clone() }
    }

    /// The same without any network, where a sandbox can keep it away.
    #[must_use]
    pub fn offline(&self) -> Self {
        let mut offline = self.clone();
        if let Ok(Some(confined)) = &mut offline.confined {
            confined.permissions = Arc::new(Permissions { net: None, ..(*confined.permissions).clone() });
            confined.approved_hosts.clear();
        }
        offline
    }

    /// Runs commands in order. Each may take `timeout`.
    pub async fn run_all(&self, commands: &[String], timeout: Duration) -> Vec<CommandRun> {
        let mut runs: Vec<CommandRun> = Vec::new();
        for command in commands {
            runs.push(self.run(command, timeout).await);
        }
        runs
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let mut variables = environment(std::env::vars_os(), &self.named);
        if self.names_tests {
            match variables.iter_mut().find(|(name, _)| name == "GOFLAGS") {
                Some((_, flags)) => flags.push(" -v"),
                None => variables.push(("GOFLAGS".into(), "-v".into())),
            }
        }
        let Some(programs) = &self.programs else { return variables };
        for (name, value) in &mut variables {
            if name == "PATH" {
                let folders = std::iter::once(programs.clone()).chain(std::env::split_paths(value));
                if let Ok(path) = std::env::join_paths(folders) {
                    *value = path;
                }
            }
        }
        variables
    }

    /// Runs a command until it ends or `timeout` has passed. Dropping the future ends it, with everything it started.
    pub async fn run(&self, command: &str, timeout: Duration) -> CommandRun {
        let confined = match &self.confined {
            Ok(confined) => confined.clone(),
            Err(why) => {
                let (command, output) = (command.to_owned(), format!("[not run: {why}]"));
                return CommandRun { command, output, ..CommandRun::default() };
            }
        };
        let line = CommandLine {
            program: Invocation::Shell { text: command.to_owned(), records_pipe: false },
            directory: self.root.clone(),
            environment: self.environment(),
            timeout: Some(timeout),
            reaper: self.reaper.clone(),
            confined,
        };
        let begun = Instant::now();
        let handle = KillHandle::default();
        let guard = KillOnDrop::new(&handle);
        let done = on_thread(move || wait_for(&handle, &line)).await;
        drop(guard);
        let done = done.unwrap_or_else(|error| {
            let output = format!("[the command did not run to its end: {error}]");
            CommandRun { output, ..CommandRun::default() }
        });
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        CommandRun { command: command.to_owned(), duration_ms, ..done }
    }
}

/// The command's end and output, without its name and time.
fn wait_for(handle: &KillHandle, line: &CommandLine) -> CommandRun {
    let mut output = HeadAndTail::new(MAX_OUTPUT);
    let mut whole = HeadAndTail::new(MAX_COUNTED);
    let finished = handle.start(line).and_then(|running| {
        running.finish(&mut |_, bytes| {
            output.push(bytes);
            whole.push(bytes);
        })
    });
    let (cause, refused) = match finished {
        Ok(finished) => (finished.cause, finished.refusals.take().text()),
        Err(error) => {
            let place = line.directory.display();
            let output = format!("[the shell could not be run in `{place}`: {error}]");
            return CommandRun { output, ..CommandRun::default() };
        }
    };
    let mut text = output.text();
    let add = |text: &mut String, note: &str| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(note);
    };
    let note = match cause {
        Cause::Exited { code: Some(_), .. } => {
            if !refused.is_empty() {
                add(&mut text, &refused);
            }
            let whole = whole.text();
            return CommandRun::of("", cause.exit_code(), text, &whole, parse_test_counts(&whole));
        }
        Cause::Exited { code: None, .. } | Cause::OutOfMemory { .. } | Cause::Cancelled => {
            format!("[{}]", cause.text())
        }
        Cause::TimedOut => format!(
            "[timed out: the command did not end within {} s and was killed with everything it started]",
            line.timeout.unwrap_or_default().as_secs_f64()
        ),
    };
    add(&mut text, &note);
    if !refused.is_empty() {
        add(&mut text, &refused);
    }
    CommandRun { output: text, timed_out: matches!(cause, Cause::TimedOut), ..CommandRun::default() }
}
