//! A long-running program: it is started once, and talks over a socket that is its standard input and
//! output.
//!
//! Its environment is that of a command, with the variables that its definition names. It runs in the sandbox under
//! permissions of its own, and is ended with everything it started. Other modules handle the messages over the socket.

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rawko_core::agent::Permissions;

use crate::confine::Sandbox;
use crate::confinement::{Confined, Confinement};
use crate::custom::find;
use crate::process::{
    CommandLine, HeadAndTail, Invocation, KillHandle, OrphanReaper, OutputStream, RunningCommand, environment,
};

/// Bytes kept of what it writes to its standard error.
const MAX_STDERR: usize = 8_000;

/// A long-running program.
#[derive(Clone)]
pub struct ServerProgram {
    /// Its name in messages, and that of the folders that hold what its tools keep.
    pub name: String,
    /// The program: an absolute path, a path with a slash relative to the project, or a name that is looked up in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that it gets besides those of every command. May hold keys.
    pub variables: Vec<(String, String)>,
    /// Where it runs.
    pub directory: PathBuf,
    /// What it may touch.
    pub permissions: Arc<Permissions>,
}

impl std::fmt::Debug for ServerProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerProgram")
            .field("name", &self.name)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// A program that was started. Dropping it ends the program.
#[derive(Debug)]
pub struct ServerProcess {
    handle: KillHandle,
    state: Arc<Mutex<ServerState>>,
}

#[derive(Debug)]
struct ServerState {
    stderr: HeadAndTail,
    /// How it ended; `None` while it runs.
    end: Option<String>,
}

impl ServerProcess {
    /// Starts the program in the project at `root`. The socket is its standard input and output. Blocks while the system
    /// starts the process.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub fn start(
        server: &ServerProgram,
        root: &Path,
        confinement: &Confinement,
    ) -> Result<(Self, UnixStream), String> {
        let confined = |sandbox: &Sandbox| Confined {
            sandbox: sandbox.clone(),
            who: server.name.clone(),
            permissions: Arc::clone(&server.permissions),
            approved_hosts: Vec::new(),
            root: root.to_owned(),
            also: Vec::new(),
            layered: Vec::new(),
            changes: None,
            lasts: true,
        };
        let confined = confinement.sandbox()?.map(confined);
        let named = server.permissions.env.as_deref().unwrap_or_default();
        let mut environment = environment(std::env::vars_os(), named);
        for (name, value) in &server.variables {
            environment.retain(|(other, _)| other != name.as_str());
            environment.push((OsString::from(name), OsString::from(value)));
        }
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let program = find(&server.program, root, path)?;
        let failed = |error: std::io::Error| format!("its program could not be run: {error}");
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let line = CommandLine {
            program: Invocation::Server {
                path: program,
                arguments: server.arguments.iter().map(OsString::from).collect(),
                socket: Arc::new(theirs),
            },
            directory: server.directory.clone(),
            environment,
            timeout: None,
            reaper: OrphanReaper::default(),
            confined,
        };
        let handle = KillHandle::default();
        let running = handle.start(&line).map_err(failed)?;
        // The last of our copies of its end: from now on the socket closes when the program ends.
        drop(line);
        let state = Arc::new(Mutex::new(ServerState { stderr: HeadAndTail::new(MAX_STDERR), end: None }));
        let followed = Arc::clone(&state);
        // If no thread can be started, dropping the closure drops the command, which kills it.
        std::thread::Builder::new()
            .name("server".to_owned())
            .spawn(move || follow(running, &followed))
            .map_err(failed)?;
        Ok((Self { handle, state }, ours))
    }

    /// What it wrote to its standard error: the beginning and the end of it.
    #[must_use]
    pub fn stderr(&self) -> String {
        lock(&self.state).stderr.text().trim().to_owned()
    }

    /// How it ended; `None` while it runs.
    #[must_use]
    pub fn end(&self) -> Option<String> {
        lock(&self.state).end.clone()
    }

    /// Ends it with everything it started, without waiting: [`settle`](crate::settle) does.
    pub fn kill(&self) {
        self.handle.kill();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn follow(running: RunningCommand, state: &Mutex<ServerState>) {
    let finished = running.finish(&mut |source, bytes| {
        if source == OutputStream::Err {
            lock(state).stderr.push(bytes);
        }
    });
    lock(state).end = Some(match finished {
        Ok(finished) => {
            let refused = finished.refusals.take().text();
            format!("{}{}{refused}", finished.cause.text(), if refused.is_empty() { "" } else { "\n" })
        }
        Err(error) => error.to_string(),
    });
}

fn lock(state: &Mutex<ServerState>) -> MutexGuard<'_, ServerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::time::{Duration, Instant};

    fn program(script: &str) -> ServerProgram {
        ServerProgram {
            name: "a".to_owned(),
            program: "bash".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            variables: vec![("GREETING".to_owned(), "hello".to_owned())],
            directory: std::env::temp_dir(),
            permissions: Arc::default(),
        }
    }

    fn start(script: &str) -> (ServerProcess, UnixStream) {
        let (process, socket) =
            ServerProcess::start(&program(script), &std::env::temp_dir(), &Confinement::Off).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        (process, socket)
    }

    #[track_caller]
    fn wait_for_end(process: &ServerProcess) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(end) = process.end() {
                return end;
            }
            assert!(Instant::now() < deadline, "it did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_program_is_talked_with_until_its_input_ends() {
        let (process, mut socket) =
            start("echo note >&2; while read -r line; do echo \"$GREETING $line\"; done; exit 3");
        let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
        for word in ["one", "two"] {
            writeln!(socket, "{word}").unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), format!("hello {word}"));
        }
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(wait_for_end(&process), "exit code 3");
        assert_eq!(process.stderr(), "note");
    }

    #[test]
    fn it_is_ended_with_what_it_started() {
        let (process, socket) = start("sleep 1000 & echo $!; wait");
        let mut lines = BufReader::new(socket).lines();
        let child: u32 = lines.next().unwrap().unwrap().parse().unwrap();
        process.kill();
        wait_for_end(&process);
        // A process that has not been collected yet is only a line in a table.
        let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        let is_alive = state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']));
        assert!(!is_alive, "{state}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let absent = ServerProgram { program: "no-such-program".into(), ..program("") };
        let why = ServerProcess::start(&absent, Path::new("/"), &Confinement::Off).unwrap_err();
        assert!(why.contains("no-such-program"), "{why}");
    }
}
