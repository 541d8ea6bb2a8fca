//! How a conversation goes on: after the end of an execution, after it was broken off, after an answer was lost.

use std::sync::Arc;

use super::Execution;
use super::calls::SlotState;
use crate::error::ErrorCode;
use crate::hosted;
use crate::machine::ExecutionFacts;
use crate::message::{Content, Message, Role, ToolCall};
use crate::tool::ToolOutcome;
use crate::usage::Usage;

impl Execution {
    /// Continues the same conversation with `continuation`. Facts and usage start from zero.
    pub fn resume(
        &mut self,
        max_turns: u32,
        continuation: String,
        pictures: impl IntoIterator<Item = Content>,
    ) {
        let mut content = std::mem::take(&mut self.pending);
        content.extend(self.take_news());
        content.push(Content::text(continuation));
        content.extend(pictures);
        self.end_pause();
        self.conversation.push(Message { role: Role::User, content });
        self.window.turn_is_new();
        self.max_turns = max_turns;
        self.calls.clear();
        self.last_error = None;
        self.report = None;
        self.plan = None;
        self.facts = ExecutionFacts::default();
        self.files.clear();
        self.usage = Usage::default();
        self.last_text.clear();
        self.was_silent = false;
    }

    /// Whether the conversation can continue: all calls of its last turn are answered.
    #[must_use]
    pub fn can_resume(&self) -> bool {
        let last_is_assistant = self.conversation.messages.last().is_some_and(|m| m.role == Role::Assistant);
        let open_calls = self.conversation.messages.last().is_some_and(|m| m.tool_calls().next().is_some());
        last_is_assistant && (!open_calls || !self.pending.is_empty())
    }

    /// Makes a conversation that broke off in the middle of a turn one that can continue: open calls are answered, and a turn
    /// that has no answer gets one that says so.
    pub fn break_off(&mut self) {
        if self.can_resume() {
            return;
        }
        let Some(last) = self.conversation.messages.last() else { return };
        if last.role == Role::User {
            let words = "(This turn was not answered: the run ended here.)";
            self.conversation.push(Message { role: Role::Assistant, content: vec![Content::text(words)] });
            return;
        }
        let calls: Vec<ToolCall> = last.tool_calls().cloned().collect();
        let known = std::mem::take(&mut self.calls);
        let result = |call: ToolCall| {
            let done = known.iter().find_map(|slot| match &slot.state {
                SlotState::Done(outcome) if slot.call.id == call.id => Some(outcome.clone()),
                SlotState::Unapproved(unapproved) if unapproved.has_run && slot.call.id == call.id => {
                    Some(unapproved.outcome.clone())
                }
                SlotState::Done(_)
                | SlotState::Unapproved(_)
                | SlotState::Waiting { .. }
                | SlotState::Running { .. } => None,
            });
            let outcome = done.unwrap_or_else(unknown_outcome);
            Content::ToolResult {
                tool_use_id: call.id,
                content: outcome.content,
                is_error: outcome.is_error,
                images: outcome.images,
            }
        };
        self.pending = calls.into_iter().map(result).collect();
    }

    /// The answer to this turn was lost. Without news it is asked for again as it was.
    pub fn hear_after_loss(&mut self) {
        if self.news.is_empty() {
            return;
        }
        self.end_pause();
        let words = "(This turn was not answered: rawko was interrupted here.)";
        self.conversation.push(Message { role: Role::Assistant, content: vec![Content::text(words)] });
        let content = self.take_news().collect();
        self.conversation.push(Message { role: Role::User, content });
    }

    /// Something else than the rest of a paused turn follows: calls that the provider has not answered never will be.
    fn end_pause(&mut self) {
        let Some((last, before)) = self.conversation.messages.split_last() else { return };
        if let Some(closed) = hosted::without_open_calls(last) {
            let messages = before.iter().cloned().chain([Arc::new(closed)]).collect();
            self.conversation = self.conversation.rewritten(self.conversation.id, messages);
        }
    }
}

/// The result of a mutating call whose outcome is unknown.
#[must_use]
pub fn unknown_outcome() -> ToolOutcome {
    ToolOutcome::error(
        ErrorCode::Unknown,
        "Outcome unknown: rawko was interrupted while this ran. It may have been done, in part or not at all. Verify before you do it again.",
    )
}
