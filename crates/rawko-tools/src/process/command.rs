//! Starts one command: with a clean environment, a process group of its own, and the tag by which its descendants are
//! found.

use std::ffi::OsString;
use std::io::{self, PipeReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Pid;

use super::OrphanReaper;
#[cfg(any(target_os = "linux", target_os = "android"))]
use super::environment;
use super::pipe_status;
use super::tree::ProcessTree;
use crate::confinement::Confined;

/// What a command runs.
#[derive(Debug, Clone)]
pub(crate) enum Invocation {
    /// The argument of `bash -c`. Its stdout and stderr are one stream, so that their order is kept; stdin is empty.
    /// Where `records_pipe` is set, the statuses of the last pipeline's members are recorded.
    Shell { text: String, records_pipe: bool },
    /// A program by its absolute path. No shell interprets the arguments. Its stdout and stderr are two streams, and
    /// `input` is its stdin.
    File { path: PathBuf, arguments: Vec<OsString>, input: Vec<u8> },
    /// The same, where `socket` is its stdin and its stdout.
    Server { path: PathBuf, arguments: Vec<OsString>, socket: Arc<UnixStream> },
}

/// A command with everything it needs to run.
#[derive(Debug, Clone)]
pub(crate) struct CommandLine {
    pub(crate) program: Invocation,
    pub(crate) directory: PathBuf,
    /// Its whole environment: nothing is inherited.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// How long it may take; no limit if absent.
    pub(crate) timeout: Option<Duration>,
    /// Ends the command if this process is killed.
    pub(crate) reaper: OrphanReaper,
    /// The sandbox that it runs in, if there is one.
    pub(crate) confined: Option<Confined>,
}

/// The stream of a command that output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputStream {
    /// Standard output, and standard error of a shell command.
    Out,
    /// Standard error of a program that is run without a shell.
    Err,
}

/// A command that has just been started.
pub(super) struct SpawnedCommand {
    pub(super) child: Child,
    pub(super) tree: ProcessTree,
    pub(super) output: Vec<(OutputStream, PipeReader)>,
    /// Where the shell writes the statuses of its last pipeline, if it does.
    pub(super) pipe_status: Option<PipeReader>,
    /// Is there until all of the command has ended.
    pub(super) reaper: OrphanReaper,
    /// The line to the sandbox's helper, which ends the command when it closes.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) control: Option<crate::confine::Watched>,
}

/// Starts the command.
pub(super) fn spawn(line: &CommandLine) -> io::Result<SpawnedCommand> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(confined) = &line.confined {
        return spawn_confined(line, confined);
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let tag = super::tag::ProcessTag::new();
    // The command runs without a reaper too: the reaper matters only if this process is killed.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let alive = tag
        .and_then(super::tag::ProcessTag::mark)
        .zip(shell().ok())
        .and_then(|(mark, bash)| line.reaper.watch(bash, mark).ok());
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let mut command =
        command(&line.program, tag.map(super::tag::ProcessTag::prologue).as_deref(), alive.is_some())?;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let alive = None::<PipeReader>;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let mut command = command(&line.program, None, false)?;
    command
        .current_dir(&line.directory)
        .env_clear()
        .envs(line.environment.iter().map(|(name, value)| (name, value)))
        .process_group(0);
    let (out, writer) = io::pipe()?;
    let mut output = vec![(OutputStream::Out, out)];
    let (mut feed, mut pipe_status) = (None, None);
    match &line.program {
        Invocation::Shell { records_pipe, .. } => {
            command.stdin(alive.map_or_else(Stdio::null, Stdio::from));
            if *records_pipe {
                let (record, recorder) = io::pipe()?;
                command.stderr(recorder).stdout(writer);
                pipe_status = Some(record);
            } else {
                command.stderr(writer.try_clone()?).stdout(writer);
            }
        }
        Invocation::File { input, .. } => {
            let (err, err_writer) = io::pipe()?;
            output.push((OutputStream::Err, err));
            let (stdin, feeder) = io::pipe()?;
            command.stdin(stdin).stdout(writer).stderr(err_writer);
            feed = Some((feeder, input.clone()));
        }
        Invocation::Server { socket, .. } => {
            let (err, err_writer) = io::pipe()?;
            output = vec![(OutputStream::Err, err)];
            let stdin = OwnedFd::from(socket.try_clone()?);
            command.stdin(stdin).stdout(OwnedFd::from(socket.try_clone()?)).stderr(err_writer);
        }
    }
    let child = command.spawn()?;
    tracing::debug!(pid = child.id(), confined = false, "process started");
    // Close our copies of the child's pipe ends, so that the pipes close when the child ends.
    drop(command);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let tree = ProcessTree::new(Pid::from_child(&child), tag);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let tree = ProcessTree::new(Pid::from_child(&child));
    let spawned = SpawnedCommand {
        child,
        tree,
        output,
        pipe_status,
        reaper: line.reaper.clone(),
        #[cfg(any(target_os = "linux", target_os = "android"))]
        control: None,
    };
    if let Some((feeder, input)) = feed
        && let Err(error) = feed_stdin(feeder, input)
    {
        spawned.kill();
        return Err(error);
    }
    Ok(spawned)
}

/// Starts the command in its sandbox. It needs no tag and no reaper: its processes are those of a namespace, which ends
/// with its first process, and that one ends when this process does.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn spawn_confined(line: &CommandLine, confined: &Confined) -> io::Result<SpawnedCommand> {
    use std::path::Path;
    let plain = command(&line.program, None, false)?;
    let arguments: Vec<OsString> = plain.get_args().map(ToOwned::to_owned).collect();
    let program = Path::new(plain.get_program());
    let (mut command, control) = rawko_sandbox::command(confined.sandbox.helper(), program, &arguments)?;
    command.env_clear().envs(line.environment.iter().map(|(name, value)| (name, value))).process_group(0);
    // What these name is not there or cannot be written. Without them tools take the folders that the command has.
    command.env("TMPDIR", "/tmp").env_remove("XDG_RUNTIME_DIR");
    let value = |name: &str| line.environment.iter().find(|(other, _)| other == name).map(|(_, value)| value);
    for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        let places =
            value(name).zip(value("HOME")).map(|(folder, home)| (Path::new(folder), Path::new(home)));
        if !places.is_some_and(|(folder, home)| folder.starts_with(home)) {
            command.env_remove(name);
        }
    }
    let (out, writer) = io::pipe()?;
    let mut output = vec![(OutputStream::Out, out)];
    let (mut pipe_status, mut input) = (None, [].as_slice());
    match &line.program {
        Invocation::Shell { records_pipe: true, .. } => {
            let (record, recorder) = io::pipe()?;
            command.stderr(recorder).stdout(writer);
            pipe_status = Some(record);
        }
        Invocation::Shell { records_pipe: false, .. } => {
            command.stderr(writer.try_clone()?).stdout(writer);
        }
        Invocation::File { input: given, .. } => {
            let (err, err_writer) = io::pipe()?;
            output.push((OutputStream::Err, err));
            command.stdout(writer).stderr(err_writer);
            input = given;
        }
        Invocation::Server { socket, .. } => {
            let (err, err_writer) = io::pipe()?;
            output = vec![(OutputStream::Err, err)];
            command.stdout(OwnedFd::from(socket.try_clone()?)).stderr(err_writer);
        }
    }
    let way = confined.way_out()?;
    let mut plan = confined.plan(&line.directory, input, &way)?;
    plan.converses = matches!(line.program, Invocation::Server { .. });
    if plan.view.iter().any(|step| matches!(step, rawko_sandbox::ViewStep::Placeholders { .. })) {
        command.envs(environment::BELIEVES_PLACEHOLDERS);
    }
    let mut control = confined.watch(control, way);
    let child = command.spawn()?;
    tracing::debug!(pid = child.id(), confined = true, "process started");
    drop(command);
    confined.limit(&mut control, child.id());
    let tree = ProcessTree::confined(Pid::from_child(&child), &confined.sandbox.wall());
    let reaper = line.reaper.clone();
    let mut spawned = SpawnedCommand { child, tree, output, pipe_status, reaper, control: Some(control) };
    if let Some(control) = &mut spawned.control
        && let Err(error) = confined.begin(control, &plan)
    {
        spawned.kill();
        return Err(error);
    }
    Ok(spawned)
}

impl SpawnedCommand {
    fn kill(mut self) {
        self.tree.kill();
        // The status of a killed process says nothing new.
        let _ = self.child.wait();
    }
}

/// Writes the input of a program from a thread, because the program may read late, in part or not at all. The thread
/// ends with the program at the latest: then the pipe closes.
fn feed_stdin(mut feeder: io::PipeWriter, input: Vec<u8>) -> io::Result<()> {
    let work = move || {
        // A program may answer without having read everything.
        let _ = feeder.write_all(&input);
    };
    std::thread::Builder::new().name("stdin of a tool".to_owned()).spawn(work).map(|_| ())
}

/// The command for `program`. `prologue` holds shell commands that tag the process before anything else runs. With
/// `check_alive` stdin is the reaper's pipe, and the command begins only if that is open. (A program that is not a
/// shell command has its input there: it may begin although this process is gone, and is found by its tag.)
fn command(program: &Invocation, prologue: Option<&str>, check_alive: bool) -> io::Result<Command> {
    const SHELL: [&str; 3] = ["--noprofile", "--norc", "-c"];
    let tagged = |prologue: &str, rest: &str| format!("{{ {prologue}; }} 2>/dev/null; {rest}");
    match program {
        Invocation::Shell { text, records_pipe } => {
            let shell = shell()?;
            let mut command = Command::new(shell);
            command.args(SHELL);
            let (text, redirections) = if *records_pipe {
                (pipe_status::recorded(text), pipe_status::redirections())
            } else {
                (text.clone(), String::new())
            };
            let become_shell = format!("exec {shell} --noprofile --norc -c \"$1\" {redirections}");
            match prologue {
                // The shell tags itself, checks the pipe, and then becomes the shell that runs the command.
                Some(prologue) => {
                    let check = if check_alive { "read -t 0 && exit 125; " } else { "" };
                    let rest = format!("{check}{become_shell} </dev/null");
                    command.arg(tagged(prologue, &rest)).arg("bash").arg(text)
                }
                None if *records_pipe => command.arg(become_shell).arg("bash").arg(text),
                None => command.arg(text),
            };
            Ok(command)
        }
        Invocation::File { path, arguments, .. } | Invocation::Server { path, arguments, .. } => {
            // Without bash there is no tag; the process group has to do.
            let mut command = match (prologue, shell()) {
                (Some(prologue), Ok(shell)) => {
                    let mut command = Command::new(shell);
                    command.args(SHELL).arg(tagged(prologue, "exec -- \"$@\"")).arg("bash").arg(path);
                    command
                }
                (None, _) | (_, Err(_)) => Command::new(path),
            };
            command.args(arguments);
            Ok(command)
        }
    }
}

/// The absolute path of bash. It is not looked up in `PATH`, which the project may influence.
///
/// # Errors
/// If no bash is installed; then no command can run.
pub fn shell() -> io::Result<&'static str> {
    const PLACES: [&str; 4] =
        ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash"];
    let found = PLACES.into_iter().find(|path| std::path::Path::new(path).exists());
    found.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "there is no bash in /bin, /usr/bin or /usr/local/bin")
    })
}
