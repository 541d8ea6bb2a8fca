//! What rawko itself observes, as opposed to what agents claim: changes to the tree, results of commands
//! (`docs/verification.md`; `docs/arbiter.md`).

mod check;
mod command;
mod command_run;
mod runners;
mod runs_later;
mod shell;
mod statuses;
mod test_report;
mod verification;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use command::{CommandEffect, CommandFact, CommandResult, OwnStatus};
pub use command_run::{CheckResult, CommandRun};
pub use runs_later::runs_later;
pub use shell::ends_with_pipe;
pub(crate) use shell::{
    Examined, are_same_checks, check_lines, checks_of, examine, runners_of, whole_suite_of,
};
pub use test_report::{RunnerSummary, TestCounts, parse_test_counts, summarize};
pub use verification::{OtherCheck, Proof, Standing, Verification};

/// The tool name under which a failed verification is reported.
pub const VERIFY: &str = "verify";

/// The tool name under which a COMPLETE against the record is reported.
pub const RECORD: &str = "record";

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
    /// The files of `run`, by path; bounded, `run.files` counts all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The files of `execution`, by path; bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub execution_files: Vec<String>,
    /// The changes of `run` as a patch, cut where it is long; absent where others changed files as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// Those of them, however many there are, and files that git ignores, that programs on the user's machine obey later
    /// ([`runs_later`]). What was removed is not among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs_later: Vec<String>,
    /// Names the state of what was changed in granted folders outside the project, whose files are among `files` by their
    /// absolute paths; absent where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<String>,
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
