//! One command that an agent ran, as rawko recorded it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RunnerSummary;

/// Exit statuses of a shell for a program that is missing or not executable: nothing was checked.
pub(super) const NOT_RUN: [i32; 2] = [126, 127];

/// One command that was run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandFact {
    /// The command, bounded.
    pub command: String,
    /// Its exit status; absent where it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether it is known to run the project's tests or checks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_check: bool,
    /// Whether files were written afterwards: its result then says nothing about the current tree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before_last_write: bool,
    /// Whether a command ran afterwards that may have written. It did not, if the execution changed nothing in the tree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub before_possible_write: bool,
    /// The exit statuses of the members of the last pipeline, where it had several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipe_status: Vec<i32>,
    /// The exit status of what the command is about: of the check in it, else of the program that does more than read.
    /// Absent where that is the command's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_status: Option<OwnStatus>,
    /// What the test runner in it printed about its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<RunnerSummary>,
    /// What it may have done to files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<CommandEffect>,
}

/// The exit status of one program in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OwnStatus {
    /// It exited with this.
    Exited(i32),
    /// What stands around it hides its status, as in `make test || true`.
    Hidden,
}

/// What a command may do to files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandEffect {
    /// It is known to only read, or it is a check.
    #[default]
    Reads,
    /// It is not known.
    Unknown,
    /// It is there to write files.
    Writes,
}

/// How a command went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandResult {
    /// It exited with 0, and no summary says otherwise.
    Passed,
    /// It did not exit with 0, or its summary speaks of failures.
    Failed,
    /// Its program is missing.
    NotRun,
    /// Its status is hidden.
    Unknown,
}

impl CommandFact {
    /// The exit status of what it is about, else its own.
    #[must_use]
    pub fn own_exit_code(&self) -> Option<i32> {
        match self.own_status {
            Some(OwnStatus::Exited(status)) => Some(status),
            Some(OwnStatus::Hidden) | None => self.exit_code,
        }
    }

    /// How it went: by what it printed of failures, else by the status of what it is about, else by its own.
    #[must_use]
    pub fn result(&self) -> CommandResult {
        if self.summary.as_ref().is_some_and(|summary| summary.failed) {
            return CommandResult::Failed;
        }
        let status = match self.own_status {
            Some(OwnStatus::Hidden) => return CommandResult::Unknown,
            Some(OwnStatus::Exited(status)) => Some(status),
            None => self.exit_code,
        };
        match status {
            Some(0) => CommandResult::Passed,
            Some(status) if NOT_RUN.contains(&status) => CommandResult::NotRun,
            Some(_) | None => CommandResult::Failed,
        }
    }
}
