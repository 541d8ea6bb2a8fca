//! How a conversation was shortened.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a conversation was shortened (`docs/providers.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compaction {
    /// Old tool results were cut.
    ResultsCut,
    /// The middle was replaced by a summary.
    Summarized,
}
