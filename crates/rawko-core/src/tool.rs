//! Tools as the core sees them: a description to offer, a call to judge, an outcome to record.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ErrorCode;
use crate::message::Image;

/// What running a tool may do to the world. Decides what may run side by side, and what may be run again
/// after its outcome was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolAccess {
    /// Only looks. Calls of one turn run concurrently, and a lost one is simply run again.
    ReadOnly,
    /// May change files or run programs. Runs alone, and is never silently done twice.
    Mutating,
}

/// A tool as it is offered to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// Name, unique in a run.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// JSON Schema of the arguments (an object schema).
    pub input_schema: Value,
    /// What it may do.
    pub access: ToolAccess,
}

/// What came of one tool call. Failures are outcomes too: the model is told and can act on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolOutcome {
    /// The answer for the model, already bounded.
    pub content: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// Kind of failure, where the tool knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
    /// Exit status of the program that was run, if one was and it exited by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Files that the tool wrote, relative to the project where they lie inside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    /// Files whose content the agent knows now, because it read or wrote them. A resumed run begins with this
    /// knowledge, so that it may edit what it could edit before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_seen: Vec<SeenFile>,
    /// Pictures that belong to the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// Wall time the call took, in milliseconds.
    pub duration_ms: u64,
}

/// A file as an agent last saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeenFile {
    /// The file, as the tool names it.
    pub path: String,
    /// SHA-256 of its content, in hexadecimal.
    pub digest: String,
}

impl ToolOutcome {
    /// A call that went well.
    #[must_use]
    pub fn ok(content: impl Into<String>) -> Self {
        Self { content: content.into(), ..Self::default() }
    }

    /// A call that failed.
    #[must_use]
    pub fn error(code: ErrorCode, content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true, error_code: Some(code), ..Self::default() }
    }
}
