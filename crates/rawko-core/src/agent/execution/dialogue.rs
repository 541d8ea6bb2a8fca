//! The conversation of an agent with its model, and how it goes on: after the end of an execution, after it was broken off,
//! after an answer was lost.

use std::sync::Arc;

use super::window::ContextWindow;
use crate::conversation::ConversationLog;
use crate::hosted;
use crate::message::{Content, Message, Role, ToolCall};
use crate::model_chain::ModelChain;
use crate::request::{ModelRequest, Purpose, ToolChoice};
use crate::setup::ModelChoice;
use crate::usage::Usage;

/// Bytes of an agent's text after which older messages are not read.
const WORDS_BYTES: usize = 64 * 1024;

/// A conversation, the models that it is held with, and what is known of their window.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Dialogue {
    pub(super) log: ConversationLog,
    pub(super) models: ModelChain,
    pub(super) window: ContextWindow,
    /// The beginning of the next user message: results of the calls with which the execution ended.
    pending: Vec<Content>,
}

impl Dialogue {
    /// Begins with an opening by the user.
    pub(super) fn new(mut log: ConversationLog, models: ModelChain, opening: Vec<Content>) -> Self {
        log.push(Message { role: Role::User, content: opening });
        Self { log, models, window: ContextWindow::default(), pending: Vec::new() }
    }

    /// The conversation so far.
    pub(crate) fn log(&self) -> &ConversationLog {
        &self.log
    }

    /// The model in use.
    pub(crate) fn model(&self) -> &ModelChoice {
        &self.models.current
    }

    /// Whether another model is left to continue with.
    pub(crate) fn has_alternative(&self) -> bool {
        self.models.has_alternative()
    }

    /// Continues with the next alternative and returns it; `None` if there is none left.
    pub(crate) fn switch_model(&mut self) -> Option<&ModelChoice> {
        let model = self.models.switch()?;
        self.window.forget_limits();
        Some(model)
    }

    /// The request that asks for the next turn.
    pub(crate) fn request(&self, purpose: Purpose) -> ModelRequest {
        self.log.request(purpose, self.model(), ToolChoice::Auto)
    }

    /// The agent's own text; only the end of it if it is long.
    pub(crate) fn words(&self) -> String {
        let answers = self.log.messages.iter().filter(|message| message.role == Role::Assistant);
        let mut text = String::new();
        for message in answers.rev() {
            if text.len() > WORDS_BYTES {
                break;
            }
            text.push_str(&message.text());
            text.push('\n');
        }
        text
    }

    /// The model answered.
    pub(super) fn answered(&mut self, message: Message, usage: Usage) {
        self.log.push(message);
        self.window.counted(usage, self.log.bytes());
    }

    /// The next user message.
    pub(super) fn say(&mut self, content: impl IntoIterator<Item = Content>) {
        self.log.push(Message { role: Role::User, content: content.into_iter().collect() });
    }

    /// The next user message, if there is one, begins with `content`.
    pub(super) fn leave(&mut self, content: Vec<Content>) {
        self.pending = content;
    }

    /// Goes on with `content` after the end of an execution.
    pub(super) fn resume(&mut self, content: impl IntoIterator<Item = Content>) {
        let pending = std::mem::take(&mut self.pending);
        self.end_pause();
        self.say(pending.into_iter().chain(content));
        self.window.turn_is_new();
    }

    /// The answer to the last turn was lost, and the agent gets `notices` before it is asked again.
    pub(super) fn turn_was_lost(&mut self, notices: Vec<Content>) {
        self.end_pause();
        self.say_for_agent("(This turn was not answered: rawko was interrupted here.)");
        self.say(notices);
    }

    /// Whether the conversation can continue: all calls of its last turn are answered.
    pub(crate) fn can_resume(&self) -> bool {
        let last = self.log.messages.last().filter(|message| message.role == Role::Assistant);
        last.is_some_and(|last| last.tool_calls().next().is_none() || !self.pending.is_empty())
    }

    /// Makes a conversation that broke off in the middle of a turn one that can continue: open calls are answered by `result`,
    /// and a turn that has no answer gets one that says so.
    pub(super) fn break_off(&mut self, result: impl FnMut(ToolCall) -> Content) {
        let Some(last) = self.log.messages.last() else { return };
        if last.role == Role::User {
            return self.say_for_agent("(This turn was not answered: the run ended here.)");
        }
        let calls: Vec<ToolCall> = last.tool_calls().cloned().collect();
        self.pending = calls.into_iter().map(result).collect();
    }

    /// In the place of an answer that never came.
    fn say_for_agent(&mut self, words: &str) {
        self.log.push(Message { role: Role::Assistant, content: vec![Content::text(words)] });
    }

    /// Something else than the rest of a paused turn follows: calls that the provider has not answered never will be.
    fn end_pause(&mut self) {
        let Some((last, before)) = self.log.messages.split_last() else { return };
        if let Some(closed) = hosted::without_open_calls(last) {
            let messages = before.iter().cloned().chain([Arc::new(closed)]).collect();
            self.log = self.log.rewritten(self.log.id, messages);
        }
    }
}
