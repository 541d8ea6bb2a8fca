//! Repairs a damaged session: its intact records, and the checkpoints that they name, in a new one.

use std::path::Path;

use crate::checkpoint::Checkpoints;
use crate::journal::{JournalError, Repaired, SessionStore};

/// Copies the intact records of the session `id` of `project` into a new session, with the checkpoints that they name.
/// Nothing of the damaged one is changed.
///
/// # Errors
/// As [`SessionStore::repair`].
pub fn repair(project: &Path, id: &str) -> Result<Repaired, JournalError> {
    let store = SessionStore::of_project(project);
    let old = store.find(id)?;
    store.repair_with(id, |path, made| {
        let (folder, session) = (old.parent().unwrap_or(project), made.header.forked_from.as_ref());
        let session = session.map(|from| from.session.as_str()).unwrap_or_default();
        let copy = Checkpoints::of_journal(project, path, made);
        let shared = Checkpoints::new(project, folder, session).share_with(&copy);
        shared.err().map(|error| format!("its checkpoints are not shared: {error}"))
    })
}
