//! The agent loop: model turn, tool calls, results, next turn, until the end of the turn, a `Report` or a limit.
//!
//! Pure like everything here: each method takes what happened and returns the next step. The session owns ids, timers
//! and budgets.

mod calls;
mod dialogue;
mod inbox;
mod outside;
mod record;
mod turns;
mod unapproved;
mod window;
mod written_call;

use crate::conversation::{ConversationId, ConversationLog};
use crate::error::{ErrorCode, ErrorInfo};
use crate::machine::{AgentResult, ExecutionEnd};
use crate::memory::RecalledMemory;
use crate::message::{Content, ToolCall};
use crate::model_chain::ModelChain;
use crate::setup::{AgentSetup, ModelChoice};
use crate::tool::{Refusal, ToolAccess, ToolOutcome};
use calls::Calls;
use dialogue::Dialogue;
use inbox::Inbox;
use record::ExecutionLog;
pub use unapproved::Unapproved;
pub(crate) use unapproved::has_run;
pub(crate) use window::{PendingSummary, Shortened, Shortening};

/// One execution of an agent, from its first model turn to its end; kept afterwards in case the agent continues.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    agent: String,
    max_turns: u32,
    /// Whether its report carries a verdict.
    judges: bool,
    /// Whether another program does its work.
    is_outside: bool,
    /// The memories that its system prompt ends with.
    memories: Vec<RecalledMemory>,
    pub(crate) dialogue: Dialogue,
    pub(crate) calls: Calls,
    pub(crate) inbox: Inbox,
    pub(crate) record: ExecutionLog,
}

/// The next step of the agent loop.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutionStep {
    /// Ask the model, with the current conversation.
    Ask,
    /// Run these tool calls in parallel; their `slot` identifies the results.
    Run(Vec<AllowedCall>),
    /// Ask a person for the call with this `slot`.
    Approve(usize),
    /// Calls are still running.
    Wait,
    /// The execution is over.
    End(Box<AgentResult>),
    /// The turn gave no result, because the conversation fills the model's window.
    TooLong(ErrorInfo),
}

/// A tool call that may run.
#[derive(Debug, Clone, PartialEq)]
pub struct AllowedCall {
    /// Its position in the turn.
    pub slot: usize,
    /// The call itself.
    pub call: ToolCall,
    /// On what terms.
    pub permit: Permit,
}

/// The terms on which a tool call may run.
#[derive(Debug, Clone, PartialEq)]
pub struct Permit {
    /// What the tool may do.
    pub access: ToolAccess,
    /// The rule that allowed the call.
    pub rule: String,
    /// What a person granted to this call alone.
    pub grants: Vec<Refusal>,
}

/// The policy's decision on a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// The call may run.
    Allowed {
        /// The rule that decided.
        rule: String,
        /// What the tool may do.
        access: ToolAccess,
    },
    /// The call is on no list, and a person is asked for it.
    Unlisted {
        /// The rule that refused it.
        rule: String,
        /// The reason, for the model and for people.
        message: String,
        /// The change of the configuration that would allow it.
        would_allow: Option<String>,
        /// What the tool may do.
        access: ToolAccess,
    },
    /// The call is answered without running anything.
    Answered {
        /// The rule that decided.
        rule: String,
        /// The answer.
        outcome: Box<ToolOutcome>,
    },
    /// The call may not run.
    Denied {
        /// The rule that decided.
        rule: String,
        /// The reason, for the model.
        message: String,
        /// The change of the configuration that would allow it, for people.
        would_allow: Option<String>,
        /// The kind of refusal.
        code: ErrorCode,
    },
}

impl Execution {
    /// Starts an agent in a new conversation with `opening`.
    #[must_use]
    pub fn start(
        agent: &AgentSetup,
        alternatives: Vec<ModelChoice>,
        conversation: ConversationLog,
        opening: String,
        pictures: impl IntoIterator<Item = Content>,
    ) -> Self {
        let opening = std::iter::once(Content::text(opening)).chain(pictures).collect();
        let models = ModelChain::new(agent.model.clone(), alternatives);
        Self {
            agent: agent.config.name.clone(),
            max_turns: agent.config.max_turns(),
            judges: agent.config.judges(),
            is_outside: agent.config.acp.is_some(),
            memories: Vec::new(),
            dialogue: Dialogue::new(conversation, models, opening),
            calls: Calls::default(),
            inbox: Inbox::default(),
            record: ExecutionLog::default(),
        }
    }

    /// The same with the memories that its system prompt ends with.
    #[must_use]
    pub fn with_memories(self, memories: Vec<RecalledMemory>) -> Self {
        Self { memories, ..self }
    }

    /// Its memories.
    #[must_use]
    pub fn memories(&self) -> &[RecalledMemory] {
        &self.memories
    }

    /// The agent's name.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Shortens the conversation, as [`Shortening`] says. The shorter one has number `next`.
    pub(crate) fn shorten(&mut self, next: ConversationId) -> Shortening {
        self.dialogue.shorten(next, &self.agent)
    }

    /// Continues the same conversation with `continuation`. Facts and usage start from zero.
    pub fn resume(
        &mut self,
        max_turns: u32,
        continuation: String,
        pictures: impl IntoIterator<Item = Content>,
    ) {
        let notices = self.inbox.take_notices();
        self.dialogue.resume(notices.into_iter().chain([Content::text(continuation)]).chain(pictures));
        self.max_turns = max_turns;
        self.calls.clear();
        self.record = ExecutionLog::default();
    }

    /// Makes a conversation that broke off in the middle of a turn one that can continue.
    pub fn break_off(&mut self) {
        if !self.dialogue.can_resume() {
            self.dialogue.break_off(|call| self.calls.result_so_far(call));
            self.calls.clear();
        }
    }

    /// The answer to this turn was lost. Without notices it is asked for again as it was.
    pub fn deliver_after_loss(&mut self) {
        let notices = self.inbox.take_notices();
        if !notices.is_empty() {
            self.dialogue.turn_was_lost(notices);
        }
    }

    /// Ends the execution between two turns, for a reason outside the agent loop.
    pub fn stop(&mut self, how: ExecutionEnd, words: String) -> AgentResult {
        self.record.end(how, false, words)
    }

    /// Ends the execution because the agent's own budget is used up. Not a failure either.
    pub fn out_of_budget(&mut self, why: &str) -> AgentResult {
        let words = format!("Stopped: {why}. {}", self.record.last_text());
        self.record.end(ExecutionEnd::Budget, true, words.trim().to_owned())
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
