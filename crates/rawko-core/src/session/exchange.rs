//! The conversation in which the arbiter's model is asked one question: the prompt, and one chance to correct an
//! unusable answer (`docs/arbiter.md#how-its-answer-is-read`); and the same question with more room if the answer was cut off
//! ("Decision", point 8).
//!
//! Who calls the model, what the answer costs and what holds without one is not decided here: a run and an evaluation
//! use the same exchange.

use crate::arbiter::{AnswerError, DECIDE, Prompt, decide_tool, read_answer};
use crate::conversation::{ConversationId, ConversationLog};
use crate::machine::Decision;
use crate::message::{Content, Message, Role};
use crate::request::{ModelRequest, Purpose, ToolChoice};
use crate::setup::ModelChoice;

/// Attempts at a usable answer: the first and one repair.
const ATTEMPTS: usize = 2;

/// A cut answer is asked for again with this many times as many tokens.
const MORE_ROOM: u32 = 4;

/// The token limit for asking again after an answer was cut off by `limit`; at most `most`. `None` if there is no more
/// room.
#[must_use]
pub fn more_room(limit: u32, most: u32) -> Option<u32> {
    let more = limit.saturating_mul(MORE_ROOM).min(most);
    (more > limit).then_some(more)
}

/// A question to the arbiter's model, on its way to a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct ArbiterExchange {
    conversation: ConversationLog,
    rejected: Vec<String>,
    rejections: usize,
}

/// The result of checking an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckedAnswer {
    /// A decision.
    Decision(Decision),
    /// Not usable; what is wrong was added to the conversation, which is to be sent again.
    Rejected,
    /// Not usable, because it was cut off: the same question is to be sent again with more room ([`more_room`]), if
    /// there is any.
    CutOff,
    /// Not usable, and the model has had its chances.
    Exhausted,
}

impl ArbiterExchange {
    /// A question that has no answer yet.
    #[must_use]
    pub fn new(id: ConversationId, prompt: Prompt) -> Self {
        let mut conversation =
            ConversationLog::new(id, prompt.system, [decide_tool(&prompt.decisions)].into());
        conversation.push(Message::user(prompt.user));
        Self { conversation, rejected: Vec::new(), rejections: 0 }
    }

    /// An exchange for a question that no model is asked.
    pub(super) fn unasked() -> Self {
        let conversation = ConversationLog::new(0, String::new(), [].into());
        Self { conversation, rejected: Vec::new(), rejections: 0 }
    }

    /// The conversation so far.
    #[must_use]
    pub fn conversation(&self) -> &ConversationLog {
        &self.conversation
    }

    /// Why answers could not be used, one for each that could not, and why there was none in the end.
    #[must_use]
    pub fn rejected(&self) -> &[String] {
        &self.rejected
    }

    /// The request that asks `choice`.
    #[must_use]
    pub fn request(&self, purpose: Purpose, choice: &ModelChoice) -> ModelRequest {
        let tool_choice = ToolChoice::Tool { name: DECIDE.to_owned() };
        self.conversation.request(purpose, choice, tool_choice)
    }

    /// Checks an answer. `cut_off_at` is the token limit that ended it, if one did.
    pub fn receive(
        &mut self,
        message: Message,
        cut_off_at: Option<u32>,
        agents: &[String],
        some_agent_ran: bool,
    ) -> CheckedAnswer {
        match (read_answer(&message, agents, some_agent_ran), cut_off_at) {
            (Ok(decision), _) => CheckedAnswer::Decision(decision),
            // The model did nothing wrong. The cut answer does not become part of the conversation: the next request is
            // the same but for its limit.
            (Err(_), Some(limit)) => {
                self.rejected.push(format!("cut off by its token limit of {limit}"));
                CheckedAnswer::CutOff
            }
            (Err(error), None) => {
                self.reject(message.or_placeholder(), &error);
                self.rejections += 1;
                if self.rejections < ATTEMPTS { CheckedAnswer::Rejected } else { CheckedAnswer::Exhausted }
            }
        }
    }

    /// Notes that no answer came, and why.
    pub(super) fn unanswered(&mut self, why: String) {
        self.rejected.push(why);
    }

    /// Tells the model what is wrong with `answer`. Its tool calls are answered, as providers demand.
    fn reject(&mut self, answer: Message, error: &AnswerError) {
        let words = format!("That cannot be used: {error}. Call `{DECIDE}` again, corrected.");
        let mut content: Vec<Content> = answer
            .tool_calls()
            .map(|call| Content::ToolResult {
                tool_use_id: call.id.clone(),
                content: error.to_string(),
                is_error: true,
                images: Vec::new(),
            })
            .collect();
        content.push(Content::text(words));
        self.conversation.push(answer);
        self.conversation.push(Message { role: Role::User, content });
        self.rejected.push(error.to_string());
    }
}
