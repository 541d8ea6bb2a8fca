//! The temporary folder of a copy of the project, or of a view of it, and the programs that commands find first there.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rawko_tools::CommandRunner;
use rawko_tools::temporary::{self, TemporaryFolder};

use crate::checkpoint::{CheckpointError, Trees};

/// The folder of programs in it.
const PROGRAMS: &str = "bin";

/// The folder, which is removed with this.
#[derive(Debug)]
pub(super) struct TrialFolder(TemporaryFolder);

impl TrialFolder {
    /// Makes it, and removes those that killed processes left.
    pub(super) fn new(trees: &Trees) -> Result<Self, CheckpointError> {
        temporary::remove_abandoned(trees.toplevel());
        let folder = TemporaryFolder::new(temporary::VERIFY, trees.toplevel());
        folder.map(Self).map_err(cannot_create(&temporary::parent(trees.toplevel())))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Makes these programs be found by their names before any other. To be called once.
    pub(super) fn put_programs(&self, programs: &BTreeMap<String, PathBuf>) -> Result<(), CheckpointError> {
        let folder = self.path().join(PROGRAMS);
        let make = || -> io::Result<()> {
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
        make().map_err(cannot_create(&folder))
    }

    /// A runner whose commands find them.
    pub(super) fn finding_programs(&self, runner: CommandRunner) -> CommandRunner {
        let programs = self.path().join(PROGRAMS);
        if programs.is_dir() { runner.finding(programs) } else { runner }
    }
}

/// The error of something that could not be made at `path`.
pub(super) fn cannot_create(path: &Path) -> impl FnOnce(io::Error) -> CheckpointError {
    let path = path.to_owned();
    move |error| CheckpointError::io("cannot create", &path, error)
}
