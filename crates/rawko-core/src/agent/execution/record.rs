//! The record of one execution: its facts, its usage, its report. Each execution of a conversation begins with an empty
//! record.

mod calls;
mod failure;

use std::collections::BTreeSet;

use super::calls::COMMAND_CHARS;
use crate::agent::control::{Report, ReportOutcome};
use crate::agent::verdict::{Finding, Verdict, VerdictReport};
use crate::error::ErrorInfo;
use crate::machine::{AgentResult, ExecutionEnd, ExecutionFacts, PlanUpdates};
use crate::message::ToolCall;
use crate::text::truncate;
use crate::usage::Usage;

/// What an execution has done and said so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ExecutionLog {
    facts: ExecutionFacts,
    /// The files that it has modified.
    files: BTreeSet<String>,
    usage: Usage,
    /// The changes to the plan.
    pub(super) plan: Option<PlanUpdates>,
    /// The report, unless it was taken back.
    pub(super) report: Option<Reported>,
    /// The last call that failed, unless its tool succeeded since.
    last_error: Option<ErrorInfo>,
    last_text: String,
    /// Whether the agent was asked to go on because it had said nothing.
    pub(super) was_silent: bool,
    /// Whether its last turn wrote a call as text, and rawko showed it how to make one.
    pub(super) was_shown_how_to_call: bool,
}

/// The report with which an execution ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reported {
    /// Of the agent's own work.
    Work(Report),
    /// A verdict on the work of others.
    Verdict(VerdictReport),
}

impl Reported {
    /// Whether it reports success, which the other calls of its turn may contradict.
    pub(super) fn claims_success(&self) -> bool {
        match self {
            Self::Work(report) => report.outcome == ReportOutcome::Success,
            Self::Verdict(report) => report.verdict == Verdict::Approved,
        }
    }

    /// Whether the agent did its own work.
    fn is_success(&self) -> bool {
        match self {
            Self::Work(report) => report.outcome == ReportOutcome::Success,
            Self::Verdict(report) => report.verdict.is_result(),
        }
    }

    fn summary(&self) -> &str {
        match self {
            Self::Work(report) => &report.summary,
            Self::Verdict(report) => &report.summary,
        }
    }
}

impl ExecutionLog {
    /// The facts and usage so far, for an execution that ends early.
    pub(crate) fn so_far(&self) -> (ExecutionFacts, Usage) {
        (self.facts.clone(), self.usage)
    }

    /// The changes to the plan so far.
    pub(crate) fn plan(&self) -> Option<&PlanUpdates> {
        self.plan.as_ref()
    }

    /// Adds what a call used.
    pub(crate) fn used(&mut self, usage: Usage) {
        self.usage += usage;
    }

    /// The model turns so far.
    pub(super) fn turns(&self) -> u32 {
        self.facts.turns
    }

    /// The agent's last words, unless it has said nothing.
    pub(super) fn last_text(&self) -> &str {
        &self.last_text
    }

    /// The model answered with `text`.
    pub(super) fn turn(&mut self, text: String) {
        self.facts.turns += 1;
        if !text.trim().is_empty() {
            self.last_text = text;
        }
    }

    /// A call was denied.
    pub(super) fn denied(&mut self, call: &ToolCall) {
        if !self.facts.denied_tools.contains(&call.name) {
            self.facts.denied_tools.push(truncate(&call.name, COMMAND_CHARS));
        }
    }

    /// The agent judged the work of others.
    pub(super) fn judged(&mut self, verdict: Verdict, findings: Vec<Finding>) {
        self.facts.verdict = Some(verdict);
        self.facts.findings = findings;
    }

    /// The agent's program did not do its work.
    pub(super) fn broke(&mut self, error: ErrorInfo) {
        self.last_error = Some(error);
    }

    /// The result of the execution, which ends with its report, if there is one.
    pub(super) fn reported(&mut self) -> Option<AgentResult> {
        let report = self.report.as_ref()?;
        let (success, words) = (report.is_success(), report.summary().to_owned());
        if let Reported::Verdict(VerdictReport { verdict, findings, .. }) = report {
            self.facts.verdict = Some(*verdict);
            self.facts.findings.clone_from(findings);
        }
        Some(self.end(ExecutionEnd::Reported, success, words))
    }

    /// The result of the execution, which ends here.
    pub(super) fn end(&mut self, how: ExecutionEnd, success: bool, output: String) -> AgentResult {
        self.facts.ended = Some(how);
        AgentResult {
            success,
            output,
            plan_updates: self.plan.clone(),
            usage: Some(self.usage),
            error: None,
            facts: self.facts.clone(),
        }
    }
}
