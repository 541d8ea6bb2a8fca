//! `rawko resume [ID]`: goes on with a session where its journal ends.

use clap::Args;
use rawko::Run;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::reporters::Detail;
use crate::telling::Telling;
use crate::workspace::Workspace;

/// Options of `rawko resume`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Arguments {
    /// Its id, or the beginning or end of it; the latest unfinished one where left out
    id: Option<String>,
    #[command(flatten)]
    telling: Telling,
    /// Take this folder's configuration at its word this once, trusted or not
    #[arg(long, short)]
    yes: bool,
}

/// Resumes the session.
pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> Result<Exit, Failure> {
    arguments.telling.carry(workspace, false, || prepare(workspace, arguments))
}

fn prepare(workspace: &Workspace, arguments: &Arguments) -> Result<Run, Failure> {
    let rawko = workspace.builder().trusted(arguments.yes).build()?;
    if arguments.telling.detail() != Detail::Quiet {
        workspace.warn(&rawko);
    }
    Ok(rawko.resume(arguments.id.as_deref())?)
}
