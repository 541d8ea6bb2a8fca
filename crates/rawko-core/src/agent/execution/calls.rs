//! The calls of one turn: what is decided at once, what runs when, what is recorded, and whether a report counts.

use super::{Execution, Judgement, Step};
use crate::agent::control::{REPORT, Report, ReportOutcome, UPDATE_PLAN, UpdatePlan};
use crate::agent::prompt;
use crate::error::ErrorCode;
use crate::facts::is_check;
use crate::machine::{CommandFact, Plan};
use crate::message::ToolCall;
use crate::policy::{BASH, is_control_tool};
use crate::session::Note;
use crate::text::truncate;
use crate::tool::{ToolAccess, ToolOutcome};

/// Commands remembered as facts.
const COMMANDS_KEPT: usize = 5;
/// Files remembered as accessed.
const FILES_KEPT: usize = 50;
/// Characters of a remembered command.
const COMMAND_CHARS: usize = 200;

/// One tool call of the current turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slot {
    pub(super) call: ToolCall,
    pub(super) state: SlotState,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum SlotState {
    Waiting { access: ToolAccess, rule: String },
    Running { access: ToolAccess, rule: String },
    Done(ToolOutcome),
}

impl Execution {
    /// Decides what can be decided at once: broken input, control tools, denials.
    pub(super) fn slot(
        &mut self,
        call: ToolCall,
        plan: Option<&Plan>,
        judge: &mut impl FnMut(&ToolCall) -> Judgement,
        notes: &mut Vec<Note>,
    ) -> Slot {
        let (rule, verdict) = if let Some(raw) = &call.invalid_input {
            ("input".to_owned(), Err(invalid_input(raw)))
        } else if is_control_tool(&call.name) {
            ("control".to_owned(), Err(self.control(&call, plan, notes)))
        } else {
            match judge(&call) {
                Judgement::Allowed { rule, access } => (rule, Ok(access)),
                Judgement::Denied { rule, message, code } => {
                    if !self.facts.denied_tools.contains(&call.name) {
                        self.facts.denied_tools.push(truncate(&call.name, COMMAND_CHARS));
                    }
                    (rule, Err(ToolOutcome::error(code, message)))
                }
            }
        };
        let allowed = verdict.is_ok() || (is_control_tool(&call.name) && call.invalid_input.is_none());
        notes.push(Note::ToolCalled {
            agent: self.agent.clone(),
            call: call.clone(),
            allowed,
            rule: rule.clone(),
        });
        let state = match verdict {
            Ok(access) => SlotState::Waiting { access, rule },
            Err(outcome) => {
                // Whether a report counts is known when the other calls of its turn are answered.
                if call.name != REPORT || outcome.is_error {
                    notes.push(answered(&self.agent, &call, &outcome));
                }
                if outcome.is_error {
                    self.refused.push((call.clone(), outcome.clone()));
                }
                SlotState::Done(outcome)
            }
        };
        Slot { call, state }
    }

    fn control(&mut self, call: &ToolCall, plan: Option<&Plan>, notes: &mut Vec<Note>) -> ToolOutcome {
        let wrong = |error: serde_json::Error| {
            let message = format!("{}: the arguments do not have the required form: {error}", call.name);
            ToolOutcome::error(ErrorCode::ValidationError, message)
        };
        if call.name == UPDATE_PLAN {
            let update = match serde_json::from_value::<UpdatePlan>(call.input.clone()) {
                Ok(update) => update,
                Err(error) => return wrong(error),
            };
            if let Err(problem) = update.check() {
                let message = format!("UpdatePlan: {problem}");
                return ToolOutcome::error(ErrorCode::ValidationError, message);
            }
            let mut merged = plan.cloned().unwrap_or_default();
            if let Some(draft) = &self.plan {
                merged.merge(draft.clone());
            }
            let (updates, words) = match update.to_updates(Some(&merged), &self.agent) {
                Ok(made) => made,
                Err(problem) => {
                    return ToolOutcome::error(ErrorCode::ValidationError, format!("UpdatePlan: {problem}"));
                }
            };
            merged.merge(updates.clone());
            let told = format!("{words}The plan as it is now. {}", prompt::plan(&merged));
            notes.push(Note::PlanUpdated { agent: self.agent.clone(), plan: merged });
            self.plan = Some(updates);
            return ToolOutcome::ok(told);
        }
        debug_assert_eq!(call.name, REPORT);
        match serde_json::from_value::<Report>(call.input.clone()) {
            Ok(report) => {
                self.report = Some(report);
                ToolOutcome::ok("Reported.")
            }
            Err(error) => wrong(error),
        }
    }

    /// Runs what may run now: the reads at the front side by side, a call that may change something alone.
    pub(super) fn advance(&mut self, notes: &mut Vec<Note>) -> Step {
        if self.calls.iter().any(|slot| matches!(slot.state, SlotState::Running { .. })) {
            return Step::Wait;
        }
        let mut batch = Vec::new();
        for (number, slot) in self.calls.iter_mut().enumerate() {
            let SlotState::Waiting { access, rule } = &slot.state else { continue };
            let (access, rule) = (*access, rule.clone());
            if access == ToolAccess::Mutating && !batch.is_empty() {
                break;
            }
            slot.state = SlotState::Running { access, rule: rule.clone() };
            batch.push((number, slot.call.clone(), access, rule));
            if access == ToolAccess::Mutating {
                break;
            }
        }
        if batch.is_empty() { self.turn_is_over(notes) } else { Step::Run(batch) }
    }

    /// A report of success was written before its agent could see what became of the calls beside it. Where one of
    /// them failed it does not count, and the agent is told to look.
    pub(super) fn weigh_report(&mut self, notes: &mut Vec<Note>) {
        let failed: Vec<String> = self.calls.iter().filter_map(Slot::failure).collect();
        let claims = self.report.as_ref().is_some_and(|report| report.outcome == ReportOutcome::Success);
        let counts = failed.is_empty() || !claims;
        for slot in &mut self.calls {
            let SlotState::Done(outcome) = &mut slot.state else { continue };
            if slot.call.name != REPORT || outcome.is_error {
                continue;
            }
            if !counts {
                *outcome = ToolOutcome::error(ErrorCode::ValidationError, prompt::report_too_early(&failed));
            }
            notes.push(answered(&self.agent, &slot.call, outcome));
        }
        if !counts {
            self.report = None;
        }
    }

    /// Facts are what the tools recorded.
    pub(super) fn record(&mut self, call: &ToolCall, outcome: &ToolOutcome) {
        for file in &outcome.files_modified {
            if self.files.insert(file.clone()) {
                self.facts.files_modified.push(file.clone());
            }
        }
        if outcome.error_code == Some(ErrorCode::PermissionError)
            && !self.facts.denied_tools.contains(&call.name)
        {
            self.facts.denied_tools.push(call.name.clone());
        }
        let seen = outcome.files_seen.iter().map(|file| &file.path);
        for file in seen.chain(&outcome.files_modified) {
            if self.facts.files_accessed.len() < FILES_KEPT && !self.facts.files_accessed.contains(file) {
                self.facts.files_accessed.push(file.clone());
            }
        }
        if !outcome.files_modified.is_empty() {
            for fact in &mut self.facts.commands {
                fact.before_last_write = true;
            }
        }
        let command = call.input.get("command").filter(|_| call.name == BASH);
        if let Some(command) = command.and_then(serde_json::Value::as_str) {
            if self.facts.commands.len() == COMMANDS_KEPT {
                self.facts.commands.remove(0);
            }
            self.facts.commands.push(CommandFact {
                is_check: is_check(command),
                command: truncate(command, COMMAND_CHARS),
                exit_code: outcome.exit_code,
                before_last_write: false,
            });
        }
    }
}

impl Slot {
    /// What went wrong with it, in a few words, if it is a call for work.
    fn failure(&self) -> Option<String> {
        let SlotState::Done(outcome) = &self.state else { return None };
        let name = truncate(&self.call.name, COMMAND_CHARS);
        if is_control_tool(&self.call.name) {
            return None;
        }
        match (outcome.is_error, outcome.exit_code, outcome.error_code) {
            (_, Some(code), _) if code != 0 => Some(format!("{name} (exit {code})")),
            (true, _, Some(ErrorCode::PermissionError)) => Some(format!("{name} (denied)")),
            (true, _, _) => Some(format!("{name} (failed)")),
            (false, _, _) => None,
        }
    }
}

pub(super) fn answered(agent: &str, call: &ToolCall, outcome: &ToolOutcome) -> Note {
    Note::ToolAnswered {
        agent: agent.to_owned(),
        call_id: call.id.clone(),
        tool: call.name.clone(),
        outcome: outcome.clone(),
    }
}

fn invalid_input(raw: &str) -> ToolOutcome {
    let message = format!(
        "The arguments were not valid JSON, so the tool was not run. Call it again with valid JSON. What arrived: {}",
        truncate(raw, 300)
    );
    ToolOutcome::error(ErrorCode::ValidationError, message)
}
