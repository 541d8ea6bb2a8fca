//! Repairs a damaged session: its intact records, and the checkpoints that they name, in a new one.

use std::path::Path;

use crate::channel::seal::Sealer;
use crate::checkpoint::Checkpoints;
use crate::config::TrustStore;
use crate::journal::{JournalError, JournalHeader, Repaired, SessionStore};

/// Copies the intact records of the session `id` of `project` into a new session, with the checkpoints that they name.
/// Nothing of the damaged one is changed. Where that has the user's seal, by the key beside `trust`, the copy gets one too.
///
/// # Errors
/// As [`SessionStore::repair`].
pub fn repair(project: &Path, id: &str, trust: Option<&TrustStore>) -> Result<Repaired, JournalError> {
    let store = SessionStore::of_project(project);
    let old = store.find(id)?;
    let real = project.canonicalize().unwrap_or_else(|_| project.to_owned());
    let seal = |old: &JournalHeader, new: &JournalHeader| {
        let sealer = Sealer::of(trust?).ok()?;
        sealer.is_own(old, &real).then(|| sealer.seal(new, &real))
    };
    store.repair_with(id, seal, |path, made| {
        let (folder, session) = (old.parent().unwrap_or(project), made.header.forked_from.as_ref());
        let session = session.map(|from| from.session.as_str()).unwrap_or_default();
        let copy = Checkpoints::of_journal(project, path, made);
        let shared = Checkpoints::new(project, folder, session).share_with(&copy);
        shared.err().map(|error| format!("its checkpoints are not shared: {error}"))
    })
}
