//! What rawko itself observes, as opposed to what agents claim: changes to the tree, results of commands
//! (`docs/spec/tools-and-permissions.md`, "Verified completion"; `docs/spec/arbiter.md`).

mod command;
mod runners;
mod shell;
mod statuses;
mod test_report;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::integrity::{Baseline, Doubt, DoubtReason, Integrity, IntegrityResult, OriginalRun};
pub use command::{CommandEffect, CommandFact, CommandResult, OwnStatus};
pub use shell::ends_with_pipe;
pub(crate) use shell::{Examined, are_same_checks, examine, runners_of};
pub use test_report::{RunnerSummary, TestCounts, parse_test_counts, summarize};

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
}

/// One command that rawko itself ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// How many tests ran, if its whole output says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<TestCounts>,
}

impl CommandRun {
    /// Whether it exited with 0.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.exit_code == Some(0)
    }

    /// Whether it is a test runner that passed without running a test. A command that counts none may check anything.
    #[must_use]
    pub fn ran_no_test(&self) -> bool {
        self.passed() && self.counts.is_some_and(|counts| counts.executed == 0)
    }
}

/// The results of the verification commands, and the tree they ran on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Whether the commands are test runners that found no test, so that they prove nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nothing_ran: bool,
    /// Whether the tree changed after the commands had passed, so that they prove nothing about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// Whether the checks are those of the beginning. Absent where they were not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<Integrity>,
    /// The commands on the tree that the run began with; absent if that was not known in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// The original checks on the new code, if the run changed checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<OriginalRun>,
    /// An earlier run of the commands on the same tree that ended differently: the checks are flaky.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaky: Vec<CommandRun>,
}

impl Verification {
    /// Whether every command exited with 0 on one known tree, and nothing speaks against the checks.
    #[must_use]
    pub fn proves(&self) -> bool {
        self.passed() && self.doubt().is_none()
    }

    /// Why commands that exit with 0 do not prove the work; `None` if they do.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        let doubt = |reason, message: &str| Some(Doubt { reason, message: message.to_owned() });
        if self.tree_changed {
            return doubt(
                DoubtReason::TreeChanged,
                "the checks passed, but they change the tree on each run",
            );
        }
        if self.tree.is_none() {
            return doubt(
                DoubtReason::TreeUnknown,
                "the checks passed, but the tree they ran on could not be read",
            );
        }
        if self.stale {
            return doubt(
                DoubtReason::Stale,
                "the checks passed, but files were written after that: something that still runs changes the tree",
            );
        }
        if let Some(doubt) = self.integrity.as_ref().and_then(Integrity::doubt) {
            return Some(doubt);
        }
        // The original checks ran tests of their own.
        let is_proven = self.integrity.as_ref().is_some_and(|it| it.result == IntegrityResult::OriginalsPass);
        if self.nothing_ran && !is_proven {
            return doubt(
                DoubtReason::NothingToRun,
                "the checks passed, but no test was run: the test runner found none, or skipped them all",
            );
        }
        None
    }

    /// Whether the run changed checks although the configuration forbids it: a failed verification.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.integrity.as_ref().is_some_and(|integrity| integrity.result == IntegrityResult::Denied)
    }

    /// Whether no command was run, because nothing was changed that one could prove.
    #[must_use]
    pub fn had_nothing_to_prove(&self) -> bool {
        let is_unchanged = |it: &Integrity| it.result == IntegrityResult::Unchanged;
        self.runs.is_empty() && self.integrity.as_ref().is_some_and(is_unchanged)
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
