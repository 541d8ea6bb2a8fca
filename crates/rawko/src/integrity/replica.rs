//! A copy of the project, in a temporary folder, in which commands are run.
//!
//! It holds a tree, links to what git ignores (installed packages and the like), and a repository with the same history,
//! which commands may write to without harm.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rawko_core::facts::CommandRun;
use rawko_tools::CommandRunner;
use tempfile::TempDir;

use super::kinds::Conventions;
use crate::checkpoint::{CheckpointError, Trees, Version};

/// Where builds of Rust keep what they made: copying it spares building every dependency again.
const TARGET: &str = "target";

/// A copy of the project.
#[derive(Debug)]
pub(super) struct Replica {
    folder: TempDir,
    project: PathBuf,
}

impl Replica {
    /// Writes the tree that `choose` picks, and links the ignored `entries` that do not hold what is `avoided`.
    /// `with_target`: also what builds left.
    pub(super) fn new(
        original: &Path,
        trees: &Trees,
        choose: &dyn Fn(&str) -> Version,
        entries: &BTreeSet<String>,
        avoided: &BTreeSet<&str>,
        with_target: bool,
    ) -> Result<Self, CheckpointError> {
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |error| CheckpointError::io("cannot create", &path, error)
        };
        let temporary = std::env::temp_dir();
        let folder = tempfile::Builder::new().prefix("rawko-verify-").tempdir().map_err(wrong(&temporary))?;
        let project = folder.path().join("tree").join(original.file_name().unwrap_or("project".as_ref()));
        std::fs::create_dir_all(&project).map_err(wrong(&project))?;
        trees.write(&project, choose)?;
        // Without a repository, commands that ask git say so.
        let _ = repository(&original.join(".git"), &project.join(".git"));
        let table = Conventions::get();
        for entry in entries {
            let path = entry.trim_end_matches('/');
            let name = path.rsplit('/').next().unwrap_or(path);
            let is_left_out = table.is_output(name) && !(with_target && name == TARGET);
            let holds = |avoided: &&&str| **avoided == path || avoided.starts_with(&format!("{path}/"));
            if is_left_out || avoided.iter().any(|path| holds(&path)) {
                continue;
            }
            let (from, to) = (original.join(path), project.join(path));
            if let Some(parent) = to.parent() {
                std::fs::create_dir_all(parent).map_err(wrong(parent))?;
            }
            if to.symlink_metadata().is_err() {
                symlink(&from, &to).map_err(wrong(&to))?;
            }
        }
        Ok(Self { folder, project })
    }

    /// Makes these programs be found by their names before any other.
    pub(super) fn with_programs(self, programs: &BTreeMap<String, PathBuf>) -> Result<Self, CheckpointError> {
        let folder = self.programs();
        let make = || -> std::io::Result<()> {
            std::fs::create_dir(&folder)?;
            for (name, program) in programs {
                let path = folder.join(name);
                let program = program.to_string_lossy().replace('\'', r"'\''");
                // A link would hide from a program where it is installed.
                std::fs::write(&path, format!("#!/bin/sh\nexec '{program}' \"$@\"\n"))?;
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
            }
            Ok(())
        };
        make().map_err(|error| CheckpointError::io("cannot create", &folder, error))?;
        Ok(self)
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// Runs commands in it, in order, up to the first that fails.
    pub(super) async fn run(
        &self,
        runner: &CommandRunner,
        commands: &[String],
        timeout: Duration,
    ) -> Vec<CommandRun> {
        let mut runner = runner.within(&self.project);
        if self.programs().is_dir() {
            runner = runner.finding(self.programs());
        }
        runner.run_all(commands, timeout).await
    }
}

/// Makes a repository at `to` that borrows its objects from the one at `from`. Nothing of its configuration is taken over:
/// it could name programs.
fn repository(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.symlink_metadata()?.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(to.join("objects/info"))?;
    copy_files(&from.join("refs"), &to.join("refs"))?;
    for name in ["HEAD", "packed-refs", "index", "shallow"] {
        let found = from.join(name);
        if found.is_file() {
            std::fs::copy(found, to.join(name))?;
        }
    }
    std::fs::write(to.join("objects/info/alternates"), format!("{}\n", from.join("objects").display()))?;
    std::fs::write(to.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
}

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_files(&entry.path(), &to.join(entry.file_name()))?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
