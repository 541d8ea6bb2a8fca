//! What rawko itself observes, as opposed to what agents claim: changes to the tree, results of commands
//! (`docs/spec/tools-and-permissions.md`, "Verified completion"; `docs/spec/arbiter.md`).

mod command;
mod first_edition;
mod runners;
mod shell;
mod statuses;
mod test_report;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use command::{CommandEffect, CommandFact, CommandResult, OwnStatus};
pub(crate) use first_edition::is_check;
pub use shell::ends_with_pipe;
pub(crate) use shell::examine;
pub use test_report::{RunnerSummary, TestCounts, parse_test_counts, summarize};

/// The tool name under which a failed verification is reported.
pub const VERIFY: &str = "verify";

/// A summary of changes to the tree, in files and lines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffStat {
    /// Files added, changed or removed.
    pub files: u32,
    /// Lines added in text files.
    pub insertions: u64,
    /// Lines removed from text files.
    pub deletions: u64,
    /// The first of these files, each with its own counts, e.g. `src/lib.rs +12 -3`. Bounded; `files` counts all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl DiffStat {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files == 0
    }
}

/// The tree at the end of an execution that may have changed it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeInspection {
    /// The hash of the tree's content.
    pub tree: String,
    /// The changes since before the execution.
    pub execution: DiffStat,
    /// The changes since before the run's first change.
    pub run: DiffStat,
}

/// One command that rawko itself ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandRun {
    /// The command line.
    pub command: String,
    /// Its exit status; absent if it was killed, timed out or could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Head and tail of its output, bounded.
    pub output: String,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl CommandRun {
    /// Whether it exited with 0.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.exit_code == Some(0)
    }
}

/// The results of the verification commands, and the tree they ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The commands in order, up to the first that failed.
    pub runs: Vec<CommandRun>,
    /// The hash of the content of the tree they ran on; absent if it could not be determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Whether the commands themselves changed the tree: then the results prove nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tree_changed: bool,
}

impl Verification {
    /// Whether every command exited with 0 on one known tree.
    #[must_use]
    pub fn proves(&self) -> bool {
        self.passed() && self.tree.is_some() && !self.tree_changed
    }

    /// Whether there was a command, and every one exited with 0.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(CommandRun::passed)
    }
}

/// What is left of a run's budgets; a field is absent if there is no such budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetFacts {
    /// Tokens of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_left: Option<u64>,
    /// Cost of model calls, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd_left: Option<f64>,
    /// Wall time, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_left_ms: Option<u64>,
}
