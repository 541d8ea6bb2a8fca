//! The role of an agent in the usual course of a task (`docs/agents.md#files-of-agents`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an agent is for. Rules go by it, and testers and reviewers report a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    /// It finds out what has to be done, and plans it.
    Plan,
    /// It changes files.
    Implement,
    /// It runs the work and gives a verdict on it.
    Test,
    /// It reads the work and gives a verdict on it.
    Review,
    /// Something else: rules only follow its transitions.
    Other,
}

impl AgentRole {
    /// The name in configuration files and journals.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Implement => "implement",
            Self::Test => "test",
            Self::Review => "review",
            Self::Other => "other",
        }
    }

    /// Whether such an agent judges the work of others, so that its report carries a verdict.
    #[must_use]
    pub fn judges(self) -> bool {
        match self {
            Self::Test | Self::Review => true,
            Self::Plan | Self::Implement | Self::Other => false,
        }
    }
}
