//! One command, and how it is started: with a clean environment, a process group of its own, and the mark by which
//! its descendants are found.

use std::ffi::OsString;
use std::io::{self, PipeReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Pid;

use super::Lifeline;
use super::family::Family;

/// What is run.
#[derive(Debug, Clone)]
pub(crate) enum Program {
    /// The argument of `bash -c`. Its stdout and stderr are one stream, so that their order is kept; stdin is empty.
    Shell(String),
    /// A program, by a path that needs no search, with its arguments as they are: no shell reads them. Its stdout and
    /// stderr are two streams, and `input` is its stdin.
    File {
        /// Absolute path of the program.
        path: PathBuf,
        /// Its arguments.
        arguments: Vec<OsString>,
        /// What it reads on stdin.
        input: Vec<u8>,
    },
}

/// A command with everything it needs to run.
#[derive(Debug, Clone)]
pub(crate) struct CommandLine {
    /// What is run.
    pub(crate) program: Program,
    /// Where it runs.
    pub(crate) directory: PathBuf,
    /// Its whole environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// How long it may take; for ever where absent.
    pub(crate) timeout: Option<Duration>,
    /// What ends it when this process cannot.
    pub(crate) lifeline: Lifeline,
}

/// Which stream of a command something came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Standard output, and standard error of a shell command.
    Out,
    /// Standard error of a program that is run without a shell.
    Err,
}

/// A command that has just been started.
pub(super) struct Spawned {
    pub(super) child: Child,
    pub(super) family: Family,
    pub(super) output: Vec<(Source, PipeReader)>,
    /// Dropped when all of it has ended.
    pub(super) held: Held,
}

/// The lifeline's knowledge of a command.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) type Held = Option<super::lifeline::Held>;
/// There is none here.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) type Held = ();

/// Starts the command.
pub(super) fn spawn(line: &CommandLine) -> io::Result<Spawned> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let mark = super::mark::Mark::new();
    // Without a lifeline it runs all the same: it only matters to those who are killed.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let (held, alive) =
        mark.zip(shell().ok()).and_then(|(mark, bash)| line.lifeline.hold(bash, mark).ok()).unzip();
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let mut command =
        command(&line.program, mark.map(super::mark::Mark::prologue).as_deref(), alive.is_some())?;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let ((), alive) = ((), None::<PipeReader>);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let mut command = command(&line.program, None, false)?;
    command
        .current_dir(&line.directory)
        .env_clear()
        .envs(line.environment.iter().map(|(name, value)| (name, value)))
        .process_group(0);
    let (out, writer) = io::pipe()?;
    let mut output = vec![(Source::Out, out)];
    let mut feed = None;
    match &line.program {
        Program::Shell(_) => {
            command.stdin(alive.map_or_else(Stdio::null, Stdio::from));
            command.stderr(writer.try_clone()?).stdout(writer);
        }
        Program::File { input, .. } => {
            let (err, err_writer) = io::pipe()?;
            output.push((Source::Err, err));
            let (stdin, feeder) = io::pipe()?;
            command.stdin(stdin).stdout(writer).stderr(err_writer);
            feed = Some((feeder, input.clone()));
        }
    }
    let child = command.spawn()?;
    // Our ends of what the child holds are closed, so that its ends tell when it is gone.
    drop(command);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let family = Family::new(Pid::from_child(&child), mark);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let family = Family::new(Pid::from_child(&child));
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let held = ();
    let spawned = Spawned { child, family, output, held };
    if let Some((feeder, input)) = feed
        && let Err(error) = give(feeder, input)
    {
        spawned.undo();
        return Err(error);
    }
    Ok(spawned)
}

impl Spawned {
    /// Ends what cannot be used after all.
    fn undo(mut self) {
        self.family.kill();
        // It was killed: there is nothing to learn from its end.
        let _ = self.child.wait();
    }
}

/// Feeds a program that may read late, in part or never: a thread waits for it, which ends with the program at the
/// latest, because then nobody holds the other end any more.
fn give(mut feeder: io::PipeWriter, input: Vec<u8>) -> io::Result<()> {
    let work = move || {
        // A program may answer without having read everything.
        let _ = feeder.write_all(&input);
    };
    std::thread::Builder::new().name("stdin of a tool".to_owned()).spawn(work).map(|_| ())
}

/// The command for `program`. `prologue` are shell commands that the process must put on itself first. With `look` its
/// stdin tells whether anybody is there to wait for it: then it looks before it begins. (A program that is not a shell
/// command has its input there: it may begin for nobody, and is found by its mark.)
fn command(program: &Program, prologue: Option<&str>, look: bool) -> io::Result<Command> {
    const SHELL: [&str; 3] = ["--noprofile", "--norc", "-c"];
    let marked = |prologue: &str, rest: &str| format!("{{ {prologue}; }} 2>/dev/null; {rest}");
    match program {
        Program::Shell(text) => {
            let shell = shell()?;
            let mut command = Command::new(shell);
            command.args(SHELL);
            match prologue {
                // The shell puts the mark on itself, looks, and then becomes the shell that runs the command.
                Some(prologue) => command
                    .arg(marked(
                        prologue,
                        &format!(
                            "{}exec {shell} --noprofile --norc -c \"$1\" </dev/null",
                            if look { "read -t 0 && exit 125; " } else { "" }
                        ),
                    ))
                    .arg("bash")
                    .arg(text),
                None => command.arg(text),
            };
            Ok(command)
        }
        Program::File { path, arguments, .. } => {
            // Without a bash there is no mark, and the process group has to do.
            let mut command = match (prologue, shell()) {
                (Some(prologue), Ok(shell)) => {
                    let mut command = Command::new(shell);
                    command.args(SHELL).arg(marked(prologue, "exec -- \"$@\"")).arg("bash").arg(path);
                    command
                }
                (None, _) | (_, Err(_)) => Command::new(path),
            };
            command.args(arguments);
            Ok(command)
        }
    }
}

/// The shell by its absolute path: a name would be looked up in a `PATH` that the project may have a say in.
///
/// # Errors
/// Where there is none; then no command can be run.
pub fn shell() -> io::Result<&'static str> {
    const PLACES: [&str; 4] =
        ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash"];
    let found = PLACES.into_iter().find(|path| std::path::Path::new(path).exists());
    found.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, "there is no bash in /bin, /usr/bin or /usr/local/bin")
    })
}
