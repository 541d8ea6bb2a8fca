//! `rawko discard ID`: throws the work of an isolated run away.

use crate::commands::kept;
use crate::commands::land::{TreeArgs, print};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// Throws the work away.
pub(crate) fn run(workspace: &Workspace, arguments: &TreeArgs) -> Result<Exit, Failure> {
    workspace.gain_mounts_for(Some(&arguments.id))?;
    let (project, store) = (workspace.project()?, workspace.sessions()?);
    let session = kept::whole_id(&store, &arguments.id)?;
    let landing = rawko::discard(&project, &store, &session)?;
    print(workspace, arguments, &session, &landing)?;
    Ok(Exit::Success)
}
