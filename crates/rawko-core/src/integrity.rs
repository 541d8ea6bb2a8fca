//! Evidence that a verification tested the work, and not checks of the run's own making
//! (`docs/verification.md#integrity`).
//!
//! The program that runs the commands gathers the facts, and they are judged here: the commands' exit status proves the
//! work only if the tree differs from the one the run began with, and the checks are those that were there at the
//! beginning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::facts::CommandRun;

/// What a run may do to the checks that verify it (`verify.changedChecks`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangedChecks {
    /// Where checks were changed, the original ones must pass on the new code as well.
    #[default]
    Rerun,
    /// Changed checks count like any others; the result names them.
    Allow,
    /// Changed checks are a failed verification.
    Deny,
}

impl ChangedChecks {
    /// Whether it is the default.
    // serde requires this signature.
    #[allow(clippy::trivially_copy_pass_by_ref)]
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The name in configuration and output.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rerun => "rerun",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// The checks at the end of a run, compared with those at its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Integrity {
    /// The result of the comparison.
    pub result: IntegrityResult,
    /// The checks that differ, each with what happened to it. Bounded; `more` counts the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<CheckChange>,
    /// How many changed checks `changed` leaves out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u32,
    /// What to do if the task asks for changed checks; part of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

// serde requires this signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The result of comparing the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IntegrityResult {
    /// They are the ones that were there at the beginning; new ones may have been added.
    Intact,
    /// The run changed nothing at all.
    Unchanged,
    /// Checks were changed, and the original ones pass on the new code.
    OriginalsPass,
    /// Checks were changed, and the original ones fail on the new code.
    OriginalsFail,
    /// Checks were changed, and the original ones could not be run.
    OriginalsUnknown,
    /// Checks were changed, as the configuration allows.
    Allowed,
    /// Checks were changed, which the configuration forbids.
    Denied,
}

/// A check that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckChange {
    /// The file, relative to the project where it lies in it; or the program's name.
    pub path: String,
    /// What happened to it.
    pub how: CheckChangeKind,
}

/// What happened to a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckChangeKind {
    /// Its content differs.
    Changed,
    /// It is gone.
    Deleted,
    /// It was not there before, and has a say in how the checks run.
    Added,
    /// Another program of the same name is found first.
    Shadowed,
    /// Fewer tests are executed than at the beginning.
    FewerTests,
    /// More tests are skipped than at the beginning.
    MoreSkipped,
    /// Code that makes checks pass whatever it does.
    Undermines,
    /// It exits with 0, and its own summary names failed tests.
    HidesFailures,
}

impl CheckChangeKind {
    /// In words that follow the path.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Deleted => "deleted",
            Self::Added => "added",
            Self::Shadowed => "replaced by another program",
            Self::FewerTests => "runs fewer tests",
            Self::MoreSkipped => "skips more tests",
            Self::Undermines => "undermines the checks",
            Self::HidesFailures => "exits with 0 although tests failed",
        }
    }
}

/// The verification commands on the tree that the run began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Baseline {
    /// The commands, in order.
    pub runs: Vec<CommandRun>,
    /// The hash of the content of that tree.
    pub tree: String,
}

impl Baseline {
    /// Whether every command exited with 0.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(CommandRun::passed)
    }
}

/// The original checks, run on the new code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OriginalRun {
    /// The commands, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<CommandRun>,
    /// Why they could not be run, or why their result does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl OriginalRun {
    /// Whether they ran and every command exited with 0.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.problem.is_none() && !self.runs.is_empty() && self.runs.iter().all(CommandRun::passed)
    }
}

/// Why a finished task is claimed and not verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Doubt {
    /// The reason.
    pub reason: DoubtReason,
    /// The same in one sentence.
    pub message: String,
}

/// The reasons for which a finished task is claimed and not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoubtReason {
    /// No command was run: there is none, or verification is off.
    NothingToRun,
    /// The run changed nothing.
    Unchanged,
    /// A command fails, as it did before the run.
    RedBefore,
    /// A command could not run.
    Unavailable,
    /// The checks are not those of the beginning, and the original ones do not pass.
    ChecksChanged,
    /// The commands change the tree on each run.
    TreeChanged,
    /// The tree could not be read.
    TreeUnknown,
    /// Something may have been written since the commands passed.
    Stale,
}

impl Integrity {
    /// Of a run that changed nothing.
    #[must_use]
    pub fn unchanged() -> Self {
        Self { result: IntegrityResult::Unchanged, changed: Vec::new(), more: 0, advice: None }
    }

    /// Why the exit status of the commands does not prove the work; `None` if it does.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        let list = self.list();
        let (reason, message) = match self.result {
            IntegrityResult::Intact | IntegrityResult::OriginalsPass | IntegrityResult::Allowed => {
                return None;
            }
            IntegrityResult::Unchanged => (
                DoubtReason::Unchanged,
                "the run changed no file, so checks prove nothing about the task".to_owned(),
            ),
            IntegrityResult::OriginalsFail => (
                DoubtReason::ChecksChanged,
                format!(
                    "the run changed what checks it ({list}), and the original checks fail on the new code"
                ),
            ),
            IntegrityResult::OriginalsUnknown if self.changed.is_empty() => (
                DoubtReason::ChecksChanged,
                "whether the run changed what checks it is not known: the checks name, or the packages have, more files than \
                 rawko looks at"
                    .to_owned(),
            ),
            IntegrityResult::OriginalsUnknown => (
                DoubtReason::ChecksChanged,
                format!("the run changed what checks it ({list}), and the original checks could not be run"),
            ),
            IntegrityResult::Denied => (
                DoubtReason::ChecksChanged,
                format!("the run changed what checks it ({list}), which verify.changedChecks forbids"),
            ),
        };
        let message = match &self.advice {
            Some(advice) => format!("{message}; {advice}"),
            None => message,
        };
        Some(Doubt { reason, message })
    }

    /// The changed checks, on one line.
    #[must_use]
    pub fn list(&self) -> String {
        const NAMED: usize = 3;
        let named = self.changed.iter().take(NAMED);
        let mut list: Vec<String> =
            named.map(|change| format!("{} {}", change.path, change.how.words())).collect();
        let more =
            self.changed.len().saturating_sub(NAMED) + usize::try_from(self.more).unwrap_or(usize::MAX);
        if more > 0 {
            list.push(format!("{more} more"));
        }
        list.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVICE: &str = "allow it if the task asks for it";

    #[track_caller]
    fn check(result: IntegrityResult, expected: Option<(DoubtReason, &str)>) {
        let change = |path: &str, how| CheckChange { path: path.to_owned(), how };
        let changed = vec![
            change("tests/a.py", CheckChangeKind::Deleted),
            change("pytest.ini", CheckChangeKind::Changed),
            change("python3", CheckChangeKind::Shadowed),
            change("conftest.py", CheckChangeKind::Added),
        ];
        let integrity = Integrity { result, changed, more: 2, advice: None };
        let doubt = integrity.doubt();
        let advised = Integrity { advice: Some(ADVICE.to_owned()), ..integrity }.doubt();
        let with_advice = doubt.as_ref().map(|doubt| format!("{}; {ADVICE}", doubt.message));
        assert_eq!(advised.map(|doubt| doubt.message), with_advice);
        let got = doubt.as_ref().map(|doubt| (doubt.reason, doubt.message.as_str()));
        assert_eq!(got, expected);
    }

    #[test]
    fn only_checks_of_the_beginning_prove_the_work() {
        check(IntegrityResult::Intact, None);
        check(IntegrityResult::OriginalsPass, None);
        check(IntegrityResult::Allowed, None);
        check(
            IntegrityResult::OriginalsFail,
            Some((
                DoubtReason::ChecksChanged,
                "the run changed what checks it (tests/a.py deleted, pytest.ini changed, python3 replaced by another \
                 program, 3 more), and the original checks fail on the new code",
            )),
        );
        check(
            IntegrityResult::Unchanged,
            Some((DoubtReason::Unchanged, "the run changed no file, so checks prove nothing about the task")),
        );
    }
}
