//! Which agents may not work now, and what replaces a decision that names one: the loop detector and the budgets
//! overrule the arbiter (`docs/tools.md#guards`).

use super::LimitKind;
use super::ledger::Ledger;
use super::loop_detector::Alarm;
use super::tree::Freshness;
use crate::agent::execution::Execution;
use crate::arbiter::{BarredAgent, Repetition, RunFacts, VerificationFacts, another, follow};
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::{BudgetFacts, CommandRun, OtherCheck, Verification};
use crate::machine::Decision;
use crate::message::ToolCall;
use crate::note::DecisionPoint;
use crate::text::keep_ends;
use crate::tool::{ToolAccess, ToolOutcome};

/// Name of the rule by which a guard overrules the arbiter.
pub const GUARD_RULE: &str = "guard";
/// Bytes of a verification command's output that the arbiter and the agents are shown.
const OUTPUT_BYTES: usize = 2_000;

/// A decision after the guards have seen it.
pub(super) enum Guarded {
    /// It stands.
    Stands(Decision),
    /// Another decision replaces it.
    Replaced { by: Decision, instead_of: Decision },
    /// No agent is left that may work, because of this limit.
    NoAgentLeft(ErrorInfo, LimitKind),
}

/// A run with the ends of its output.
fn cut(run: &CommandRun) -> CommandRun {
    CommandRun { output: keep_ends(&run.output, OUTPUT_BYTES), ..run.clone() }
}

/// A run without its output.
fn bare(run: &CommandRun) -> CommandRun {
    CommandRun { output: String::new(), ..run.clone() }
}

impl Ledger {
    /// Collects the facts for the arbiter.
    pub(super) fn gather_facts(&mut self) {
        let tree = &self.tree;
        let verification =
            tree.verification.as_ref().filter(|(verification, _)| !verification.had_nothing_to_prove());
        let verification = verification.map(|(verification, freshness)| VerificationFacts {
            passed: verification.passed(),
            is_stale: *freshness == Freshness::Stale,
            standing: Some(verification.standing()),
            proof: verification.proof(),
            commands: verification.runs.iter().map(cut).collect(),
            before: verification.baseline.iter().flat_map(|it| &it.runs).map(bare).collect(),
            others: verification
                .others
                .iter()
                .map(|other| OtherCheck {
                    now: cut(&other.now),
                    before: other.before.as_ref().map(bare),
                    ..other.clone()
                })
                .collect(),
        });
        let barred = self.setup.agents.keys().filter_map(|agent| {
            let reason = self.bar(agent)?;
            Some(BarredAgent { agent: agent.clone(), reason })
        });
        let barred = barred.collect();
        self.task.facts = RunFacts {
            changes: tree.changes().cloned(),
            verification,
            checks: self.setup.verify.as_ref().map(|_| self.checks().0),
            repetition: self.detector.noticed(),
            budget: Some(self.remaining_worth_telling()).filter(|left| *left != BudgetFacts::default()),
            barred,
            earlier_tasks: self.carried.tasks.clone(),
            lost_work: self.carried.lost_work.clone(),
            user_messages: self.user.words.for_arbiter(),
        };
    }

    /// Why `agent` cannot work now, if it cannot.
    pub(super) fn bar(&self, agent: &str) -> Option<String> {
        if let Some(spent) = self.barred_by_budget(agent) {
            return Some(spent);
        }
        let current = &self.task.context().current_mode;
        if self.detector.pending_alarm() >= Alarm::Change && agent == current {
            return Some(self.circle());
        }
        let alarm = self.detector.if_switched(current, agent);
        (!current.is_empty() && alarm >= Alarm::Change).then(|| self.circle())
    }

    /// What is repeated, for people.
    pub(super) fn circle(&self) -> String {
        match self.detector.noticed() {
            Some(Repetition { what, times, .. }) => {
                format!("the run goes round in circles ({times} times: {what})")
            }
            None => "the run goes round in circles".to_owned(),
        }
    }

    /// Lets a decision stand unless it names an agent that may not work. Then the rules choose among the others.
    pub(super) fn guarded(&self, point: DecisionPoint, decision: Decision) -> Guarded {
        let current = self.task.context().current_mode.as_str();
        let target = match (&decision, point) {
            (Decision::SelectMode { mode, .. }, _) => mode.as_str(),
            (Decision::Continue { .. }, _) | (Decision::Retry { .. }, DecisionPoint::Select) => current,
            // The agent is chosen later; the guard sees that choice.
            (Decision::Retry { .. }, DecisionPoint::Evaluate) | (Decision::Blocked { .. }, _) => {
                return Guarded::Stands(decision);
            }
            (Decision::Complete { .. }, _) => {
                return match self.must_be_read(point) {
                    Some(by) => Guarded::Replaced { by, instead_of: decision },
                    None => Guarded::Stands(decision),
                };
            }
        };
        let Some(reason) = self.bar(target) else { return Guarded::Stands(decision) };
        let mut others: Vec<&str> =
            self.setup.agents.keys().map(String::as_str).filter(|name| *name != target).collect();
        // The agent that has just worked would be no change, but it is better than none.
        if others.len() > 1 {
            others.retain(|name| *name != current);
        }
        others.retain(|name| self.barred_by_budget(name).is_none());
        let last = self.task.context().history.last();
        let successor = last.and_then(|last| {
            let transitions = &self.setup.agents.get(&last.agent)?.config.transitions;
            follow(transitions, last.facts.ended, last.result, last.facts.verdict)
        });
        match another(&others, successor, self.setup.default_agent.as_deref()) {
            Some(mode) => Guarded::Replaced {
                by: Decision::SelectMode { mode: mode.to_owned(), reason: format!("not {target}: {reason}") },
                instead_of: decision,
            },
            None => {
                let spent = self.spent_budget(target);
                let code = if spent.is_some() { ErrorCode::BudgetExceeded } else { ErrorCode::Stalled };
                let error = ErrorInfo::new(code, format!("{reason}, and no other agent is left"));
                Guarded::NoAgentLeft(error, spent.unwrap_or(LimitKind::Stalled))
            }
        }
    }

    /// An agent begins to work. If that was tried too often already, the run ends instead.
    pub(super) fn begins(&mut self, from: &str, to: &str) -> Result<(), ErrorInfo> {
        if self.detector.begin(from, to) { Err(self.stalled()) } else { Ok(()) }
    }

    /// The error that ends a run which would have to wait longer than it may last.
    pub(super) fn cannot_wait(&mut self, after_ms: u64) -> Option<ErrorInfo> {
        let left = self.remaining().time_left_ms?;
        if after_ms <= left {
            return None;
        }
        self.task.limit = Some(LimitKind::Time);
        let message = format!(
            "the next attempt could begin in {} s, and the run's time is up in {} s (constraints.maxDuration)",
            after_ms / 1_000,
            left / 1_000
        );
        Some(ErrorInfo::new(ErrorCode::BudgetExceeded, message))
    }

    /// The error that ends a run that repeats itself.
    pub(super) fn stalled(&mut self) -> ErrorInfo {
        self.task.limit = Some(LimitKind::Stalled);
        ErrorInfo::new(ErrorCode::Stalled, format!("nothing new came any more: {}", self.circle()))
    }

    /// Counts a tool call that was made. The agent is warned when it repeats itself.
    pub(super) fn watch_call(
        &mut self,
        execution: &mut Execution,
        call: &ToolCall,
        access: ToolAccess,
        outcome: &ToolOutcome,
    ) {
        let alarm = self.detector.call(call, access, outcome);
        self.detector.raise(alarm);
        if alarm == Alarm::Nudge
            && let Some(Repetition { what, times, change_at, .. }) = self.detector.noticed()
        {
            execution.inbox.remark(format!(
                "You have done this {times} times, and nothing changed in between: {what}. Do something else, or `Report` how it stands. At {change_at} times your turn ends."
            ));
        }
        if let Some(times) = self.detector.failed_alike() {
            execution.inbox.remark(format!(
                "This check has failed alike {times} times, after {times} different changes. Look for the cause elsewhere: what is run may not be what you change, or the failure not be what you think it is."
            ));
        }
    }

    /// Looks at the plan as an execution has drafted it.
    pub(super) fn watch_plan(&mut self, execution: &Execution) {
        if execution.record.plan().is_some()
            && let Some(plan) = self.task.plan_with(execution)
        {
            self.detector.plan_is(&plan);
        }
    }

    /// Checks, at the end of a turn, how many model calls made no progress. The agent is warned once.
    pub(super) fn watch_progress(&mut self, execution: &mut Execution) {
        let alarm = self.detector.patience();
        self.detector.raise(alarm);
        if alarm == Alarm::Nudge
            && let Some(Repetition { what, times, change_at, .. }) = self.detector.impatience()
        {
            execution.inbox.remark(format!(
                "This run has made no progress: {times} times {what}. Change what is missing, or `Report` how it stands and what keeps you. At {change_at} times your turn ends and the checks run."
            ));
        }
    }

    /// Counts the calls that were refused, like those that were made.
    pub(super) fn watch_refused(&mut self, execution: &mut Execution) {
        for (call, outcome) in execution.calls.take_refused() {
            let alarm = self.detector.refused(&call, &outcome);
            self.detector.raise(alarm);
        }
    }

    /// Counts a COMPLETE against the record. If it was tried alike too often, returns the error that ends the run.
    pub(super) fn watch_refusal(&mut self, objection: &str, tree: &str) -> Option<ErrorInfo> {
        let alarm = self.detector.completion_refused(objection, tree);
        if alarm == Alarm::Stop {
            return Some(self.stalled());
        }
        self.detector.raise(alarm);
        None
    }

    /// Counts a failed verification. If it has failed alike too often, returns the error that ends the run.
    pub(super) fn watch_verification(&mut self, verification: &Verification) -> Option<ErrorInfo> {
        let alarm = self.detector.verification_failed(verification);
        if alarm == Alarm::Stop {
            return Some(self.stalled());
        }
        self.detector.raise(alarm);
        None
    }
}
