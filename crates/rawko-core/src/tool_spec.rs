//! A tool as a model sees it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether a tool may change something. Decides which calls may run in parallel, and which may run again after their
/// outcome was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolAccess {
    /// Only reads. Calls of one turn run concurrently, and a lost one is run again.
    ReadOnly,
    /// May change files or run programs. Runs alone, and is never silently run twice.
    Mutating,
}

/// The specification of a tool, as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    /// Name, unique in a run.
    pub name: String,
    /// What it does and when to use it, for the model.
    pub description: String,
    /// JSON Schema of the arguments (an object schema).
    pub input_schema: Value,
    /// Whether it may change something.
    pub access: ToolAccess,
}
