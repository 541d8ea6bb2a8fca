//! Remembers a session's trees as this process wrote them. Agents can write the repository's refs and, without a
//! sandbox, the session's folder, so the process relies on its own memory.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use super::snapshot::TreeContent;

/// What this process knows of the trees. Shared by all that works on one session.
#[derive(Debug, Clone, Default)]
pub(super) struct TreeCache(Arc<Mutex<CachedTrees>>);

#[derive(Debug, Default)]
struct CachedTrees {
    names: Option<BTreeMap<String, String>>,
    index: Option<[u8; 32]>,
    trees: HashMap<String, Arc<TreeContent>>,
}

impl TreeCache {
    /// The names of the trees, each with its commit; `None` before they were read.
    pub(super) fn names(&self) -> Option<BTreeMap<String, String>> {
        self.inner().names.clone()
    }

    pub(super) fn keep_names(&self, names: BTreeMap<String, String>) {
        self.inner().names = Some(names);
    }

    /// Remembers the session's index as it is at `path` now.
    pub(super) fn keep_index(&self, path: &Path) {
        self.inner().index = digest(path);
    }

    /// Whether `path` holds the session's index as this process left it, or this process has left none.
    pub(super) fn is_index(&self, path: &Path) -> bool {
        let known = self.inner().index;
        known.is_none() || known == digest(path)
    }

    /// The content of a tree that was checked against its name before: a name always has the same content.
    pub(super) fn tree(&self, id: &str) -> Option<Arc<TreeContent>> {
        self.inner().trees.get(id).cloned()
    }

    pub(super) fn keep_tree(&self, id: &str, content: TreeContent) {
        self.inner().trees.insert(id.to_owned(), Arc::new(content));
    }

    fn inner(&self) -> MutexGuard<'_, CachedTrees> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(path: &Path) -> Option<[u8; 32]> {
    std::fs::read(path).ok().map(|content| Sha256::digest(content).into())
}
