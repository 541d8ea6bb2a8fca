//! How a run ended: the truth, in one word and in detail.

use serde::{Deserialize, Serialize};

use crate::error::ErrorInfo;
use crate::usage::Usage;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The arbiter says the task is done; no verification command has proven it.
    Claimed,
    /// Given up.
    Failed,
    /// Stopped by a limit: iterations, tokens, cost or time.
    Limited,
    /// Stopped by the user.
    Cancelled,
}

impl Status {
    /// The word as it is printed and journaled.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Failed => "failed",
            Self::Limited => "limited",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The end of a run, with what was achieved until then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// What was achieved, or why not.
    pub summary: String,
    /// Executions begun.
    pub iterations: u32,
    /// Tokens of all model calls.
    pub usage: Usage,
    /// Cost of all model calls in US dollars; absent where a model's price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Files that tools wrote, in order of their first writing.
    pub files_modified: Vec<String>,
    /// From start to end, in milliseconds.
    pub duration_ms: u64,
    /// What ended the run, where an error did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
}
