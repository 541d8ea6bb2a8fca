//! The result of keeping a memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of keeping a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "as", rename_all = "snake_case")]
pub enum KeptMemory {
    /// A new file.
    Written {
        /// Its path below the folder of memories.
        path: String,
    },
    /// It was known already; this was recorded with the memory that has it.
    NotedOn {
        /// The path of that memory.
        path: String,
    },
    /// It was not kept.
    Refused {
        /// The reason, for people.
        message: String,
    },
}
