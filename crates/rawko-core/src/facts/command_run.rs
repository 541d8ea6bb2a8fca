//! A command that rawko itself ran, and its result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::test_report::TestCounts;

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
    /// What failed: the names of tests, or what a linter or a compiler found, without figures. Bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Why it could not check anything, if it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// Whether it was ended because it took too long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
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

/// The result of a check on one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckResult {
    /// It exited with 0.
    Passed,
    /// It found something.
    Failed,
    /// It could not run: a program or a module is missing, there is no network, it cannot write its files.
    Unavailable,
    /// It is a test runner that exited with 0 and ran no test.
    NothingToRun,
    /// It did not end in time.
    TimedOut,
}

impl CheckResult {
    /// Whether it looked at the tree and came to an end, so that it can be compared with itself on another tree.
    #[must_use]
    pub fn is_comparable(self) -> bool {
        matches!(self, Self::Passed | Self::Failed)
    }
}
