//! What a mount namespace is made of.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::path_bytes;

/// What threads in a namespace see at one place. Everything is opened before anything is mounted, so a `content` may be
/// what another step covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum NamespaceStep {
    /// The file or folder `content`, with the mounts in it.
    Bind {
        /// The place, which must be there when it is its turn.
        #[serde(with = "path_bytes")]
        place: PathBuf,
        /// What is seen there.
        #[serde(with = "path_bytes")]
        content: PathBuf,
        /// Whether it can only be read.
        read_only: bool,
    },
    /// The folder `lower` as it is now, with what threads in the namespace change in `changes`. The changes last.
    Layer {
        /// The place, which must be there when it is its turn.
        #[serde(with = "path_bytes")]
        place: PathBuf,
        /// The folder.
        #[serde(with = "path_bytes")]
        lower: PathBuf,
        /// Holds the changes. It must exist, be private to the user, and be on a file system that can hold them.
        #[serde(with = "path_bytes")]
        changes: PathBuf,
    },
}
