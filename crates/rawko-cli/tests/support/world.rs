//! A world of its own for a test: a project, a home, and nothing of the machine's environment but where programs are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rawko::journal::{Journal, SessionStore, read};
use serde_json::Value;

/// Names another place of the binary, for tests that are run by a user who cannot see this one.
pub(crate) const BINARY: &str = "RAWKO_E2E_BINARY";

/// The folder of a world, which goes with everything in it.
pub(crate) struct World(tempfile::TempDir);

impl World {
    /// An empty project and the home of a user without a configuration.
    pub(crate) fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        for name in ["project", "home"] {
            std::fs::create_dir(world.outside().join(name)).unwrap();
        }
        world
    }

    /// A copy of another world, whatever is in it.
    pub(crate) fn copy_of(other: &Self) -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        copy(other.outside(), world.outside());
        world
    }

    /// The folder that holds project and home: outside of what agents may touch.
    pub(crate) fn outside(&self) -> &Path {
        self.0.path()
    }

    /// The project's folder.
    pub(crate) fn project(&self) -> PathBuf {
        self.outside().join("project")
    }

    /// Writes a file of the project.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Writes the user's own configuration, which is trusted.
    pub(crate) fn configure(&self, config: &Value) {
        self.write("../home/config/rawko/config.yaml", &config.to_string());
    }

    /// A program in the project, not started yet.
    pub(crate) fn program(&self, program: &str) -> Command {
        let home = self.outside().join("home");
        let mut command = Command::new(program);
        command
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_STATE_HOME", home.join("state"))
            .env("TMPDIR", self.outside())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .stdin(Stdio::null());
        command
    }

    /// Where the binary is.
    pub(crate) fn binary() -> String {
        std::env::var(BINARY).unwrap_or_else(|_| env!("CARGO_BIN_EXE_rawko").to_owned())
    }

    /// The binary with these arguments in the project, not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(&Self::binary());
        command.args(arguments);
        command
    }

    /// Runs git in the project and gives what it says.
    #[track_caller]
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let identity =
            ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
        let output = self.program("git").args(identity).args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The project's sessions.
    pub(crate) fn store(&self) -> SessionStore {
        SessionStore::of_project(&self.project())
    }

    /// The journal of the only session, verified.
    #[track_caller]
    pub(crate) fn journal(&self) -> Journal {
        let listed = self.store().list().unwrap();
        assert_eq!(listed.len(), 1, "one session was expected: {listed:?}");
        read(&self.store().find("last").unwrap()).unwrap()
    }
}

/// Copies a folder; times and owners do not matter here.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// All regular files below `folder`; links are not followed.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files
}
