//! Whether the operating system confines the commands of a run.

use std::path::PathBuf;
use std::sync::Arc;

use rawko_core::agent::Permissions;

use crate::confine::Sandbox;

/// Why there is no sandbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Shortage {
    /// This machine lacks what a sandbox needs.
    #[error("{0}")]
    Machine(String),
    /// There is no program that confines commands, or the one that there is does not.
    #[error("{0}")]
    Helper(String),
}

/// What holds the commands of a run to their permissions: those of agents, custom tools and verification.
#[derive(Debug, Clone)]
pub enum Confinement {
    /// The operating system.
    Sandboxed(Sandbox),
    /// Nothing: the user chose to do without.
    Off,
    /// They are refused, because there is no sandbox and the user did not choose to do without.
    Refused(Shortage),
}

impl Confinement {
    /// The sandbox of commands, if they have one.
    ///
    /// # Errors
    /// Why no command runs, and what to do.
    pub(crate) fn sandbox(&self) -> Result<Option<&Sandbox>, String> {
        match self {
            Self::Sandboxed(sandbox) => Ok(Some(sandbox)),
            Self::Off => Ok(None),
            Self::Refused(shortage) => Err(format!(
                "commands are refused here, because the operating system cannot confine them: {shortage}. The user can \
                 allow them without a sandbox by `permissions.sandbox: off` or --no-sandbox"
            )),
        }
    }

    /// By what the operating system confines commands, for people; `None` where it does not.
    #[must_use]
    pub fn walls(&self) -> Option<String> {
        match self {
            Self::Sandboxed(sandbox) => Some(sandbox.walls()),
            Self::Off | Self::Refused(_) => None,
        }
    }

    /// Whether commands run.
    #[must_use]
    pub fn runs_commands(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

/// Who runs a command, and what they may touch.
#[derive(Debug, Clone)]
pub(crate) struct Confined {
    pub(crate) sandbox: Sandbox,
    /// The name of the folders that hold what the command's tools keep: an agent's name.
    pub(crate) who: String,
    pub(crate) permissions: Arc<Permissions>,
    /// Hosts that a person approved for this command alone.
    pub(crate) approved_hosts: Vec<String>,
    /// The project.
    pub(crate) root: PathBuf,
    /// What it may read besides.
    pub(crate) also: Vec<PathBuf>,
    /// Folders that it may change for itself.
    pub(crate) layered: Vec<PathBuf>,
    /// The folder over the project that takes its changes, if they do not go to the project itself.
    pub(crate) changes: Option<PathBuf>,
    /// Whether its home and caches last. Else they are new for each command: what one leaves decides nothing.
    pub(crate) lasts: bool,
}
