//! The turns of an execution: handles each answer of the model, with or without calls, and decides when the agent is
//! asked again.

use super::calls::{SlotState, answered};
use super::written_call::written_call;
use super::{AllowedCall, Execution, ExecutionStep, Judgement};
use crate::agent::prompt;
use crate::error::{ErrorCode, ErrorInfo};
use crate::machine::{ExecutionEnd, Plan};
use crate::message::{Content, Message, StopReason, ToolCall};
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
        self.record.used(usage);
        if stop_reason == StopReason::ContextWindow && message.tool_calls().next().is_none() {
            // The broken-off text is not kept: the turn is asked again in a shorter conversation.
            return ExecutionStep::TooLong(ErrorInfo::new(
                ErrorCode::ContextLengthExceeded,
                "the conversation filled the model's context window",
            ));
        }
        self.record.turn(message.text());
        let message = message.or_placeholder();
        let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
        notes.extend(Note::of_hosted_calls(&self.agent, &message));
        self.dialogue.answered(message, usage);
        if stop_reason == StopReason::Refusal {
            let words = format!("The model declined to answer. {}", self.record.last_text());
            return self.end(ExecutionEnd::Refusal, false, words.trim().to_owned());
        }
        if calls.is_empty() {
            return self.turn_without_calls(stop_reason);
        }
        self.record.was_silent = false;
        self.record.was_shown_how_to_call = false;
        let slots =
            calls.into_iter().map(|call| self.slot(call, stop_reason, plan, &mut judge, notes)).collect();
        self.calls.begin(slots);
        self.advance(notes)
    }

    /// Handles the result of a tool call.
    pub fn tool_finished(
        &mut self,
        slot: usize,
        outcome: ToolOutcome,
        notes: &mut Vec<Note>,
    ) -> ExecutionStep {
        let Some(AllowedCall { call, .. }) = self.calls.running(slot) else { return ExecutionStep::Wait };
        notes.push(answered(&self.agent, &call, &outcome));
        self.record.finished(&call, &outcome);
        self.calls.set(slot, SlotState::Done(outcome));
        self.advance(notes)
    }

    fn turn_without_calls(&mut self, stop_reason: StopReason) -> ExecutionStep {
        let has_turns = self.turns_left() > 0;
        if stop_reason == StopReason::Paused {
            // The same conversation continues the turn: nothing may follow it.
            return if has_turns { ExecutionStep::Ask } else { self.out_of_turns() };
        }
        let silent = self.record.last_text().trim().is_empty();
        let offered = self.dialogue.log().tools.iter().map(|tool| tool.name.as_str());
        let written =
            written_call(self.record.last_text(), offered).filter(|_| !self.record.was_shown_how_to_call);
        let nudge = match (stop_reason, written) {
            (StopReason::MaxTokens, _) => Some(prompt::CUT_OFF.to_owned()),
            (_, Some(tool)) => Some(prompt::wrote_a_call(tool)),
            _ if silent && !self.record.was_silent => Some(prompt::SAID_NOTHING.to_owned()),
            _ => None,
        };
        let explains_call = written.is_some() && stop_reason != StopReason::MaxTokens;
        match nudge {
            Some(words) if has_turns => {
                self.record.was_silent = silent;
                self.record.was_shown_how_to_call = explains_call;
                self.dialogue.say(std::iter::once(Content::text(words)).chain(self.inbox.take_messages()));
                ExecutionStep::Ask
            }
            // The agent has not read it yet.
            None if self.inbox.has_messages() && has_turns => {
                self.dialogue.say(self.inbox.take_messages());
                ExecutionStep::Ask
            }
            Some(_) => self.out_of_turns(),
            None if silent => {
                self.end(ExecutionEnd::EndTurn, false, "The agent ended without a word.".to_owned())
            }
            None => self.end(ExecutionEnd::EndTurn, true, self.record.last_text().to_owned()),
        }
    }

    /// Ends the turn, once all of its calls are answered.
    pub(super) fn turn_is_over(&mut self, notes: &mut Vec<Note>) -> ExecutionStep {
        self.check_report(notes);
        let mut content = self.calls.take_results();
        if self.record.report.is_some() && self.inbox.has_messages() && self.turns_left() > 0 {
            // It was written before the agent could read this.
            self.record.report = None;
            content.push(Content::text(prompt::REPORT_BEFORE_HEARD));
        }
        if let Some(result) = self.record.reported() {
            self.dialogue.leave(content);
            return ExecutionStep::End(Box::new(result));
        }
        let left = self.turns_left();
        if left == 0 {
            self.dialogue.leave(content);
            return self.out_of_turns();
        }
        content.extend(self.inbox.take_all());
        content.extend(prompt::turns_left(left).map(Content::text));
        self.dialogue.say(content);
        ExecutionStep::Ask
    }

    fn turns_left(&self) -> u32 {
        self.max_turns.saturating_sub(self.record.turns())
    }

    /// Not a failure: the agent may have been making progress, and the arbiter sees how it ended.
    fn out_of_turns(&mut self) -> ExecutionStep {
        let (turns, text) = (self.record.turns(), self.record.last_text());
        let words = format!("Stopped after {turns} model turns, without a report. {text}");
        self.end(ExecutionEnd::MaxIterations, true, words.trim().to_owned())
    }

    fn end(&mut self, how: ExecutionEnd, success: bool, output: String) -> ExecutionStep {
        ExecutionStep::End(Box::new(self.record.end(how, success, output)))
    }
}
