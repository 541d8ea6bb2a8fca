//! Where the system has no mount namespaces, none can be made.

use std::io;
use std::path::Path;

use crate::namespace_step::NamespaceStep;

/// What is missing.
const MISSING: &str = "this system has no mount namespaces";

/// There is none on this system.
#[derive(Debug)]
pub enum MountNamespace {}

impl MountNamespace {
    /// Makes none.
    ///
    /// # Errors
    /// Always.
    pub fn new(_: &[NamespaceStep]) -> Result<Self, String> {
        Err(MISSING.to_owned())
    }

    /// Finds none.
    ///
    /// # Errors
    /// Always.
    pub fn current() -> io::Result<Self> {
        Err(io::Error::other(MISSING))
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn enter(&self) -> io::Result<()> {
        match *self {}
    }

    /// Is never called.
    ///
    /// # Errors
    /// None.
    pub fn run<T: Send>(&self, _: impl FnOnce() -> T + Send) -> io::Result<T> {
        match *self {}
    }
}

/// No thread may.
#[must_use]
pub fn may_mount() -> bool {
    false
}

/// Gains nothing.
///
/// # Errors
/// None.
pub fn gain_mounts() -> io::Result<bool> {
    Ok(false)
}

/// No folder can.
///
/// # Errors
/// Always.
pub fn can_hold_layers(_: &Path) -> Result<(), String> {
    Err(MISSING.to_owned())
}
