//! Where the work of a run is done: in the mount namespace of its tree, or where the process is.

use std::io;
use std::sync::OnceLock;

use rawko_tools::{MountNamespace, NamespaceStep};

/// Where work is done. The namespace is made when something is to be done in it: to land what was kept needs none, and no
/// right to make one.
#[derive(Debug)]
pub(crate) struct Within {
    /// None where the tree is seen at its own path.
    steps: Vec<NamespaceStep>,
    made: OnceLock<Result<Namespaces, String>>,
}

#[derive(Debug)]
struct Namespaces {
    tree: MountNamespace,
    /// Where the tree was made: the project's own files.
    outside: MountNamespace,
}

impl Within {
    pub(super) fn new(steps: &[NamespaceStep]) -> Self {
        Self { steps: steps.to_vec(), made: OnceLock::new() }
    }

    /// The namespaces, made by the first caller: a thread that is in the project's own files.
    fn namespaces(&self) -> io::Result<&Namespaces> {
        let make = || {
            let outside = MountNamespace::current().map_err(|error| error.to_string())?;
            Ok(Namespaces { tree: MountNamespace::new(&self.steps)?, outside })
        };
        self.made.get_or_init(make).as_ref().map_err(|what| io::Error::other(what.clone()))
    }

    /// Does some work in the tree, and waits for it.
    ///
    /// # Errors
    /// If it cannot be shown, or the kernel refuses.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        if self.is_elsewhere() { self.namespaces()?.tree.run(work) } else { Ok(work()) }
    }

    /// Does some work in the project's own files, from wherever.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn run_outside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        match self.made.get() {
            Some(Ok(namespaces)) => namespaces.outside.run(work),
            // Nobody was ever inside.
            Some(Err(_)) | None => Ok(work()),
        }
    }

    /// Has the calling thread work in the tree from now on.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) fn enter(&self) -> io::Result<()> {
        if self.is_elsewhere() { self.namespaces()?.tree.enter() } else { Ok(()) }
    }

    /// Whether work is done somewhere else than where the process is.
    pub(crate) fn is_elsewhere(&self) -> bool {
        !self.steps.is_empty()
    }
}
