//! A session's folder and a user with a key, for tests of what is left there.

use crate::channel::seal::Sealer;
use crate::config::TrustStore;

/// A folder, and the user's own.
pub(super) struct TestFolders {
    pub(super) folder: tempfile::TempDir,
    own: tempfile::TempDir,
}

impl TestFolders {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), own: tempfile::tempdir().unwrap() }
    }

    /// The user's seal.
    pub(super) fn sealer(&self) -> Sealer {
        Sealer::of(&TrustStore::new(&self.own.path().join("rawko"))).unwrap()
    }
}
