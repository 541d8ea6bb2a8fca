//! Who may not work now, and what is done about a decision that names such an agent: the loop breaker's and the
//! budgets' say over the arbiter's (`spec/tools-and-permissions.md`, "Guards").

use super::LimitKind;
use super::Reaction;
use super::breaker::Alarm;
use super::note::{DecisionPoint, Note};
use super::run::Run;
use super::verify::Freshness;
use crate::arbiter::{BarredAgent, Repetition, RunFacts, VerificationFacts, another, follow};
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::{BudgetFacts, CommandRun};
use crate::machine::{Decision, ExecutionEnd};
use crate::message::ToolCall;
use crate::text::keep_ends;
use crate::tool::{ToolAccess, ToolOutcome};

/// Name of the rule by which a guard decides in the arbiter's place.
pub const GUARD_RULE: &str = "guard";
/// Bytes of a verification command's output that the arbiter is shown.
const OUTPUT_BYTES: usize = 1_200;

/// What a guard makes of a decision.
pub(super) enum Guarded {
    /// It stands.
    Stands(Decision),
    /// Another takes its place.
    Replaced { by: Decision, instead_of: Decision },
    /// There is nobody left who could work, because of this limit.
    Nobody(ErrorInfo, LimitKind),
}

impl Run {
    /// What the run knows for itself, for the arbiter.
    pub(super) fn gather_facts(&mut self) {
        let evidence = &self.evidence;
        let verification =
            evidence.verification.as_ref().map(|(verification, freshness)| VerificationFacts {
                passed: verification.passed(),
                is_stale: *freshness == Freshness::Stale,
                commands: verification
                    .runs
                    .iter()
                    .map(|run| CommandRun { output: keep_ends(&run.output, OUTPUT_BYTES), ..run.clone() })
                    .collect(),
            });
        let barred = self.setup.agents.keys().filter_map(|agent| {
            let reason = self.bar(agent)?;
            Some(BarredAgent { agent: agent.clone(), reason })
        });
        let barred = barred.collect();
        self.facts = RunFacts {
            changes: evidence.changes.clone(),
            verification,
            repetition: self.breaker.noticed().cloned(),
            budget: Some(self.remaining()).filter(|left| *left != BudgetFacts::default()),
            barred,
        };
    }

    /// Why `agent` cannot work now, if it cannot.
    fn bar(&self, agent: &str) -> Option<String> {
        if let Some(spent) = self.barred_by_budget(agent) {
            return Some(spent);
        }
        let current = &self.machine.context().current_mode;
        if self.must_change && agent == current {
            return Some(self.circle());
        }
        let alarm = self.breaker.if_switched(current, agent);
        (!current.is_empty() && alarm >= Alarm::Change).then(|| self.circle())
    }

    fn circle(&self) -> String {
        match self.breaker.noticed() {
            Some(Repetition { what, times, .. }) => {
                format!("the run goes round in circles ({times} times: {what})")
            }
            None => "the run goes round in circles".to_owned(),
        }
    }

    /// Lets a decision stand unless it has an agent work that cannot. Then the rules choose among the others.
    pub(super) fn guarded(&self, point: DecisionPoint, decision: Decision) -> Guarded {
        let current = self.machine.context().current_mode.as_str();
        let target = match (&decision, point) {
            (Decision::SelectMode { mode, .. }, _) => mode.as_str(),
            (Decision::Continue { .. }, _) | (Decision::Retry { .. }, DecisionPoint::Select) => current,
            // It is chosen later who works; the guard sees that choice.
            (Decision::Retry { .. }, DecisionPoint::Evaluate) | (Decision::Complete { .. }, _) => {
                return Guarded::Stands(decision);
            }
        };
        let Some(reason) = self.bar(target) else { return Guarded::Stands(decision) };
        let mut others: Vec<&str> =
            self.setup.agents.keys().map(String::as_str).filter(|name| *name != target).collect();
        // Whoever has just worked is no change; but rather he than nobody.
        if others.len() > 1 {
            others.retain(|name| *name != current);
        }
        others.retain(|name| self.barred_by_budget(name).is_none());
        let last = self.machine.context().history.last();
        let successor = last.and_then(|last| {
            follow(&self.setup.agents.get(&last.agent)?.config.transitions, last.facts.ended, last.result)
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
                Guarded::Nobody(error, spent.unwrap_or(LimitKind::Stalled))
            }
        }
    }

    /// An agent begins to work. Where that has been tried too often already, the run ends instead.
    pub(super) fn begins(&mut self, from: &str, to: &str) -> Result<(), ErrorInfo> {
        self.must_change = false;
        let alarm = self.breaker.switched(from, to);
        if self.must_stop || alarm == Alarm::Stop { Err(self.stalled()) } else { Ok(()) }
    }

    fn stalled(&mut self) -> ErrorInfo {
        self.limit = Some(LimitKind::Stalled);
        ErrorInfo::new(ErrorCode::Stalled, format!("nothing new came any more: {}", self.circle()))
    }

    /// A tool answered: the agent is told when it repeats itself.
    pub(super) fn watch_call(&mut self, call: &ToolCall, access: ToolAccess, outcome: &ToolOutcome) {
        let alarm = self.breaker.call(call, access, outcome);
        self.heed(alarm);
        if alarm == Alarm::Nudge
            && let (Some(execution), Some(noticed)) = (self.execution.as_mut(), self.breaker.noticed())
        {
            let Repetition { what, times, change_at, .. } = noticed;
            execution.remark(format!(
                "You have done this {times} times, and nothing changed in between: {what}. Do something else, or `Report` how it stands. At {change_at} times your turn ends."
            ));
        }
    }

    /// Calls that were refused count like those that were made.
    pub(super) fn watch_refused(&mut self) {
        let refused = self.execution.as_mut().map(crate::agent::execution::Execution::take_refused);
        for (call, outcome) in refused.unwrap_or_default() {
            let alarm = self.breaker.refused(&call, &outcome);
            self.heed(alarm);
        }
    }

    fn heed(&mut self, alarm: Alarm) {
        self.must_change |= alarm >= Alarm::Change;
        self.must_stop |= alarm == Alarm::Stop;
    }

    /// Ends an execution that goes round in circles, where its turn is over. Says whether it did.
    pub(super) fn breaks_circle(&mut self, reaction: &mut Reaction) -> bool {
        if self.must_stop {
            let error = self.stalled();
            self.execution_failed(error, reaction);
            return true;
        }
        if !self.must_change {
            return false;
        }
        let words = format!("Stopped: {}.", self.circle());
        reaction.notes.push(Note::Warned { message: format!("the agent was stopped: {}", self.circle()) });
        let Some(execution) = self.execution.as_mut() else { return false };
        let result = execution.stop(ExecutionEnd::Stalled, words);
        self.execution_ended(result, reaction);
        true
    }

    /// A failed verification was weighed. Where it has failed alike too often, the run ends.
    pub(super) fn heed_verification(&mut self, alarm: Alarm) -> Option<ErrorInfo> {
        self.must_change |= alarm == Alarm::Change;
        (alarm == Alarm::Stop).then(|| self.stalled())
    }
}
