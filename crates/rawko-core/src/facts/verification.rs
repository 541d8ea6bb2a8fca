//! What rawko's own runs of the verification commands prove about a tree (`docs/verification.md`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::command_run::{CheckResult, CommandRun};
use crate::integrity::{Baseline, Doubt, DoubtReason, Integrity, IntegrityResult, OriginalRun};

/// The results of the verification commands, and the tree they ran on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// The commands, in order.
    pub runs: Vec<CommandRun>,
    /// The hash of the content of the tree they ran on; absent if it could not be determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Whether rawko found no check, and ran the test runner of an agent instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
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
    /// Tests that the run added or changed and that fail on the code of the beginning, where the checks passed there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_tests: Vec<String>,
    /// Checks that agents ran and saw fail, and that are not among `runs`: linters, formatters, type checkers, builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherCheck>,
}

/// A check that an agent saw fail, run by rawko in copies of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OtherCheck {
    /// On the tree that the run left.
    pub now: CommandRun,
    /// On the tree that the run began with; absent where it was not run there, or what surrounds the project differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<CommandRun>,
    /// Whether it finds something in what the run changed, where both cannot be compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub names_changes: bool,
}

impl OtherCheck {
    /// Whether the run made it worse: it passed before, or it finds something new.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        let Some(before) = &self.before else { return false };
        self.now.result() == CheckResult::Failed
            && before.result().is_comparable()
            && self.now.is_worse_than(before).unwrap_or(self.names_changes)
    }

    /// How it ended on the last tree and on the first one, on one line.
    #[must_use]
    pub fn line(&self) -> String {
        let now = self.now.how();
        match &self.before {
            _ if self.now.passed() => format!("`{}` passes", self.now.command),
            Some(_) if self.now.result() != CheckResult::Failed => format!("`{}` {now}", self.now.command),
            Some(before) if before.passed() => {
                format!("`{}` {now}: it passed before, so it is worse than before", self.now.command)
            }
            Some(_) if self.is_worse() => format!("`{}` {now}: worse than before", self.now.command),
            Some(_) => format!("`{}` {now}: red before as well", self.now.command),
            None => format!("`{}` {now}", self.now.command),
        }
    }
}

/// What a verification says as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Every command passed.
    #[default]
    Passed,
    /// What fails failed on the tree of the beginning as well.
    RedBefore,
    /// A command could not run.
    Unavailable,
    /// A command fails, and did not before as far as it is known, or it did not end in time.
    Failed,
}

/// What commands that passed prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// One of them failed on the tree of the beginning, or a test that the run added does: they cover the task.
    Task,
    /// What passed before still passes. That the task is done is the agents' word.
    Regression,
}

impl Verification {
    /// What the commands say as a whole, compared with the tree of the beginning.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let of_other = |other: &OtherCheck| match other.now.result() {
            CheckResult::Failed if other.is_worse() => Standing::Failed,
            CheckResult::Failed => Standing::RedBefore,
            _ => Standing::Passed,
        };
        // Where there are no others, those of the agents are all that is known.
        let only = self.others.iter().filter(|_| self.runs.is_empty()).map(of_other);
        self.runs.iter().map(|run| self.standing_of(run)).chain(only).max().unwrap_or_default()
    }

    /// What one of the commands says, compared with the tree of the beginning.
    #[must_use]
    pub fn standing_of(&self, run: &CommandRun) -> Standing {
        match run.result() {
            CheckResult::Passed | CheckResult::NothingToRun => Standing::Passed,
            // It could run before: what is missing is missing in the work.
            CheckResult::Unavailable if self.before(run).is_some_and(CommandRun::passed) => Standing::Failed,
            CheckResult::Unavailable => Standing::Unavailable,
            CheckResult::TimedOut => Standing::Failed,
            CheckResult::Failed => {
                let is_old = |before: &CommandRun| {
                    before.result() == CheckResult::Failed && run.is_worse_than(before) == Some(false)
                };
                if self.before(run).is_some_and(is_old) { Standing::RedBefore } else { Standing::Failed }
            }
        }
    }

    /// The same command on the tree of the beginning, if it ran there.
    #[must_use]
    pub fn before(&self, run: &CommandRun) -> Option<&CommandRun> {
        self.baseline.as_ref()?.runs.iter().find(|before| before.command == run.command)
    }

    /// The first command that does not pass, the worst kind first.
    #[must_use]
    pub fn worst(&self) -> Option<&CommandRun> {
        let standing = self.standing();
        let is_worst = |run: &&CommandRun| !run.passed() && self.standing_of(run) == standing;
        let other = || self.others.iter().map(|other| &other.now).find(|run| !run.passed());
        self.runs.iter().find(is_worst).or_else(|| other().filter(|_| self.runs.is_empty()))
    }

    /// The first check of an agent that the run made worse.
    #[must_use]
    pub fn worse_other(&self) -> Option<&OtherCheck> {
        self.others.iter().find(|other| other.is_worse())
    }

    /// Whether there are commands, and none could run.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(|run| self.standing_of(run) == Standing::Unavailable)
    }

    /// Whether what an adopted check says counts. How all its tests are run is a guess: one that does not pass says something
    /// only where it can be compared with itself on the tree of the beginning.
    #[must_use]
    pub fn is_worth_adopting(&self) -> bool {
        let has_a_say = |run: &CommandRun| match run.result() {
            CheckResult::Passed => true,
            CheckResult::Failed => self
                .before(run)
                .is_some_and(|before| before.result().is_comparable() && run.is_worse_than(before).is_some()),
            CheckResult::Unavailable | CheckResult::NothingToRun | CheckResult::TimedOut => false,
        };
        self.runs.iter().all(has_a_say)
    }

    /// What commands that passed prove; `None` if they prove nothing.
    #[must_use]
    pub fn proof(&self) -> Option<Proof> {
        let was_red =
            |run: &CommandRun| self.before(run).is_some_and(|it| it.result() == CheckResult::Failed);
        let covers_the_task = !self.new_tests.is_empty() || self.runs.iter().any(was_red);
        self.proves().then_some(if covers_the_task { Proof::Task } else { Proof::Regression })
    }

    /// Whether every command exited with 0 on one known tree, and nothing speaks against the checks.
    #[must_use]
    pub fn proves(&self) -> bool {
        self.passed() && self.doubt().is_none()
    }

    /// Why commands that exit with 0 do not prove the work; `None` if they do.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        let doubt = |reason, message: &str| Some(Doubt { reason, message: message.to_owned() });
        match (self.standing(), self.worst()) {
            (Standing::RedBefore, Some(run)) => {
                return doubt(
                    DoubtReason::RedBefore,
                    &format!("`{}` {}, as it did before the run", run.command, run.how()),
                );
            }
            (Standing::Unavailable, Some(run)) => {
                return doubt(DoubtReason::Unavailable, &format!("`{}` {}", run.command, run.how()));
            }
            (Standing::Passed | Standing::Failed, _) | (_, None) => {}
        }
        if self.runs.is_empty() && !self.had_nothing_to_prove() {
            return doubt(DoubtReason::NothingToRun, "no check was found");
        }
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
        // The original checks may have run tests of their own.
        let ran =
            |original: &OriginalRun| original.passed() && !original.runs.iter().all(CommandRun::ran_no_test);
        let is_proven = self.original.as_ref().is_some_and(ran);
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
