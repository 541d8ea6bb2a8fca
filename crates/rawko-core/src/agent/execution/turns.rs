//! The turns: what follows an answer of the model, with and without calls, and when the agent is asked again.

use super::calls::{SlotState, answered};
use super::{Execution, ExecutionStep, Judgement, Reported};
use crate::agent::prompt;
use crate::agent::verdict::VerdictReport;
use crate::error::{ErrorCode, ErrorInfo};
use crate::hosted;
use crate::machine::{ExecutionEnd, Plan};
use crate::message::{Content, Message, Role, StopReason, ToolCall};
use crate::note::Note;
use crate::tool::ToolOutcome;
use crate::usage::Usage;

impl Execution {
    /// Handles the model's answer. `judge` decides whether each call may run.
    pub fn replied(
        &mut self,
        message: Message,
        usage: Usage,
        stop_reason: StopReason,
        plan: Option<&Plan>,
        mut judge: impl FnMut(&ToolCall) -> Judgement,
        notes: &mut Vec<Note>,
    ) -> ExecutionStep {
        self.usage += usage;
        if stop_reason == StopReason::ContextWindow && message.tool_calls().next().is_none() {
            // The broken-off text is not kept: the turn is asked again in a shorter conversation.
            return ExecutionStep::TooLong(ErrorInfo::new(
                ErrorCode::ContextLengthExceeded,
                "the conversation filled the model's context window",
            ));
        }
        self.facts.turns += 1;
        let text = message.text();
        let message = message.or_placeholder();
        if !text.trim().is_empty() {
            self.last_text = text;
        }
        let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
        notes.extend(hosted::notes(&self.agent, &message));
        self.conversation.push(message);
        self.window.counted(usage, self.conversation.bytes());
        if stop_reason == StopReason::Refusal {
            let words = format!("The model declined to answer. {}", self.last_text);
            return self.end(ExecutionEnd::Refusal, false, words.trim().to_owned());
        }
        if calls.is_empty() {
            return self.turn_without_calls(stop_reason);
        }
        self.was_silent = false;
        self.calls =
            calls.into_iter().map(|call| self.slot(call, stop_reason, plan, &mut judge, notes)).collect();
        self.advance(notes)
    }

    /// Handles the result of a tool call.
    pub fn tool_finished(
        &mut self,
        slot: usize,
        outcome: ToolOutcome,
        notes: &mut Vec<Note>,
    ) -> ExecutionStep {
        let Some(entry) = self.calls.get_mut(slot) else { return ExecutionStep::Wait };
        if !matches!(entry.state, SlotState::Running { .. }) {
            return ExecutionStep::Wait;
        }
        notes.push(answered(&self.agent, &entry.call, &outcome));
        let call = entry.call.clone();
        self.record(&call, &outcome);
        if let Some(entry) = self.calls.get_mut(slot) {
            entry.state = SlotState::Done(outcome);
        }
        self.advance(notes)
    }

    fn turn_without_calls(&mut self, stop_reason: StopReason) -> ExecutionStep {
        if stop_reason == StopReason::Paused {
            // The same conversation continues the turn: nothing may follow it.
            let has_turns = self.facts.turns < self.max_turns;
            return if has_turns { ExecutionStep::Ask } else { self.out_of_turns() };
        }
        let silent = self.last_text.trim().is_empty();
        let nudge = match stop_reason {
            StopReason::MaxTokens => Some(prompt::CUT_OFF),
            _ if silent && !self.was_silent => Some(prompt::SAID_NOTHING),
            _ => None,
        };
        match nudge {
            Some(words) if self.facts.turns < self.max_turns => {
                self.was_silent = silent;
                let content = std::iter::once(Content::text(words)).chain(self.take_unheard()).collect();
                self.conversation.push(Message { role: Role::User, content });
                ExecutionStep::Ask
            }
            // The agent has not read it yet.
            None if !self.unheard.is_empty() && self.facts.turns < self.max_turns => {
                let content = self.take_unheard().into_iter().collect();
                self.conversation.push(Message { role: Role::User, content });
                ExecutionStep::Ask
            }
            Some(_) => self.out_of_turns(),
            None => {
                let words = if silent {
                    "The agent ended without a word.".to_owned()
                } else {
                    self.last_text.clone()
                };
                self.end(ExecutionEnd::EndTurn, !silent, words)
            }
        }
    }

    /// Ends the turn, once all of its calls are answered.
    pub(super) fn turn_is_over(&mut self, notes: &mut Vec<Note>) -> ExecutionStep {
        self.check_report(notes);
        let results = std::mem::take(&mut self.calls).into_iter().filter_map(|slot| match slot.state {
            SlotState::Done(outcome) => Some(Content::ToolResult {
                tool_use_id: slot.call.id,
                content: outcome.content,
                is_error: outcome.is_error,
                images: outcome.images,
            }),
            SlotState::Unapproved(_) | SlotState::Waiting { .. } | SlotState::Running { .. } => None,
        });
        let mut content: Vec<Content> = results.collect();
        if self.report.is_some() && !self.unheard.is_empty() && self.facts.turns < self.max_turns {
            // It was written before the agent could read this.
            self.report = None;
            content.push(Content::text(prompt::REPORT_BEFORE_HEARD));
        }
        if let Some(report) = &self.report {
            let (success, words) = (report.is_success(), report.summary().to_owned());
            if let Reported::Verdict(VerdictReport { verdict, findings, .. }) = report {
                self.facts.verdict = Some(*verdict);
                self.facts.findings.clone_from(findings);
            }
            self.pending = content;
            return self.end(ExecutionEnd::Reported, success, words);
        }
        if self.facts.turns >= self.max_turns {
            self.pending = content;
            return self.out_of_turns();
        }
        content.extend(std::mem::take(&mut self.remarks).into_iter().map(Content::text));
        content.extend(self.take_news());
        content.extend(self.take_unheard());
        content.extend(prompt::turns_left(self.max_turns - self.facts.turns).map(Content::text));
        self.conversation.push(Message { role: Role::User, content });
        ExecutionStep::Ask
    }
}
