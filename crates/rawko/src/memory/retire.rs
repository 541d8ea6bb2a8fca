//! Retires memories: no agent gets them any more, and their files stay.
//!
//! Makes sure that no more is retired than was asked for: what takes the place of a memory must be given itself, or
//! agents would get neither. What is retired already stays as it is.

use rawko_core::Timestamp;
use rawko_core::memory::{Confirmation, Memory, Reason, reference_key, referred_keys, superseded};
use serde_json::json;

use super::store::{Inventory, MemoryStore};
use super::write::{self, WriteError};

/// What it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retirement {
    /// The memory is given no more from now on.
    Done,
    /// It was not given before, for this reason; nothing was changed.
    Already(Reason),
}

impl MemoryStore {
    /// Lets a memory expire at an instant. The file stays.
    ///
    /// # Errors
    /// Where there is no such memory, or its file cannot be changed.
    pub fn retire(&self, path: &str, at: Timestamp) -> Result<Retirement, WriteError> {
        let _lock = self.lock()?;
        let Inventory { memories, .. } = self.inventory();
        if let Some(reason) = not_given(&memories, path, at) {
            return Ok(Retirement::Already(reason));
        }
        let text = self.to_change(path)?;
        write::set_key(&self.folder(), path, &text, "expiresAt", json!(at.to_rfc3339()))?;
        Ok(Retirement::Done)
    }

    /// Keeps a proposed memory: it counts as confirmed from now on.
    ///
    /// # Errors
    /// Where there is no such memory, or its file cannot be changed.
    pub fn confirm(&self, path: &str) -> Result<(), WriteError> {
        let _lock = self.lock()?;
        let text = self.to_change(path)?;
        write::set_key(&self.folder(), path, &text, "status", json!(Confirmation::Confirmed))
    }

    /// The memories that were proposed by runs, have not been retired, and no person has kept; by path.
    #[must_use]
    pub fn proposed(&self, now: Timestamp) -> Vec<Memory> {
        let all = self.inventory().memories;
        let is_open = |memory: &&Memory| {
            memory.header.status == Confirmation::Proposed && not_given(&all, &memory.path, now).is_none()
        };
        all.iter().filter(is_open).cloned().collect()
    }

    /// Notes in the memory `new` that it takes the place of `old`. Both files stay.
    ///
    /// # Errors
    /// [`WriteError::NotGiven`] where `new` is not given itself; else where there is no memory `new`, or its file cannot be changed.
    pub fn supersede(&self, old: &Memory, new: &Memory, now: Timestamp) -> Result<Retirement, WriteError> {
        let path = &new.path;
        let _lock = self.lock()?;
        let Inventory { memories, .. } = self.inventory();
        if let Some(reason) = not_given(&memories, path, now) {
            let instead = given_instead(&memories, path, now).filter(|instead| *instead != old.path);
            return Err(WriteError::NotGiven { path: path.clone(), reason, instead });
        }
        let keys = referred_keys(&old.path, &old.header.title);
        // As it is now: another process may have written since `new` was read.
        let not_found = || WriteError::NotFound { path: path.clone() };
        let new = memories.iter().find(|memory| memory.path == *path).ok_or_else(not_found)?;
        if new.header.supersedes.iter().any(|known| keys.contains(&reference_key(known))) {
            return Ok(Retirement::Already(Reason::Superseded { by: path.clone() }));
        }
        let text = self.to_change(path)?;
        let mut supersedes = new.header.supersedes.clone();
        supersedes.push(old.path.clone());
        write::set_key(&self.folder(), path, &text, "supersedes", json!(supersedes))?;
        Ok(Retirement::Done)
    }
}

/// Why a memory is given to no agent, whatever the task.
fn not_given(memories: &[Memory], path: &str, now: Timestamp) -> Option<Reason> {
    if let Some(by) = superseded(memories).get(path) {
        return Some(Reason::Superseded { by: (*by).to_owned() });
    }
    let memory = memories.iter().find(|memory| memory.path == path)?;
    memory.header.expires_at.filter(|at| *at <= now).map(|at| Reason::Expired { at })
}

/// What is given in the place of a superseded memory, over as many steps as there are.
fn given_instead(memories: &[Memory], path: &str, now: Timestamp) -> Option<String> {
    let by = superseded(memories);
    // A circle has no end.
    let last = (0..=memories.len()).try_fold(path, |at, _| by.get(at).copied().ok_or(at)).err()?;
    (last != path && not_given(memories, last, now).is_none()).then(|| last.to_owned())
}

#[cfg(test)]
#[path = "retire_tests.rs"]
mod tests;
