//! What became of the work of a run that had a tree of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LandingEnd {
    /// It is in the project.
    Landed,
    /// It is in the run's tree, because the run did not end as its landing asks for.
    #[default]
    Kept,
    /// It is in the run's tree, because others changed the same meanwhile.
    Conflicts,
    /// It is in the run's tree, because it could not be landed.
    Failed,
    /// The user threw it away.
    Discarded,
    /// There was none.
    Nothing,
}

impl LandingEnd {
    /// Whether the run's tree still holds the work.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            Self::Kept | Self::Conflicts | Self::Failed => true,
            Self::Landed | Self::Discarded | Self::Nothing => false,
        }
    }
}

/// A file that keeps work from landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LandingConflict {
    /// The file, below the project.
    pub path: String,
    /// Why, for people.
    pub why: String,
}

/// What became of the work of a run that had a tree of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Landing {
    /// What became of it.
    pub end: LandingEnd,
    /// Files of the project that were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<String>,
    /// Files of the project that were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// Those of the written ones that others had changed too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
    /// Why nothing was landed, file by file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<LandingConflict>,
    /// What is in the run's tree alone all the same, each with why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// The branch that has it as a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Why it could not be landed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Landing {
    /// With nothing but this.
    #[must_use]
    pub fn of(end: LandingEnd) -> Self {
        Self { end, ..Self::default() }
    }
}
