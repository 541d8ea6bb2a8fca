//! Shared by the commands about what a session did to the files: its id, its kept trees, their names, and the errors.

use rawko::checkpoint::{CheckpointError, Checkpoints};
use rawko::journal::{CHECK_ACCESS, Journal, SessionStore, read};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::clean_line;
use crate::workspace::Workspace;

/// The checkpoints of the session that `id` means, its whole id, and its journal.
pub(super) fn checkpoints(
    workspace: &Workspace,
    id: &str,
) -> Result<(String, Checkpoints, Journal), Failure> {
    let folder = workspace.project()?;
    let store = SessionStore::of_project(&folder);
    let path = store.find(id)?;
    rawko::complete_landings(&folder, &store);
    // What the session has in a tree of its own is looked at there.
    workspace.gain_mounts_for(Some(id))?;
    rawko::enter_tree_of_session(&folder, &path)?;
    let journal = read(&path)?;
    let checkpoints = Checkpoints::of_journal(&folder, &path, &journal);
    Ok((clean_line(&journal.header.session), checkpoints, journal))
}

/// The whole id of the session that `id` means.
pub(super) fn whole_id(store: &SessionStore, id: &str) -> Result<String, Failure> {
    let path = store.find(id)?;
    let folder = path.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
    Ok(folder.to_string_lossy().into_owned())
}

/// Which state of the files a checkpoint is.
pub(super) fn place(name: &str) -> String {
    match (name, name.strip_prefix("after-")) {
        ("end", _) => "the session's end".to_owned(),
        (_, Some(number)) => format!("after execution {}", clean_line(number)),
        (number, None) if number.parse::<u32>().is_ok() => format!("before execution {number}"),
        (other, None) => format!("`{}`", clean_line(other)),
    }
}

/// A checkpoint of a session, as part of a sentence.
pub(super) fn checkpoint(name: &str, session: &str) -> String {
    let place = if name == "end" { "at the end".to_owned() } else { place(name) };
    format!("the checkpoint {place} of {session}")
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        let message = error.to_string();
        match error {
            CheckpointError::Unknown { session, .. } => Self::usage(message)
                .with_hint(format!("to see the checkpoints of the session: rawko rewind {session} --list")),
            CheckpointError::BadSession { .. } => Self::usage(message),
            CheckpointError::Git { .. } | CheckpointError::TooSlow { .. } => Self::new(Exit::Failed, message)
                .with_hint("`rawko doctor` checks git; the checkpoints are not affected"),
            CheckpointError::Io { .. } => Self::new(Exit::Failed, message).with_hint(CHECK_ACCESS),
            // The other messages already say what to try.
            _ => Self::new(Exit::Failed, message),
        }
    }
}
