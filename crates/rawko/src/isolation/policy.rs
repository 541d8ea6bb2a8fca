//! What the user wants: where a run works, and when its work lands.

use rawko_core::session::{Outcome, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// In which files a run works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Workspace {
    /// In the project's own.
    #[default]
    Project,
    /// In a tree of its own at the project's path. The result lands in the project at the end.
    Isolated,
}

impl Workspace {
    /// Its name in configurations.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Isolated => "isolated",
        }
    }
}

/// When the work of an isolated run lands in the project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LandingPolicy {
    /// If the run ended as verified.
    #[default]
    Verified,
    /// If it ended as verified or claimed.
    Claimed,
    /// However it ended.
    Always,
    /// However it ended, as one commit on a branch `rawko/…`. The project's files stay as they are.
    Branch,
    /// Never by itself.
    Never,
}

impl LandingPolicy {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Verified, Self::Claimed, Self::Always, Self::Branch, Self::Never];

    /// Its name in configurations.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Claimed => "claimed",
            Self::Always => "always",
            Self::Branch => "branch",
            Self::Never => "never",
        }
    }

    /// Whether it lets more work into the project's files than the other.
    pub(crate) fn lands_more_than(self, other: Self) -> bool {
        let extent = |policy| match policy {
            Self::Never | Self::Branch => 0,
            Self::Verified => 1,
            Self::Claimed => 2,
            Self::Always => 3,
        };
        extent(self) > extent(other)
    }

    /// Whether a run that ended like this lands.
    pub(crate) fn lands(self, outcome: &Outcome) -> bool {
        match self {
            Self::Verified => outcome.status == Status::Verified,
            Self::Claimed => matches!(outcome.status, Status::Verified | Status::Claimed),
            Self::Always | Self::Branch => true,
            Self::Never => false,
        }
    }
}
