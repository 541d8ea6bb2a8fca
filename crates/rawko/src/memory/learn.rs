//! Writes new memories, compared with those that exist.
//!
//! Owns which memories a new one is compared with, and that looking and writing are one step: of two that write the same at the same time,
//! the second one finds the first. How alike two are is the core's ([`likeness`]), how a file is written `write`'s.

use std::collections::BTreeSet;

use rawko_core::memory::words::{fold, stems};
use rawko_core::memory::{Likeness, Memory, Said, likeness, superseded};

use super::store::MemoryStore;
use super::write::{self, NewMemory, WriteError};

/// Memories whose bodies are compared with that of a new one; of those that are given, and of retired ones.
const MAX_COMPARED: usize = 50;
/// Most memories that a new one names as saying otherwise.
const MAX_CONFLICTS: usize = 5;

/// What became of something that was learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Learned {
    /// It is a memory of its own now.
    Written {
        /// Its path.
        path: String,
    },
    /// A memory says it already, or did before it was retired, and gets the note.
    NotedOn {
        /// Its path.
        path: String,
    },
}

/// Which memories make a new one needless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Among {
    /// Those that are given: what a person writes may be one that was retired.
    Given,
    /// Retired ones too: a run that finds out again what a person took back does not restore it.
    Known,
}

/// A memory that a new one was compared with.
struct Compared {
    memory: Memory,
    likeness: Likeness,
    is_retired: bool,
}

impl MemoryStore {
    /// Writes a memory under a name of its own, and returns its path. Retired memories are no duplicates.
    ///
    /// # Errors
    /// [`WriteError::Duplicate`] where one that is given says nearly the same and `force` is not set;
    /// [`WriteError::Invalid`] where it is no valid memory; [`WriteError::Busy`] and [`WriteError::Io`] where it cannot
    /// be written.
    pub fn add(&self, new: &NewMemory, force: bool) -> Result<String, WriteError> {
        write::sound(new)?;
        let folder = self.prepare()?;
        let _lock = self.lock()?;
        if !force && let Some(known) = duplicate(self.compared(new, Among::Given)) {
            return Err(WriteError::Duplicate { path: known.path, title: known.header.title });
        }
        write::create(&folder, new)
    }

    /// Keeps what a run found out: writes a memory that names those that contradict it, or adds `note` to one that says
    /// nearly the same, retired or not.
    ///
    /// # Errors
    /// [`WriteError::Invalid`] where it is no valid memory; [`WriteError::Busy`] and [`WriteError::Io`] where nothing
    /// can be written.
    pub fn learn(&self, new: &NewMemory, note: &str) -> Result<Learned, WriteError> {
        write::sound(new)?;
        let folder = self.prepare()?;
        let _lock = self.lock()?;
        let compared = self.compared(new, Among::Known);
        // What says otherwise is given beside it from now on, whatever the two are called.
        let contrary = compared
            .iter()
            .filter(|one| one.likeness == Likeness::Contrary && !one.is_retired)
            .map(|one| one.memory.path.clone());
        let conflicts_with = new.conflicts_with.iter().cloned().chain(contrary.take(MAX_CONFLICTS)).collect();
        match duplicate(compared) {
            Some(Memory { path, .. }) => {
                write::note(&folder, &path, &self.to_change(&path)?, note)?;
                Ok(Learned::NotedOn { path })
            }
            None => {
                let new = NewMemory { conflicts_with, ..new.clone() };
                write::create(&folder, &new).map(|path| Learned::Written { path })
            }
        }
    }

    /// Notes on a memory that it was found out again; says whether there was room for it.
    ///
    /// # Errors
    /// Where there is no such memory, or it cannot be written.
    pub fn note(&self, path: &str, note: &str) -> Result<bool, WriteError> {
        let _lock = self.lock()?;
        write::note(&self.folder(), path, &self.to_change(path)?, note)
    }

    /// How alike the new memory is to those that share most words of title, patterns and tags with it.
    fn compared(&self, new: &NewMemory, among: Among) -> Vec<Compared> {
        let words = Words::of(&new.title, &new.when_to_use, &new.tags);
        let all = self.inventory().memories;
        let superseded: BTreeSet<String> = superseded(&all).into_keys().map(str::to_owned).collect();
        let mut near: Vec<(usize, bool, Memory)> = all
            .into_iter()
            .map(|memory| {
                let header = &memory.header;
                let is_expired = header.expires_at.is_some_and(|at| at <= new.discovered_at);
                let is_retired = is_expired || superseded.contains(&memory.path);
                let common = match (is_retired, among) {
                    (true, Among::Given) => 0,
                    _ => words.common(&Words::of(&header.title, &header.when_to_use, &header.tags)),
                };
                (common, is_retired, memory)
            })
            .filter(|(common, _, _)| *common > 0)
            .collect();
        near.sort_by_key(|(common, _, _)| std::cmp::Reverse(*common));
        // Apart, so that many that were retired do not hide one that is given.
        let mut left = [MAX_COMPARED; 2];
        near.retain(|(_, is_retired, _)| {
            let left = &mut left[usize::from(*is_retired)];
            let fits = *left > 0;
            *left = left.saturating_sub(1);
            fits
        });
        let compare = |(_, is_retired, memory): (usize, bool, Memory)| {
            let known = self
                .text(&memory.path)
                .map(|(_, body)| write::without_notes(&body).to_owned())
                .unwrap_or_default();
            let header = &memory.header;
            let known = Said { kind: header.kind, title: &header.title, body: &known };
            let new = Said { kind: new.kind, title: &new.title, body: &new.body };
            Compared { likeness: likeness(new, known), memory, is_retired }
        };
        near.into_iter().map(compare).collect()
    }
}

/// The one that makes the new memory needless: rather one that is given.
fn duplicate(compared: Vec<Compared>) -> Option<Memory> {
    let duplicates = compared.into_iter().filter(|one| one.likeness.is_duplicate());
    duplicates.min_by_key(|one| one.is_retired).map(|one| one.memory)
}

/// The words by which a memory may be about the same as another.
struct Words {
    /// The whole title: one of stop words alone has no stems.
    whole: String,
    title: BTreeSet<String>,
    all: BTreeSet<String>,
}

impl Words {
    fn of(title: &str, when_to_use: &[String], tags: &[String]) -> Self {
        let (whole, title) = (fold(title.trim()), stems(title));
        let others = when_to_use.iter().chain(tags).flat_map(|text| stems(text));
        let all = title.iter().cloned().chain(others).collect();
        Self { whole, title, all }
    }

    /// How many they share. Those of both titles count twice: many memories are of use at the same time, few are called the same.
    fn common(&self, other: &Self) -> usize {
        self.all.intersection(&other.all).count()
            + self.title.intersection(&other.title).count()
            + usize::from(self.whole == other.whole)
    }
}

#[cfg(test)]
#[path = "learn_tests.rs"]
mod tests;
