//! What the server serves: one project, as the command line found it.

use std::path::PathBuf;
use std::sync::Arc;

use rawko::config::{Overrides, TrustStore};
use rawko::journal::SessionStore;
use rawko::{Error, Rawko, RawkoBuilder};

/// Why a tool did not do what it was asked, and what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolProblem {
    /// What failed.
    pub message: String,
    /// What to try.
    pub hint: Option<String>,
}

impl ToolProblem {
    /// A problem, and what to try.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: Some(hint.into()) }
    }

    /// Both in one text.
    pub(crate) fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}\nWhat to try: {hint}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Puts an error into words for a client.
pub type ErrorWords = Arc<dyn Fn(Error) -> ToolProblem + Send + Sync>;

/// The project, and how the user has it used.
pub struct ServedProject {
    /// Makes a [`Rawko`] for each call, so that a changed configuration and a new trust count at once. Without overrides.
    pub builder: RawkoBuilder,
    /// The user's own overrides. A client may only narrow their limits.
    pub overrides: Overrides,
    /// The project's folder.
    pub project: PathBuf,
    /// The user's records, whose key seals what is said to a run.
    pub trust: Option<TrustStore>,
    /// Puts errors into words.
    pub in_words: ErrorWords,
}

impl ServedProject {
    /// Reads the configuration with these overrides, and checks that it is trusted.
    pub(crate) fn open(&self, builder: RawkoBuilder, overrides: Overrides) -> Result<Rawko, ToolProblem> {
        builder.overrides(overrides).build().map_err(|error| self.words(error))
    }

    /// The same, only to look at what is there: it starts nothing, so it needs no trust.
    pub(crate) fn look(&self) -> Result<Rawko, ToolProblem> {
        self.open(self.builder.clone().trusted(true), self.overrides.clone())
    }

    /// The sessions of the project.
    pub(crate) fn sessions(&self) -> SessionStore {
        SessionStore::of_project(&self.project)
    }

    /// The user's records.
    pub(crate) fn key_store(&self) -> Result<&TrustStore, ToolProblem> {
        self.trust.as_ref().ok_or_else(|| {
            ToolProblem::new(
                "there is no folder for the user's key: HOME is not set for this server",
                "set HOME, or XDG_STATE_HOME, in the client's entry for this server",
            )
        })
    }

    /// The error in words.
    pub(crate) fn words(&self, error: impl Into<Error>) -> ToolProblem {
        (self.in_words)(error.into())
    }
}

impl std::fmt::Debug for ServedProject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedProject").field("project", &self.project).finish_non_exhaustive()
    }
}
