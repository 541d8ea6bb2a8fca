//! Takes the place of `confine/` on systems without a sandbox, with the names that other modules use.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rawko_core::MemoryLimit;

use crate::confinement::Shortage;

/// No command was confined, so nothing is left to look at.
pub(crate) fn settle_after(_: &Path) {}

/// A sandbox, of which there is none on this system.
#[derive(Debug, Clone)]
pub struct Sandbox(Infallible);

/// What a sandbox has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Why there are no namespaces.
    pub without_namespaces: Option<String>,
    /// The bubblewrap that makes them.
    pub bubblewrap: Option<PathBuf>,
    /// Whether changes to caches can be kept apart.
    pub layers: bool,
}

impl Sandbox {
    /// No sandbox.
    ///
    /// # Errors
    /// Always.
    pub fn new(
        _: &Path,
        _: Option<&Path>,
        _: Option<&Path>,
        _: Option<MemoryLimit>,
        _: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Shortage> {
        Err(Shortage::Machine("this system has none".to_owned()))
    }

    /// By what commands are confined.
    #[must_use]
    pub fn walls(&self) -> String {
        match self.0 {}
    }

    /// What is not enforced.
    #[must_use]
    pub fn lost(&self) -> Vec<String> {
        match self.0 {}
    }

    /// Whether all permissions are enforced.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self.0 {}
    }

    /// How much memory one command may have.
    #[must_use]
    pub fn memory(&self) -> Option<u64> {
        match self.0 {}
    }

    /// A folder that is held for as long as a command lives.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match self.0 {}
    }

    /// What this machine offers.
    #[must_use]
    pub fn offer(&self) -> &Offer {
        match self.0 {}
    }
}
