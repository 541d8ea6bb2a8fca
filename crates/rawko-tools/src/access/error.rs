//! Errors of file access.

use rawko_core::error::ErrorCode;
use rawko_core::tool::{Refusal, ToolOutcome};

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
#[allow(
    missing_docs,
    reason = "the messages say what the fields are; `path` is the path as the agent wrote it"
)]
pub enum AccessError {
    /// No file can have this path.
    #[error("`{path}` is not a valid path: {why}.")]
    Malformed { path: String, why: &'static str },
    /// The permissions do not grant the real path.
    #[error("`{path}` may not be {verb}: it lies outside of what you may {list} ({granted}). {hint}")]
    Outside {
        path: String,
        verb: &'static str,
        list: &'static str,
        granted: String,
        hint: &'static str,
        /// What the user could grant: the real path. `None` if no grant would open it.
        needs: Option<Refusal>,
    },
    /// An entry of `permissions.deny` covers it.
    #[error("`{path}` may not be touched: `{entry}` is denied to you. Leave it alone.")]
    Denied { path: String, entry: String },
    /// It is a device or a view of the system, which no permission grants.
    #[error(
        "`{path}` may not be touched: `{place}` holds no files of a project, and no permission grants it."
    )]
    Never { path: String, place: &'static str },
    /// It is one of the user's private places.
    #[error(
        "`{path}` may not be touched: `{place}` is for the user's keys, accounts and settings, and a grant of the folder around \
         it does not open it. Leave it to the user."
    )]
    Private { path: String, place: String },
    /// Files in this directory decide what rawko or git runs.
    #[error(
        "`{path}` may not be written: what is in `{name}` decides what rawko or git run, and no permission \
         grants writing there. Leave it to the user."
    )]
    Protected { path: String, name: String },
    /// With it, git would take a folder for a repository, and run what that names.
    #[error(
        "`{path}` may not be written: with it, git would take `{folder}` for a repository and run what is in it. Make \
         repositories with `git init`, or leave it to the user."
    )]
    Repository { path: String, folder: String },
    /// A second name of a denied file.
    #[error(
        "`{path}` may not be touched: it has several names (hard links), and one of them is, or may be, a file \
         that is denied to you. Leave it alone."
    )]
    DeniedLink { path: String },
    /// Journals and checkpoints hold what was denied.
    #[error("`{path}` may not be read: sessions hold what is denied to agents. Leave it alone.")]
    Sessions { path: String },
    /// Nothing exists at this path.
    #[error("`{path}` does not exist.{hint}")]
    NotFound { path: String, hint: String },
    /// It exists, but it is of another kind than the one wanted.
    #[error("`{path}` is {kind}, not {wanted}.")]
    WrongKind { path: String, kind: &'static str, wanted: &'static str },
    /// The file is larger than a file tool accepts.
    #[error(
        "`{path}` has {size} bytes, more than the {limit} that this tool accepts. Use Bash or Grep on it."
    )]
    TooLarge { path: String, size: u64, limit: u64 },
    /// It changed while the tool worked on it.
    #[error(
        "`{path}` was changed by someone else in the meantime; nothing was written. Read it again, then retry."
    )]
    Changed { path: String },
    /// A grant or deny in the permissions cannot be used.
    #[error(
        "permissions.{list}: the entry `{entry}` cannot be used: {why}. Correct it in the configuration."
    )]
    BadEntry { list: &'static str, entry: String, why: String },
    /// The operating system reported an error.
    #[error("`{path}`: {action} failed: {source}.")]
    Io { path: String, action: &'static str, source: std::io::Error },
}

impl AccessError {
    /// The error code for the machine and the model.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Outside { .. }
            | Self::Denied { .. }
            | Self::DeniedLink { .. }
            | Self::Sessions { .. }
            | Self::Never { .. }
            | Self::Private { .. }
            | Self::Protected { .. }
            | Self::Repository { .. } => ErrorCode::PermissionError,
            Self::Malformed { .. } => ErrorCode::ValidationError,
            Self::BadEntry { .. } => ErrorCode::ConfigError,
            Self::NotFound { .. }
            | Self::WrongKind { .. }
            | Self::TooLarge { .. }
            | Self::Changed { .. }
            | Self::Io { .. } => ErrorCode::ToolFailure,
        }
    }

    /// Whether the path was refused because of the permissions, whatever exists there.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Malformed { .. }
            | Self::Outside { .. }
            | Self::Denied { .. }
            | Self::DeniedLink { .. }
            | Self::Sessions { .. }
            | Self::Never { .. }
            | Self::Private { .. }
            | Self::Protected { .. }
            | Self::Repository { .. }
            | Self::BadEntry { .. } => true,
            Self::NotFound { .. }
            | Self::WrongKind { .. }
            | Self::TooLarge { .. }
            | Self::Changed { .. }
            | Self::Io { .. } => false,
        }
    }

    /// The name of the rule that decided.
    #[must_use]
    pub fn rule(&self) -> String {
        match self {
            Self::Outside { list, .. } | Self::BadEntry { list, .. } => format!("permissions.{list}"),
            Self::Denied { .. } | Self::DeniedLink { .. } => "permissions.deny".to_owned(),
            Self::Sessions { .. }
            | Self::Never { .. }
            | Self::Private { .. }
            | Self::Protected { .. }
            | Self::Repository { .. } => "protected path".to_owned(),
            Self::Malformed { .. } => "input".to_owned(),
            Self::NotFound { .. }
            | Self::WrongKind { .. }
            | Self::TooLarge { .. }
            | Self::Changed { .. }
            | Self::Io { .. } => "the file".to_owned(),
        }
    }

    pub(super) fn io(path: &str, action: &'static str, source: impl Into<std::io::Error>) -> Self {
        Self::Io { path: path.to_owned(), action, source: source.into() }
    }
}

impl From<AccessError> for ToolOutcome {
    fn from(error: AccessError) -> Self {
        let outcome = Self::error(error.code(), error.to_string());
        let refused = match error {
            AccessError::Outside { needs, .. } => needs.into_iter().collect(),
            _ => Vec::new(),
        };
        Self { refused, ..outcome }
    }
}
