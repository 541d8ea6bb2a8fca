//! Plug-ins: folders with a manifest that bring skills, agents, MCP servers and hooks (`docs/plugins.md`).
//!
//! ```text
//! source ─▶ a copy ─▶ content, digest ─▶ the user's approval ─▶ record ─▶ every start: same digest? ─▶ Loaded
//! ```
//!
//! Owns where plug-ins come from, where they are kept, and what was approved. What a plug-in contains is read by
//! [`config::Plugin`](crate::config::Plugin), which also joins it to what the user configured.

mod aside;
mod record;
mod source;
mod store;
mod tree;

use std::io;
use std::path::{Path, PathBuf};

use crate::config::Diagnostic;

pub use record::PluginRecord;
pub use source::PluginSource;
pub use store::{InstalledPlugin, PluginFetch, PluginState, PluginStore, PreparedPlugin, check_hosts};

pub(crate) use record::PluginRecords;
pub(crate) use store::{PluginFolders, approved};

/// Why something could not be done with a plug-in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// What it contains cannot be used: each of these.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Diagnostic>),
    /// It is not done.
    #[error("{message}")]
    Refused {
        /// Why not.
        message: String,
        /// What to try.
        hint: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl PluginError {
    fn refused(message: impl Into<String>, hint: &str) -> Self {
        Self::Refused { message: message.into(), hint: hint.to_owned() }
    }

    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}
