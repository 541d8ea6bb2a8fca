//! Git, as rawko itself asks it: the one place that starts it.
//!
//! The environment can name another repository than the one that is meant, and a repository names programs for git to run:
//! hooks, a watcher, helpers. So there are three ways to ask, none of which runs hooks or a watcher. *Alone*: with an environment
//! and settings of its own, nothing of the user's and nothing of the network. *As the user*: with the user's settings and ways to
//! log in, about no repository that a variable names, and fetching nothing unasked. *Inheriting*: with the whole environment, as
//! in the user's terminal. What else a repository can name (filters above all) is the caller's to switch off or not to ask for.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::bounded::output_within;
use crate::temporary;

/// The command line wins over every file, whatever includes it.
const NO_PROGRAMS: [&str; 2] = ["core.fsmonitor=false", "core.hooksPath=/dev/null"];

/// What would be done besides what is asked, or be another thing for each user.
const UNATTENDED_SETTINGS: [&str; 6] = [
    "core.attributesFile=/dev/null",
    "core.untrackedCache=false",
    "core.logAllRefUpdates=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
];

/// Older versions of git ignore some of these; newer ones need them.
const UNATTENDED: [(&str, &str); 9] = [
    ("LC_ALL", "C"),
    ("GIT_ASKPASS", "/bin/false"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("SSH_ASKPASS", "/bin/false"),
    ("SSH_ASKPASS_REQUIRE", "force"),
];

const ALONE: [(&str, &str); 6] = [
    ("PATH", "/usr/bin:/bin"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_TRACE2", "0"),
];

/// Most bytes of an answer.
const MAX_ANSWER: usize = 512 * 1024 * 1024;
/// Most bytes of what git complains about.
const MAX_COMPLAINT: u64 = 16 * 1024;

/// Why git gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// It could not be started or read.
    #[error("{} could not be run: {source}", program.display())]
    NotRun {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It was ended because it took longer than this.
    #[error("it took longer than {} s", .0.as_secs())]
    TooSlow(Duration),
    /// It was ended because it wrote more than this many bytes.
    #[error("it wrote more than {} MiB", .0 >> 20)]
    TooLarge(u64),
    /// It ended with a failure: what it said, or its status.
    #[error("{0}")]
    Refused(String),
}

/// One question to git. What goes wrong becomes an `E`.
pub struct Git<E = GitError> {
    command: Command,
    input: Result<Stdio, GitError>,
    time: Option<Duration>,
    size: Option<(PathBuf, u64)>,
    failed: Box<dyn FnOnce(GitError) -> E>,
}

impl Git {
    /// With nothing of the user's: an environment of its own, no settings but the repository's, no network, and no program
    /// that the repository names, but for filters. Works in the root folder.
    #[must_use]
    pub fn alone(program: &Path) -> Self {
        let mut git = Self::new(program);
        git.command.env_clear().envs(ALONE).current_dir("/");
        git.no_programs().settings(["protocol.allow=never", "safe.bareRepository=explicit"]).unattended()
    }

    /// With the user's settings and ways to log in, whatever repository the environment names. Hooks and watchers are not
    /// run.
    #[must_use]
    pub fn as_user(program: &Path) -> Self {
        let mut git = Self::new(program);
        let is_login = |name: &[u8]| name.starts_with(b"GIT_SSH") || name == b"GIT_ASKPASS";
        for (name, _) in std::env::vars_os() {
            let bytes = name.as_encoded_bytes();
            if bytes.starts_with(b"GIT_") && !is_login(bytes) {
                git.command.env_remove(name);
            }
        }
        git.no_programs()
    }

    /// With the whole environment: a variable may name the repository or log in, and a partial clone fetches what it lacks.
    /// Hooks and watchers are not run.
    #[must_use]
    pub fn inheriting(program: &Path) -> Self {
        Self::new(program).settings(NO_PROGRAMS)
    }

    fn new(program: &Path) -> Self {
        Self {
            command: Command::new(program),
            input: Ok(Stdio::null()),
            time: None,
            size: None,
            failed: Box::new(std::convert::identity),
        }
    }

    fn no_programs(self) -> Self {
        self.env("GIT_NO_LAZY_FETCH", "1").settings(NO_PROGRAMS)
    }

    /// Turns what goes wrong into an error of the caller's.
    #[must_use]
    pub fn or<E>(self, failed: impl FnOnce(GitError) -> E + 'static) -> Git<E> {
        let Self { command, input, time, size, .. } = self;
        Git { command, input, time, size, failed: Box::new(failed) }
    }
}

impl<E> Git<E> {
    /// For a process at which no person looks: no prompt, messages in English, no way to log in that the environment names,
    /// nothing done besides what is asked. Ctrl-C at the terminal does not end it: it leads a process group.
    #[must_use]
    pub fn unattended(mut self) -> Self {
        for name in ["GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT"] {
            self.command.env_remove(name);
        }
        self.command.envs(UNATTENDED).process_group(0).arg("--no-pager");
        self.settings(UNATTENDED_SETTINGS)
    }

    /// Works in this folder.
    #[must_use]
    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Has this file for its index.
    #[must_use]
    pub fn index(self, file: &Path) -> Self {
        self.env("GIT_INDEX_FILE", file)
    }

    /// Also looks for objects in these folders.
    #[must_use]
    pub fn alternates(self, folders: &[PathBuf]) -> Self {
        if folders.is_empty() {
            return self;
        }
        let quoted: Vec<Vec<u8>> =
            folders.iter().map(|folder| quoted(folder.as_os_str().as_bytes())).collect();
        self.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", OsString::from_vec(quoted.join(&b':')))
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets variables of the environment.
    #[must_use]
    pub fn envs<N: AsRef<OsStr>, V: AsRef<OsStr>>(mut self, all: impl IntoIterator<Item = (N, V)>) -> Self {
        self.command.envs(all);
        self
    }

    /// Takes a variable away.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Settings like `gc.auto=0`. To be given before the subcommand.
    #[must_use]
    pub fn settings<S: AsRef<OsStr>>(mut self, settings: impl IntoIterator<Item = S>) -> Self {
        for setting in settings {
            self.command.arg("-c").arg(setting);
        }
        self
    }

    /// A setting with a value that need not be text. To be given before the subcommand.
    #[must_use]
    pub fn setting(self, name: &str, value: &OsStr) -> Self {
        let mut setting = OsString::from(format!("{name}="));
        setting.push(value);
        self.settings([setting])
    }

    /// What it writes survives a power cut: git syncs no loose object and no ref unasked. Versions before 2.36
    /// ignore these settings.
    #[must_use]
    pub fn durable(self) -> Self {
        self.settings(["core.fsync=objects,reference", "core.fsyncMethod=batch"])
    }

    /// The subcommand and its arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Reads these bytes.
    #[must_use]
    pub fn input(self, bytes: &[u8]) -> Self {
        // A file, not a pipe: no thread has to write while another reads.
        let file = temporary::file().and_then(|mut file| {
            file.write_all(bytes)?;
            file.rewind()?;
            Ok(file)
        });
        match file {
            Ok(file) => self.reading(file),
            Err(source) => {
                let why = self.not_run(source);
                self.not_asked(why)
            }
        }
    }

    /// Reads from here. Without this and [`input`](Self::input), there is nothing to read.
    #[must_use]
    pub fn reading(mut self, input: impl Into<Stdio>) -> Self {
        self.input = self.input.map(|_| input.into());
        self
    }

    /// Is ended after this time. Without this, it may take as long as it likes.
    #[must_use]
    pub fn within_time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// Is ended once the files below a folder are larger than this many bytes together.
    #[must_use]
    pub fn within_size(mut self, folder: &Path, most: u64) -> Self {
        self.size = Some((folder.to_owned(), most));
        self
    }

    /// Is not started: this is why.
    #[must_use]
    pub fn not_asked(mut self, why: GitError) -> Self {
        self.input = Err(why);
        self
    }

    /// Asks, and gives what git wrote to standard output.
    ///
    /// # Errors
    /// What [`GitError`] says, as the caller's error.
    pub fn answer(mut self) -> Result<Vec<u8>, E> {
        self.ask().map_err(self.failed)
    }

    /// Asks, and gives the answer as text without space around it.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub fn text(self) -> Result<String, E> {
        Ok(String::from_utf8_lossy(&self.answer()?).trim().to_owned())
    }

    /// Asks for an answer that is never empty, and gives it as text without space around it.
    ///
    /// # Errors
    /// As [`answer`](Self::answer), or if the answer is empty.
    pub fn line(mut self) -> Result<String, E> {
        let answer = self.ask().and_then(|answer| match String::from_utf8_lossy(&answer).trim() {
            "" => Err(GitError::Refused("the answer is empty".to_owned())),
            line => Ok(line.to_owned()),
        });
        answer.map_err(self.failed)
    }

    /// Asks, and gives the answer; `None` where git refuses.
    ///
    /// # Errors
    /// If git could not be run, or took too long.
    pub fn answer_if_any(mut self) -> Result<Option<Vec<u8>>, E> {
        match self.ask() {
            Ok(answer) => Ok(Some(answer)),
            Err(GitError::Refused(_)) => Ok(None),
            Err(error) => Err((self.failed)(error)),
        }
    }

    fn ask(&mut self) -> Result<Vec<u8>, GitError> {
        let input = std::mem::replace(&mut self.input, Ok(Stdio::null()))?;
        // A file: a helper that stays, like a shared connection of ssh, would keep a pipe open.
        let complaint = temporary::file().and_then(|file| Ok((file.try_clone()?, file)));
        let (mut complaint, for_git) = complaint.map_err(|source| self.not_run(source))?;
        self.command.stdin(input).stdout(Stdio::piped()).stderr(for_git);
        let size = self.size.take();
        let is_small = size.as_ref().map(|(folder, most)| move || !is_larger(folder, *most));
        let watch = is_small.as_ref().map(|is_small| is_small as &dyn Fn() -> bool);
        let output = output_within(&mut self.command, self.time, MAX_ANSWER, watch)
            .map_err(|source| self.not_run(source))?;
        let large = size.filter(|(folder, most)| is_larger(folder, *most));
        match output {
            _ if large.is_some() => Err(GitError::TooLarge(large.map_or(0, |(_, most)| most))),
            None => Err(GitError::TooSlow(self.time.unwrap_or_default())),
            Some((status, answer)) if status.success() => Ok(answer),
            Some((status, _)) => {
                let said = complaint_of(&mut complaint).unwrap_or_default();
                Err(GitError::Refused(if said.is_empty() { status.to_string() } else { said }))
            }
        }
    }

    fn not_run(&self, source: io::Error) -> GitError {
        GitError::NotRun { program: self.command.get_program().into(), source }
    }
}

/// Whether the files below a folder are larger than this many bytes together. What vanishes meanwhile does not count.
fn is_larger(folder: &Path, most: u64) -> bool {
    let (mut folders, mut bytes) = (vec![folder.to_owned()], 0_u64);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() {
                folders.push(entry.path());
            } else {
                bytes = bytes.saturating_add(found.len());
            }
            if bytes > most {
                return true;
            }
        }
    }
    false
}

fn complaint_of(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut said = Vec::new();
    file.take(MAX_COMPLAINT).read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A program in place of git that does this.
    fn program(folder: &Path, script: &str) -> PathBuf {
        let program = folder.join("git");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[track_caller]
    fn check(script: &str, ask: impl FnOnce(Git) -> Git, expected: Result<&str, &str>) {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path(), script);
        let said = ask(Git::alone(&program)).text().map_err(|error| error.to_string());
        assert_eq!(said.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn it_says_what_git_says_or_why_it_does_not() {
        check("cat", |git| git.input(b"read\n"), Ok("read"));
        check("cat", |git| git, Ok(""));
        check("echo a; echo b >&2; exit 3", |git| git, Err("b"));
        check("exit 3", |git| git, Err("exit status: 3"));
        check("sleep 600", |git| git.within_time(Duration::from_millis(50)), Err("it took longer than 0 s"));
        let flood = tempfile::tempdir().unwrap();
        let folder = flood.path().to_owned();
        let endless = format!("head -c 3000000 /dev/zero > {}/flood; sleep 600", folder.display());
        check(&endless, |git| git.within_size(&folder, 1 << 21), Err("it wrote more than 2 MiB"));
        check("echo asked", |git| git.not_asked(GitError::Refused("no".to_owned())).input(b""), Err("no"));
        let error = Git::alone(Path::new("/nowhere/git")).text().unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/git could not be run: "), "{error}");
    }

    #[test]
    fn an_answer_that_must_be_there_is_not_empty() {
        let folder = tempfile::tempdir().unwrap();
        let line = |script: &str| Git::alone(&program(folder.path(), script)).line();
        assert_eq!(line("echo a").unwrap(), "a");
        assert_eq!(line("echo").unwrap_err().to_string(), "the answer is empty");
    }

    #[test]
    fn no_way_runs_hooks_and_only_one_fetches_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path(), r#"echo "${GIT_NO_LAZY_FETCH:-fetches} $*""#);
        let said = |git: Git| git.args(["push"]).text().unwrap();
        for (git, fetches) in [
            (Git::alone(&program), "1"),
            (Git::as_user(&program), "1"),
            (Git::inheriting(&program), "fetches"),
        ] {
            let said = said(git);
            assert!(said.starts_with(fetches) && said.contains("core.hooksPath=/dev/null"), "{said}");
        }
    }

    #[test]
    fn a_helper_that_stays_is_not_waited_for() {
        let time = Duration::from_secs(60);
        check("sleep 600 >/dev/null & echo done", |git| git.within_time(time), Ok("done"));
    }

    #[test]
    fn a_refusal_is_no_answer_and_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let ask = |script: &str| Git::as_user(&program(folder.path(), script)).answer_if_any().unwrap();
        assert_eq!(ask("exit 1"), None);
        assert_eq!(ask("printf a"), Some(b"a".to_vec()));
    }
}
