//! A small git project with a failing test, in a temporary folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rawko::tools::Git;
use serde::Serialize;
use tempfile::TempDir;

use crate::environment::ProcessEnv;
use crate::exit::Exit;
use crate::failure::Failure;

/// Files of the project with their content.
const FILES: [(&str, &str); 3] = [
    ("README.md", include_str!("files/README.md")),
    ("slugify.sh", include_str!("files/slugify.sh")),
    ("tests/run.sh", include_str!("files/tests/run.sh")),
];

/// Of git in the project.
const SETTINGS: [&str; 4] = [
    "user.name=rawko demo",
    "user.email=demo@rawko.invalid",
    "init.defaultBranch=main",
    "commit.gpgSign=false",
];

/// Runs the project's tests.
pub(crate) const TEST_COMMAND: &str = "bash tests/run.sh";

/// The demo project. Dropping it deletes its folder.
#[derive(Debug)]
pub(crate) struct DemoProject {
    folder: TempDir,
    git: PathBuf,
}

/// One run of the project's tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TestRun {
    /// Exit code; absent if a signal ended it.
    pub(crate) exit_code: Option<i32>,
    /// What it printed.
    pub(crate) output: String,
}

impl TestRun {
    /// Whether all tests passed.
    pub(crate) fn is_green(&self) -> bool {
        self.exit_code == Some(0)
    }
}

impl DemoProject {
    /// Writes the project and commits it.
    pub(crate) fn create(environment: ProcessEnv) -> Result<Self, Failure> {
        let cannot_write = |error: std::io::Error| {
            Failure::new(Exit::Failed, format!("cannot write the demonstration's project: {error}"))
                .with_hint("set TMPDIR to a folder that can be written")
        };
        let folder = rawko::tools::temporary::private("rawko-demo-", None).map_err(cannot_write)?;
        fs::create_dir(folder.path().join("tests")).map_err(cannot_write)?;
        for (name, content) in FILES {
            fs::write(folder.path().join(name), content).map_err(cannot_write)?;
        }
        let git = environment
            .program_outside("git", folder.path())
            .ok_or_else(|| missing("git", &std::io::ErrorKind::NotFound.into()))?;
        let project = Self { folder, git };
        project.git(&["init", "--quiet", "--template="])?;
        project.git(&["add", "--all"])?;
        project.git(&["commit", "--quiet", "--no-verify", "--no-gpg-sign", "-m", "A slugify with a bug"])?;
        Ok(project)
    }

    /// Path of the folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the tests.
    pub(crate) fn test(&self) -> Result<TestRun, Failure> {
        let done = Command::new("bash")
            .arg("tests/run.sh")
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| missing("bash", &error))?;
        let mut output = String::from_utf8_lossy(&done.stdout).into_owned();
        output.push_str(&String::from_utf8_lossy(&done.stderr));
        Ok(TestRun { exit_code: done.status.code(), output })
    }

    /// What changed since the first commit.
    pub(crate) fn diff(&self) -> Result<String, Failure> {
        self.git(&["diff", "--no-ext-diff", "--no-color"])
    }

    /// Keeps the folder, and returns its path.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }

    /// git, untouched by the user's configuration, hooks and environment.
    fn git(&self, arguments: &[&str]) -> Result<String, Failure> {
        let git = Git::alone(&self.git).within(self.folder()).settings(SETTINGS).args(arguments);
        let answer = git.answer().map_err(|error| {
            let name = arguments.first().copied().unwrap_or_default();
            let message = format!("git {name} failed in {}: {error}", self.folder().display());
            Failure::new(Exit::Failed, message).with_hint("`rawko doctor` checks git")
        })?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

fn missing(program: &str, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot start {program}: {error}"))
        .with_hint(format!("the demo needs {program}: install it, and make sure that it is in PATH"))
}
