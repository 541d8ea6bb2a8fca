//! Where the work of a run is done: in the mount namespace of its tree, or where the process is.

use std::io;

use rawko_tools::MountNamespace;

use super::TreeRecord;

/// Where work is done.
#[derive(Debug)]
pub(crate) struct Within(Option<Namespaces>);

#[derive(Debug)]
struct Namespaces {
    tree: MountNamespace,
    /// Where the tree was made: the project's own files.
    outside: MountNamespace,
}

impl Within {
    pub(super) fn of(record: &TreeRecord) -> Result<Self, String> {
        if record.steps.is_empty() {
            return Ok(Self(None));
        }
        let outside = MountNamespace::current().map_err(|error| error.to_string())?;
        let tree = MountNamespace::new(&record.steps)?;
        Ok(Self(Some(Namespaces { tree, outside })))
    }

    /// Does some work in the tree, and waits for it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        match &self.0 {
            Some(namespaces) => namespaces.tree.run(work),
            None => Ok(work()),
        }
    }

    /// Does some work in the project's own files, from wherever.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn run_outside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        match &self.0 {
            Some(namespaces) => namespaces.outside.run(work),
            None => Ok(work()),
        }
    }

    /// Has the calling thread work in the tree from now on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn enter(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |namespaces| namespaces.tree.enter())
    }

    /// Whether work is done somewhere else than where the process is.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.0.is_some()
    }
}
