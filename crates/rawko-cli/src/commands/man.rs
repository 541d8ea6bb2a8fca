//! The hidden command `man`: the manual pages, one for each command, as packages install them.

use std::path::PathBuf;

use clap::{Args, Command};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Options of the command `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder; it is made where there is none
    dir: PathBuf,
}

/// Writes `rawko.1`, `rawko-run.1` and so on, where `cli` is the command line.
pub(crate) fn run(workspace: &Workspace, arguments: &ManArgs, cli: Command) -> Result<Exit, Failure> {
    let folder = workspace.folder().join(&arguments.dir);
    let written = std::fs::create_dir_all(&folder).and_then(|()| clap_mangen::generate_to(cli, &folder));
    written.map_err(|error| {
        Failure::usage(format!("cannot write manual pages into {}: {error}", folder.display()))
            .with_hint("name a folder that you may write to")
    })?;
    Ok(Exit::Success)
}
