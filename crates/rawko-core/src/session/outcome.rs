//! How a run ended: in one word, and in detail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::landing::Landing;
use super::ledger::Ledger;
use super::spend::SharedSpend;
use super::tree::Freshness;
use crate::agent::outside::OutsideUse;
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::{Proof, Verification};
use crate::integrity::{Doubt, DoubtReason};
use crate::machine::State;
use crate::text::truncate;
use crate::time::Timestamp;
use crate::usage::Usage;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The task is done, and the verification commands have proven it on the current tree.
    Verified,
    /// The arbiter says the task is done; no verification command has proven it.
    Claimed,
    /// The run failed.
    Failed,
    /// Stopped by a limit: iterations, tokens, cost, time, or the loop detector.
    Limited,
    /// Stopped by the user.
    Cancelled,
}

impl Status {
    /// The name in output and journals.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Claimed => "claimed",
            Self::Failed => "failed",
            Self::Limited => "limited",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Which limit stopped a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Executions (`constraints.maxIterations`).
    Iterations,
    /// Tokens (`constraints.maxTokens`).
    Tokens,
    /// Cost (`constraints.maxCostUsd`).
    Cost,
    /// Wall time (`constraints.maxDuration`).
    Time,
    /// The run repeated itself: the loop detector.
    Stalled,
}

impl LimitKind {
    /// The option of the command line that raises it. A run that repeated itself goes on without one, as far as its
    /// iterations reach.
    #[must_use]
    pub fn option(self) -> &'static str {
        match self {
            Self::Tokens => "--max-tokens N",
            Self::Cost => "--max-cost USD",
            Self::Time => "--timeout TIME",
            Self::Iterations | Self::Stalled => "--max-iterations N",
        }
    }
}

/// The end of a run, with what was achieved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// What rawko itself knows of it: what the checks say, what was achieved, or why not.
    pub summary: String,
    /// What the agents and the arbiter say of it: the words of the COMPLETE, or the last report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_summary: Option<String>,
    /// Executions that the task has begun, including those that a fork shares.
    pub iterations: u32,
    /// Tokens of the task's own model calls, without the shared part of a fork and earlier tasks of the session.
    pub usage: Usage,
    /// Cost of these calls in US dollars; `None` where a model's price is not known.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// What a fork shares with the session that it comes from; absent if it shares no work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedSpend>,
    /// The files that the run changed: those that differ in the tree, by path, and those that tools wrote. Bounded.
    pub files_modified: Vec<String>,
    /// How many files it changed besides those, at least.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_files_modified: u32,
    /// Those of them that programs on the user's machine obey later, unasked, ones that git ignores included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs_later: Vec<String>,
    /// Whether it may have changed others: the tree was not compared with its beginning after the last command.
    #[serde(default, skip_serializing_if = "is_false")]
    pub files_modified_partial: bool,
    /// From the task's own start in this session to its end, in milliseconds.
    pub duration_ms: u64,
    /// The limit that stopped it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitKind>,
    /// What the checks prove; with `verified`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// Why a finished task is claimed and not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// The last verification, if it still holds for the current tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// The error that ended the run, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
    /// The tasks that the session had before this one, oldest first. All figures above are of the last task alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_tasks: Vec<EndedTask>,
    /// Sessions that ran in the same folder meanwhile: changed files and verification may be of both.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// What became of the work, where the run had a tree of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub landing: Option<Landing>,
    /// The outside agents that worked, with the keys that they were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<OutsideUse>,
}

/// A task of a session that has had others since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedTask {
    /// The beginning of the task.
    pub task: String,
    /// How it ended.
    pub status: Status,
    /// Executions that it began, those that a fork shares included.
    pub iterations: u32,
    /// Tokens of its own model calls.
    pub usage: Usage,
    /// Cost of these calls in US dollars; absent where a model's price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// From its start to its end, in milliseconds.
    pub duration_ms: u64,
}

/// Characters of a task that an outcome names.
const TASK_CHARS: usize = 200;

impl EndedTask {
    /// The task that ended with `outcome`.
    #[must_use]
    pub fn of(task: &str, outcome: &Outcome) -> Self {
        Self {
            task: truncate(task.trim(), TASK_CHARS),
            status: outcome.status,
            iterations: outcome.iterations,
            usage: outcome.usage,
            cost_usd: outcome.cost_usd,
            duration_ms: outcome.duration_ms,
        }
    }

    /// The same task in a fork that shares all of it: another session was charged for it.
    pub(super) fn shared(&self) -> Self {
        Self { usage: Usage::default(), cost_usd: Some(0.0), ..self.clone() }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(is_so: &bool) -> bool {
    !is_so
}

impl Outcome {
    /// The files that the run changed, in one line for people, with what the list leaves out.
    #[must_use]
    pub fn changed_files(&self) -> String {
        let Self { files_modified, more_files_modified: more, files_modified_partial, .. } = self;
        let mut text = files_modified.join(", ");
        if *more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
        match (text.is_empty(), files_modified_partial) {
            (true, true) => "not known, because the tree was not compared after the last command".to_owned(),
            (true, false) => "none".to_owned(),
            (false, true) => {
                format!("{text}; perhaps others, because the tree was not compared after the last command")
            }
            (false, false) => text,
        }
    }

    /// Cost of all tasks of the session in US dollars; `None` where the price of a model is not known.
    #[must_use]
    pub fn session_cost_usd(&self) -> Option<f64> {
        let costs = self.earlier_tasks.iter().map(|task| task.cost_usd);
        costs.chain([self.cost_usd]).sum()
    }

    /// The end of a run that could not start.
    #[must_use]
    pub fn failed(error: ErrorInfo) -> Self {
        let summary = error.message.clone();
        Self { error: Some(error), ..Self::bare(Status::Failed, summary) }
    }

    /// An end of which nothing else is known.
    fn bare(status: Status, summary: String) -> Self {
        Self {
            status,
            summary,
            agent_summary: None,
            iterations: 0,
            usage: Usage::default(),
            cost_usd: None,
            shared: None,
            files_modified: Vec::new(),
            more_files_modified: 0,
            runs_later: Vec::new(),
            files_modified_partial: false,
            duration_ms: 0,
            limit: None,
            proof: None,
            doubt: None,
            verification: None,
            error: None,
            earlier_tasks: Vec::new(),
            beside: Vec::new(),
            landing: None,
            outside: Vec::new(),
        }
    }
}

impl Ledger {
    /// The outcome of a run that cannot continue because of `error`.
    pub(super) fn broken_off(&self, at: Timestamp, error: ErrorInfo) -> Outcome {
        let ended = self.ended(at, Status::Failed, error.message.clone());
        Outcome { agent_summary: self.task.last_report(), error: Some(error), ..ended }
    }

    /// The outcome with what was done and used.
    fn ended(&self, at: Timestamp, status: Status, summary: String) -> Outcome {
        let own = self.spend.own_calls();
        Outcome {
            iterations: self.task.own_iterations(),
            usage: own.usage,
            cost_usd: own.cost_usd(),
            shared: self.shared_part(),
            files_modified: self.tree.files(),
            more_files_modified: self.tree.more_files(),
            runs_later: self.tree.runs_later(),
            files_modified_partial: self.tree.is_unseen(),
            duration_ms: self.spend.own_duration(at),
            verification: self.tree.fresh().cloned(),
            earlier_tasks: self.carried.ended.clone(),
            beside: self.tree.beside.clone(),
            landing: self.tree.landing.clone(),
            outside: self.outside.clone(),
            ..Outcome::bare(status, summary)
        }
    }

    /// Why the task is not verified, although it is done as far as the arbiter knows.
    fn doubt(&self) -> Doubt {
        let doubt = |reason, message: &str| Doubt { reason, message: message.to_owned() };
        match (&self.setup.verify, &self.tree.verification) {
            (None, _) => doubt(DoubtReason::NothingToRun, "no command verified it"),
            (Some(_), Some((verification, Freshness::Fresh))) => verification
                .doubt()
                .unwrap_or_else(|| doubt(DoubtReason::NothingToRun, "no verification command was run")),
            (Some(verify), checked)
                if verify.commands.is_empty() && checked.as_ref().is_none_or(|(it, _)| !it.adopted) =>
            {
                doubt(DoubtReason::NothingToRun, "no check was found")
            }
            (Some(_), _) => {
                doubt(DoubtReason::Stale, "something may have been written since the checks last passed")
            }
        }
    }

    /// How a run that reached a final state ended.
    pub(super) fn outcome(&self, state: State) -> Outcome {
        let context = self.task.context();
        let error = context.last_error.as_ref().map(|failure| failure.error.clone());
        let stops = |error: &ErrorInfo| matches!(error.code, ErrorCode::BudgetExceeded | ErrorCode::Stalled);
        let out_of_budget = error.as_ref().is_some_and(stops);
        // Another iteration would not have mended it, so it is not the limit that ended the run.
        let is_final = error.as_ref().is_some_and(|error| !error.code.is_recoverable()) && !out_of_budget;
        let is_proven = self.tree.fresh().is_some_and(Verification::proves);
        let status = match state {
            State::Cancelled => Status::Cancelled,
            State::Failed if is_final => Status::Failed,
            _ if context.limited => Status::Limited,
            State::Complete if is_proven => Status::Verified,
            State::Complete => Status::Claimed,
            _ if out_of_budget => Status::Limited,
            _ => Status::Failed,
        };
        let proof = self.tree.fresh().and_then(Verification::proof).filter(|_| status == Status::Verified);
        let doubt = (status == Status::Claimed).then(|| self.doubt());
        let agent_summary = match (status, &context.last_decision) {
            (Status::Verified | Status::Claimed, decision) => {
                decision.as_ref().map(|decision| decision.reason().to_owned())
            }
            (Status::Failed | Status::Limited | Status::Cancelled, _) => self.task.last_report(),
        };
        let summary = match (status, &error) {
            (Status::Verified, _) => format!("{}{}", self.tree.proven(), self.against_the_end()),
            (Status::Claimed, _) => {
                let why = doubt.as_ref().map(|doubt| doubt.message.clone()).unwrap_or_default();
                let is_red = doubt.as_ref().is_some_and(|doubt| doubt.reason == DoubtReason::RedBefore);
                let word = if is_red { "Not verified" } else { "Claimed done, not verified" };
                format!("{word}: {}{}", Self::sentence(&why), self.against_the_end())
            }
            (Status::Cancelled, ..) => "Cancelled.".to_owned(),
            (Status::Limited, Some(error)) if out_of_budget => {
                format!("Stopped: {}.{}", error.message, self.achieved())
            }
            (Status::Limited, ..) => {
                format!(
                    "Stopped: all {} iterations are used up.{}",
                    self.task.own_iterations(),
                    self.achieved()
                )
            }
            (Status::Failed, Some(error)) => {
                let times = context.consecutive_failures;
                let what = Self::sentence(&error.message);
                let failed = match times {
                    _ if error.code == ErrorCode::Blocked => "Blocked".to_owned(),
                    1 => "Failed".to_owned(),
                    times => format!("Failed after {times} failures in a row"),
                };
                format!("{failed}: {what}{}", self.tried(error))
            }
            (Status::Failed, None) => "Failed.".to_owned(),
        };
        let keeps_error = matches!(status, Status::Failed | Status::Limited);
        Outcome {
            agent_summary: agent_summary.filter(|words| !words.trim().is_empty()),
            limit: match self.task.limit {
                _ if status != Status::Limited => None,
                // The error that ended the run names it, though the iterations are used up as well.
                Some(limit) if out_of_budget => Some(limit),
                _ if context.limited => Some(LimitKind::Iterations),
                limit => limit,
            },
            proof,
            doubt,
            error: error.filter(|_| keeps_error),
            ..self.ended(self.now, status, summary)
        }
    }
}
