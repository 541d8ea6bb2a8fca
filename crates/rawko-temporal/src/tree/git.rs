//! Git, asked in a way that runs no code of the repository.
//!
//! Two ways to ask. *Locally*: with an environment and settings of its own, nothing of the user's, nothing of the network.
//! *Remotely*: with the worker's own configuration of git, which is how it reaches a repository (credential helpers,
//! proxies, keys), but without the `GIT_` variables of the environment, without a prompt, and by no protocol but that of the
//! address. What a clone's own settings could name is overridden here, and the file is written anew before it is used
//! (`task`). Filters are switched off by the clone's `info/attributes`, which wins over any `.gitattributes`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rawko_tools::output_within;

use super::error::TreeError;
use super::lock::TreeLock;
use super::names::{CommitId, Repository};
use super::place::WorkPlace;

/// The command line wins over every file.
const SETTINGS: [&str; 17] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.untrackedCache=false",
    "core.logAllRefUpdates=false",
    "core.sparseCheckout=false",
    "credential.interactive=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "push.gpgSign=false",
    // A pack arrives whole or not at all. Single objects of a killed fetch could be a commit without its files.
    "fetch.unpackLimit=1",
    "transfer.unpackLimit=1",
    // A connection that stalls ends.
    "http.lowSpeedLimit=100",
    "http.lowSpeedTime=120",
];

/// The same for the other end, where it is a process of this machine. A shell reads them.
const OTHER_END: [&str; 7] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    // The one program of its settings that receiving runs. `:` does nothing, and says nothing of alternates.
    "core.alternateRefsCommand=:",
    "gc.auto=0",
    "maintenance.auto=false",
    "receive.autogc=false",
    "receive.denyCurrentBranch=refuse",
];

const ENVIRONMENT: [(&str, &str); 10] = [
    ("LC_ALL", "C"),
    ("GIT_ASKPASS", "/bin/false"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("SSH_ASKPASS", "/bin/false"),
    ("SSH_ASKPASS_REQUIRE", "force"),
];

const NO_CONFIGURATION: [(&str, &str); 5] = [
    ("PATH", "/usr/bin:/bin"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
];

/// Most bytes of an answer.
const MAX_ANSWER: usize = 256 * 1024 * 1024;
/// Most bytes of what git complains about.
const MAX_COMPLAINT: u64 = 16 * 1024;
/// What git may take without the network.
const LOCAL: Duration = Duration::from_secs(600);

/// The first git in `path` that is outside the work place.
pub(super) fn find(path: Option<&OsStr>, work_place: &Path) -> Option<PathBuf> {
    let folders = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    // A shim may decide by its name what it is, so the name as found is what is run.
    folders.into_iter().filter(|folder| folder.is_absolute()).map(|folder| folder.join("git")).find(
        |program| {
            program.canonicalize().is_ok_and(|real| {
                let access = rustix::fs::Access::EXEC_OK;
                !real.starts_with(work_place) && real.is_file() && rustix::fs::access(&real, access).is_ok()
            })
        },
    )
}

/// One question to git.
pub(super) struct GitCommand<'a> {
    command: Command,
    doing: &'static str,
    git_folder: PathBuf,
    remote: Option<&'a Repository>,
    time: Duration,
    input: Stdio,
}

impl<'a> GitCommand<'a> {
    fn new(
        place: &WorkPlace,
        lock: Option<&TreeLock>,
        doing: &'static str,
        git_folder: &Path,
    ) -> Result<Self, TreeError> {
        #[cfg(test)]
        super::tests::count();
        let mut command = Command::new(&place.git);
        // The leader of a group: ctrl-C at the terminal is for the worker, and what takes too long ends with its helpers.
        command.process_group(0).current_dir("/");
        let input = lock.map_or_else(|| Ok(Stdio::null()), TreeLock::as_input)?;
        Ok(Self { command, doing, git_folder: git_folder.to_owned(), remote: None, time: LOCAL, input })
    }

    fn settings(mut self) -> Self {
        self.command.arg("--no-pager");
        for setting in SETTINGS {
            self.command.args(["-c", setting]);
        }
        self.command.env("GIT_DIR", &self.git_folder);
        self
    }

    /// About a repository of this machine. `doing` completes "git cannot …".
    pub(super) fn local(
        place: &WorkPlace,
        lock: &TreeLock,
        doing: &'static str,
        git_folder: &Path,
    ) -> Result<Self, TreeError> {
        let mut ask = Self::new(place, Some(lock), doing, git_folder)?;
        ask.command.env_clear().envs(ENVIRONMENT).envs(NO_CONFIGURATION);
        Ok(ask.settings())
    }

    /// To a remote repository. `git_folder` is the one of this machine that it is for, if there is one.
    pub(super) fn remote(
        place: &WorkPlace,
        lock: Option<&TreeLock>,
        doing: &'static str,
        git_folder: Option<&Path>,
        repository: &'a Repository,
    ) -> Result<Self, TreeError> {
        place.check(repository)?;
        let mut ask = Self::new(place, lock, doing, git_folder.unwrap_or(Path::new("/dev/null")))?;
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_"))
        {
            ask.command.env_remove(name);
        }
        ask.command.envs(ENVIRONMENT).env("GIT_ALLOW_PROTOCOL", repository.protocols());
        ask.remote = Some(repository);
        ask.time = place.network;
        Ok(ask.settings())
    }

    /// In the files of this tree.
    pub(super) fn in_tree(mut self, tree: &Path) -> Self {
        self.command.env("GIT_WORK_TREE", tree).current_dir(tree);
        self
    }

    pub(super) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(super) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// The option with which the other end of a repository on this machine runs no hooks either, and cleans nothing up.
    /// Other servers are as their owner wants them.
    pub(super) fn other_end(mut self, option: &str, command: &str) -> Self {
        if self.remote.is_some_and(Repository::is_path) {
            let git = self.command.get_program().to_string_lossy().replace('\'', r"'\''");
            let settings = OTHER_END.map(|setting| format!("-c {setting} ")).concat();
            self.command.arg(format!("{option}='{git}' {settings}{command}"));
        }
        self
    }

    /// What git reads. Without this, it holds the lock.
    pub(super) fn input(mut self, bytes: &[u8]) -> Result<Self, TreeError> {
        let file = tempfile::tempfile().and_then(|mut file| {
            file.write_all(bytes)?;
            file.rewind()?;
            Ok(file)
        });
        self.input = file.map_err(|error| self.failed(error.to_string()))?.into();
        Ok(self)
    }

    /// Asks, and gives what git wrote to standard output.
    pub(super) fn answer(mut self) -> Result<Vec<u8>, TreeError> {
        // A file: a helper that runs on, like a shared connection of ssh, would keep a pipe open.
        let complaint = tempfile::tempfile().and_then(|file| Ok((file.try_clone()?, file)));
        let (mut complaint, for_git) = complaint.map_err(|error| self.failed(error.to_string()))?;
        let input = std::mem::replace(&mut self.input, Stdio::null());
        self.command.stdin(input).stdout(Stdio::piped()).stderr(for_git);
        let output = output_within(&mut self.command, self.time, MAX_ANSWER)
            .map_err(|error| self.failed(error.to_string()))?;
        let Some(output) = output else {
            let place =
                self.remote.map_or_else(|| self.git_folder.display().to_string(), ToString::to_string);
            return Err(TreeError::TooSlow { doing: self.doing, place, seconds: self.time.as_secs() });
        };
        if output.status.success() {
            return Ok(output.answer);
        }
        let said = complaint_of(&mut complaint).unwrap_or_default();
        Err(self.failed(if said.is_empty() { output.status.to_string() } else { said }))
    }

    /// Asks, and gives the answer as text.
    pub(super) fn text(self) -> Result<String, TreeError> {
        Ok(String::from_utf8_lossy(&self.answer()?).trim().to_owned())
    }

    /// Asks for the id of a commit.
    pub(super) fn commit_id(self) -> Result<CommitId, TreeError> {
        self.text()?.parse()
    }

    fn failed(&self, message: String) -> TreeError {
        match self.remote {
            Some(repository) => {
                TreeError::Remote { doing: self.doing, repository: repository.to_string(), message }
            }
            None => TreeError::Git { doing: self.doing, place: self.git_folder.clone(), message },
        }
    }
}

fn complaint_of(file: &mut File) -> std::io::Result<String> {
    file.rewind()?;
    let mut said = Vec::new();
    file.take(MAX_COMPLAINT).read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}
