//! The calls of one turn: which are answered at once, which run when, what is recorded, and whether a report counts.

use super::record::Reported;
use super::unapproved::{Unapproved, called};
use super::{AllowedCall, Execution, ExecutionStep, Judgement, Permit, unknown_outcome};
use crate::agent::control::{REPORT, Report, UPDATE_PLAN, UpdatePlan};
use crate::agent::prompt;
use crate::agent::verdict::VerdictReport;
use crate::error::ErrorCode;
use crate::machine::Plan;
use crate::message::{Content, StopReason, ToolCall};
use crate::note::Note;
use crate::policy::{MCP_CALL, is_control_tool, resolve_mcp_call};
use crate::text::truncate;
use crate::tool::{Refusal, ToolAccess, ToolOutcome};

/// Characters of a recorded command.
pub(super) const COMMAND_CHARS: usize = 200;

/// The tool calls of the current turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Calls {
    slots: Vec<CallSlot>,
    /// Those that were refused, until [`Self::take_refused`].
    refused: Vec<(ToolCall, ToolOutcome)>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CallSlot {
    pub(super) call: ToolCall,
    pub(super) state: SlotState,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum SlotState {
    /// A person is asked for it once the calls before it are answered.
    Unapproved(Box<Unapproved>),
    Waiting(Permit),
    Running(Permit),
    Done(ToolOutcome),
}

impl Calls {
    /// A turn begins with these calls.
    pub(super) fn begin(&mut self, slots: Vec<CallSlot>) {
        self.slots = slots;
    }

    /// The turn is over.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
    }

    /// The call at `slot`, if it is running.
    pub(crate) fn running(&self, slot: usize) -> Option<AllowedCall> {
        let entry = self.slots.get(slot)?;
        match &entry.state {
            SlotState::Running(permit) => {
                Some(AllowedCall { slot, call: entry.call.clone(), permit: permit.clone() })
            }
            SlotState::Unapproved(_) | SlotState::Waiting(_) | SlotState::Done(_) => None,
        }
    }

    /// The call at `slot`, if it waits for a person.
    pub(crate) fn unapproved(&self, slot: usize) -> Option<Unapproved> {
        match &self.slots.get(slot)?.state {
            SlotState::Unapproved(unapproved) => Some((**unapproved).clone()),
            SlotState::Waiting(_) | SlotState::Running(_) | SlotState::Done(_) => None,
        }
    }

    /// The calls that were refused since the last call of this method.
    pub(crate) fn take_refused(&mut self) -> Vec<(ToolCall, ToolOutcome)> {
        std::mem::take(&mut self.refused)
    }

    pub(super) fn refuse(&mut self, call: ToolCall, outcome: ToolOutcome) {
        self.refused.push((call, outcome));
    }

    /// The call at `slot` is in this state now.
    pub(super) fn set(&mut self, slot: usize, state: SlotState) {
        if let Some(entry) = self.slots.get_mut(slot) {
            entry.state = state;
        }
    }

    /// Starts the calls that may run now: leading reads in parallel, a call that may change something alone. A call
    /// that is not allowed yet is asked for in its turn. `None` once all are answered.
    fn next_step(&mut self) -> Option<ExecutionStep> {
        if self.slots.iter().any(|slot| matches!(slot.state, SlotState::Running(_))) {
            return Some(ExecutionStep::Wait);
        }
        let mut batch = Vec::new();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let permit = match &slot.state {
                SlotState::Waiting(permit) => permit.clone(),
                SlotState::Unapproved(_) if batch.is_empty() => return Some(ExecutionStep::Approve(number)),
                SlotState::Unapproved(_) => break,
                SlotState::Running(_) | SlotState::Done(_) => continue,
            };
            let changes = permit.access == ToolAccess::Mutating;
            if changes && !batch.is_empty() {
                break;
            }
            slot.state = SlotState::Running(permit.clone());
            batch.push(AllowedCall { slot: number, call: slot.call.clone(), permit });
            if changes {
                break;
            }
        }
        (!batch.is_empty()).then_some(ExecutionStep::Run(batch))
    }

    /// The reports that were accepted when they were made, with their results.
    fn reports(&mut self) -> impl Iterator<Item = (&ToolCall, &mut ToolOutcome)> {
        self.slots.iter_mut().filter_map(|CallSlot { call, state }| match state {
            SlotState::Done(outcome) if call.name == REPORT && !outcome.is_error => Some((&*call, outcome)),
            _ => None,
        })
    }

    /// Ends the turn with the results for the model.
    pub(super) fn take_results(&mut self) -> Vec<Content> {
        let results = std::mem::take(&mut self.slots).into_iter().filter_map(|slot| match slot.state {
            SlotState::Done(outcome) => Some(result(slot.call.id, outcome)),
            SlotState::Unapproved(_) | SlotState::Waiting(_) | SlotState::Running(_) => None,
        });
        results.collect()
    }

    /// The result of a call of a turn that broke off.
    pub(super) fn result_so_far(&self, call: ToolCall) -> Content {
        let done = self.slots.iter().find_map(|slot| match &slot.state {
            SlotState::Done(outcome) if slot.call.id == call.id => Some(outcome.clone()),
            SlotState::Unapproved(unapproved) if unapproved.has_run && slot.call.id == call.id => {
                Some(unapproved.outcome.clone())
            }
            SlotState::Done(_) | SlotState::Unapproved(_) | SlotState::Waiting(_) | SlotState::Running(_) => {
                None
            }
        });
        result(call.id, done.unwrap_or_else(unknown_outcome))
    }
}

impl Execution {
    /// Answers what needs no tool at once: invalid input, control tools, denials.
    pub(super) fn slot(
        &mut self,
        call: ToolCall,
        stop_reason: StopReason,
        plan: Option<&Plan>,
        judge: &mut impl FnMut(&ToolCall) -> Judgement,
        notes: &mut Vec<Note>,
    ) -> CallSlot {
        let (call, fault) = meant(call);
        let mut is_answered = false;
        let (rule, verdict) = if let Some(fault) = fault {
            ("input".to_owned(), Err(ToolOutcome::error(ErrorCode::ValidationError, fault)))
        } else if let Some(raw) = &call.invalid_input {
            ("input".to_owned(), Err(invalid_input(raw, stop_reason == StopReason::MaxTokens)))
        } else if is_control_tool(&call.name) {
            ("control".to_owned(), Err(self.control(&call, plan, notes)))
        } else {
            match judge(&call) {
                Judgement::Allowed { rule, access } => (rule, Ok(access)),
                Judgement::Unlisted { rule, message, would_allow, access } => {
                    let unapproved = Unapproved {
                        call: call.clone(),
                        permit: Permit { access, rule, grants: Vec::new() },
                        needs: vec![Refusal::Command],
                        why: message.clone(),
                        outcome: ToolOutcome {
                            would_allow,
                            ..ToolOutcome::error(ErrorCode::PermissionError, message)
                        },
                        is_judged: false,
                        has_run: false,
                    };
                    return CallSlot { call, state: SlotState::Unapproved(Box::new(unapproved)) };
                }
                Judgement::Answered { rule, outcome } => {
                    is_answered = !outcome.is_error;
                    (rule, Err(*outcome))
                }
                Judgement::Denied { rule, message, would_allow, code } => {
                    self.record.denied(&call);
                    (rule, Err(ToolOutcome { would_allow, ..ToolOutcome::error(code, message) }))
                }
            }
        };
        let is_control = is_control_tool(&call.name) && call.invalid_input.is_none();
        let allowed = verdict.is_ok() || is_answered || is_control;
        notes.push(called(&self.agent, &call, allowed, &rule));
        let state = match verdict {
            Ok(access) => SlotState::Waiting(Permit { access, rule, grants: Vec::new() }),
            Err(outcome) => {
                // Whether a report counts is only known once the other calls of its turn are answered.
                if call.name != REPORT || outcome.is_error {
                    notes.push(answered(&self.agent, &call, &outcome));
                }
                if !(is_control_tool(&call.name) || is_answered) || outcome.is_error {
                    self.record.note_error(&call, &outcome);
                }
                if outcome.is_error {
                    self.calls.refuse(call.clone(), outcome.clone());
                }
                SlotState::Done(outcome)
            }
        };
        CallSlot { call, state }
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
            if let Some(draft) = &self.record.plan {
                merged.merge(draft.clone());
            }
            let (updates, words) = match update.to_updates(Some(&merged), &self.agent) {
                Ok(made) => made,
                Err(problem) => {
                    return ToolOutcome::error(ErrorCode::ValidationError, format!("UpdatePlan: {problem}"));
                }
            };
            merged.merge(updates.clone());
            let answer = format!("{words}The plan as it is now. {}", prompt::plan(&merged));
            notes.push(Note::PlanUpdated { agent: self.agent.clone(), plan: merged });
            self.record.plan = Some(updates);
            return ToolOutcome::ok(answer);
        }
        debug_assert_eq!(call.name, REPORT);
        let report = if self.judges {
            VerdictReport::parse(&call.input).map(Reported::Verdict).map_err(|problem| {
                ToolOutcome::error(ErrorCode::ValidationError, format!("{}: {problem}", call.name))
            })
        } else {
            serde_json::from_value::<Report>(call.input.clone()).map(Reported::Work).map_err(wrong)
        };
        match report {
            Ok(report) => {
                self.record.report = Some(report);
                ToolOutcome::ok("Reported.")
            }
            Err(refusal) => refusal,
        }
    }

    /// Goes on with the calls that are left, or with the next turn.
    pub(super) fn advance(&mut self, notes: &mut Vec<Note>) -> ExecutionStep {
        match self.calls.next_step() {
            Some(step) => step,
            None => self.turn_is_over(notes),
        }
    }

    /// Decides whether a report counts. The agent wrote it before it saw the results of the other calls of the turn. If
    /// one of them failed, a report of success does not count, and the agent is asked to check.
    pub(super) fn check_report(&mut self, notes: &mut Vec<Note>) {
        let failed: Vec<String> = self.calls.slots.iter().filter_map(CallSlot::failure).collect();
        let claims = self.record.report.as_ref().is_some_and(Reported::claims_success);
        let counts = failed.is_empty() || !claims;
        for (call, outcome) in self.calls.reports() {
            if !counts {
                *outcome = ToolOutcome::error(ErrorCode::ValidationError, prompt::report_too_early(&failed));
            }
            notes.push(answered(&self.agent, call, outcome));
        }
        if !counts {
            self.record.report = None;
        }
    }
}

impl CallSlot {
    /// A short description of its failure, if it failed and is not a control tool.
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

/// The result of a call, for the model.
fn result(call: String, outcome: ToolOutcome) -> Content {
    let ToolOutcome { content, is_error, images, .. } = outcome;
    Content::ToolResult { tool_use_id: call, content, is_error, images }
}

pub(super) fn answered(agent: &str, call: &ToolCall, outcome: &ToolOutcome) -> Note {
    Note::ToolFinished {
        agent: agent.to_owned(),
        call_id: call.id.clone(),
        tool: call.name.clone(),
        outcome: outcome.without_pictures(),
    }
}

/// The answer to a call whose arguments cannot be read. Where the answer was cut off within them, the same call would be cut
/// off again.
fn invalid_input(raw: &str, is_cut: bool) -> ToolOutcome {
    let (fault, advice) = if is_cut {
        (
            "Your answer was cut off at the response limit, within the arguments of this call",
            "Do it in smaller pieces: several calls, or less text in each",
        )
    } else {
        ("The arguments were not valid JSON", "Call it again with valid JSON")
    };
    let raw = truncate(raw, 300);
    let message = format!("{fault}, so the tool was not run. {advice}. What arrived: {raw}");
    ToolOutcome::error(ErrorCode::ValidationError, message)
}

/// The call that is meant, and what is wrong with it: `McpCall` wraps the call of another tool.
fn meant(call: ToolCall) -> (ToolCall, Option<String>) {
    if call.name != MCP_CALL || call.invalid_input.is_some() {
        return (call, None);
    }
    match resolve_mcp_call(&call) {
        Ok(call) => (call, None),
        Err(fault) => (call, Some(fault)),
    }
}
