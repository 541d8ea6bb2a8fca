//! The agent loop: model turn, tool calls, results, next turn, until the end of the turn, a `Report` or a limit.
//!
//! Pure like everything here: each method takes what happened and returns the next step. The session owns ids, timers
//! and budgets.

mod calls;
mod continuing;
mod failure;
mod hearing;
mod recording;
mod turns;
mod unapproved;
mod window;

use std::collections::BTreeSet;

use super::control::{Report, ReportOutcome};
use super::verdict::{Verdict, VerdictReport};
use crate::conversation::ConversationLog;
use crate::error::{ErrorCode, ErrorInfo};
use crate::machine::{AgentResult, ExecutionEnd, ExecutionFacts, PlanUpdates};
use crate::memory::RecalledMemory;
use crate::message::{Content, Message, Role, ToolCall};
use crate::request::{ModelRequest, Purpose, ToolChoice};
use crate::setup::{AgentSetup, ModelChoice};
use crate::tool::{Refusal, ToolAccess, ToolOutcome};
use crate::usage::Usage;
use calls::{CallSlot, SlotState};
pub use continuing::unknown_outcome;
pub use unapproved::Unapproved;
pub(crate) use unapproved::has_run;
use window::Window;
pub(crate) use window::{PendingSummary, Shortened, Shortening};

/// Bytes of an agent's text after which older messages are not read.
const WORDS_BYTES: usize = 64 * 1024;

/// One execution of an agent, from its first model turn to its end; kept afterwards in case the agent continues.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    agent: String,
    model: ModelChoice,
    /// The models to continue with when the model's provider fails for good.
    alternatives: Vec<ModelChoice>,
    conversation: ConversationLog,
    window: Window,
    max_turns: u32,
    calls: Vec<CallSlot>,
    /// Content for the next user message: results of the calls with which the execution ended.
    pending: Vec<Content>,
    /// Calls of the last turn that were refused, until [`Self::take_refused`].
    refused: Vec<(ToolCall, ToolOutcome)>,
    /// Texts to add after the results of the turn.
    remarks: Vec<String>,
    /// What happened while no process carried the run, until the agent has been told.
    news: Vec<String>,
    /// What the user has said, until the agent has been told.
    unheard: Vec<String>,
    /// How many of the user's messages the agent was told, those in `unheard` included.
    heard: usize,
    /// The last call that failed, unless its tool succeeded since.
    last_error: Option<ErrorInfo>,
    /// Whether its report carries a verdict.
    judges: bool,
    report: Option<Reported>,
    plan: Option<PlanUpdates>,
    facts: ExecutionFacts,
    files: BTreeSet<String>,
    usage: Usage,
    last_text: String,
    was_silent: bool,
    /// The memories that its system prompt ends with.
    memories: Vec<RecalledMemory>,
}

/// The report with which an execution ends.
#[derive(Debug, Clone, PartialEq)]
enum Reported {
    /// Of the agent's own work.
    Work(Report),
    /// A verdict on the work of others.
    Verdict(VerdictReport),
}

impl Reported {
    /// Whether it says that all is well, which the other calls of its turn may contradict.
    fn claims_success(&self) -> bool {
        match self {
            Self::Work(report) => report.outcome == ReportOutcome::Success,
            Self::Verdict(report) => report.verdict == Verdict::Approved,
        }
    }

    /// Whether the agent did its own work.
    fn is_success(&self) -> bool {
        match self {
            Self::Work(report) => report.outcome == ReportOutcome::Success,
            Self::Verdict(report) => report.verdict.is_result(),
        }
    }

    fn summary(&self) -> &str {
        match self {
            Self::Work(report) => &report.summary,
            Self::Verdict(report) => &report.summary,
        }
    }
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
    /// What the tool may do.
    pub access: ToolAccess,
    /// The rule that allowed it.
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
        mut conversation: ConversationLog,
        opening: String,
        pictures: impl IntoIterator<Item = Content>,
    ) -> Self {
        let content = std::iter::once(Content::text(opening)).chain(pictures).collect();
        conversation.push(Message { role: Role::User, content });
        Self {
            agent: agent.config.name.clone(),
            model: agent.model.clone(),
            alternatives,
            conversation,
            window: Window::default(),
            max_turns: agent.config.max_turns(),
            calls: Vec::new(),
            pending: Vec::new(),
            refused: Vec::new(),
            remarks: Vec::new(),
            news: Vec::new(),
            unheard: Vec::new(),
            heard: 0,
            last_error: None,
            judges: agent.config.judges(),
            report: None,
            plan: None,
            facts: ExecutionFacts::default(),
            files: BTreeSet::new(),
            usage: Usage::default(),
            last_text: String::new(),
            was_silent: false,
            memories: Vec::new(),
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

    /// The model in use.
    #[must_use]
    pub fn model(&self) -> &ModelChoice {
        &self.model
    }

    /// Continues with the next alternative and returns it; `None` if there is none left.
    pub fn switch_model(&mut self) -> Option<&ModelChoice> {
        if self.alternatives.is_empty() {
            return None;
        }
        self.model = self.alternatives.remove(0);
        self.window.forget_limits();
        Some(&self.model)
    }

    /// Whether another model is left to continue with.
    #[must_use]
    pub fn has_alternative(&self) -> bool {
        !self.alternatives.is_empty()
    }

    /// The request that asks for the next turn.
    #[must_use]
    pub fn request(&self) -> ModelRequest {
        let purpose = Purpose::Agent { name: self.agent.clone() };
        self.conversation.request(purpose, &self.model, ToolChoice::Auto)
    }

    /// The conversation so far.
    #[must_use]
    pub fn conversation(&self) -> &ConversationLog {
        &self.conversation
    }

    /// The agent's own text in this conversation; only the end of it if it is long.
    #[must_use]
    pub fn words(&self) -> String {
        let answers = self.conversation.messages.iter().filter(|message| message.role == Role::Assistant);
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

    /// The facts and usage so far, for an execution that ends early.
    #[must_use]
    pub fn facts_so_far(&self) -> (ExecutionFacts, Usage) {
        (self.facts.clone(), self.usage)
    }

    /// The changes to the plan so far.
    #[must_use]
    pub fn plan_so_far(&self) -> Option<&PlanUpdates> {
        self.plan.as_ref()
    }

    /// The call at `slot`, if it is running.
    #[must_use]
    pub fn running(&self, slot: usize) -> Option<AllowedCall> {
        let entry = self.calls.get(slot)?;
        match &entry.state {
            SlotState::Running { access, rule, grants } => {
                let (call, rule, grants) = (entry.call.clone(), rule.clone(), grants.clone());
                Some(AllowedCall { slot, call, access: *access, rule, grants })
            }
            SlotState::Unapproved(_) | SlotState::Waiting { .. } | SlotState::Done(_) => None,
        }
    }

    /// Adds a text for the agent after the results of the turn.
    pub fn remark(&mut self, words: String) {
        self.remarks.push(words);
    }

    /// The calls that were refused since the last call of this method.
    pub fn take_refused(&mut self) -> Vec<(ToolCall, ToolOutcome)> {
        std::mem::take(&mut self.refused)
    }

    /// Ends the execution between two turns, for a reason outside the agent loop.
    pub fn stop(&mut self, how: ExecutionEnd, words: String) -> AgentResult {
        self.result(how, false, words)
    }

    /// Not a failure: the agent may have been making progress, and the arbiter sees how it ended.
    fn out_of_turns(&mut self) -> ExecutionStep {
        let words =
            format!("Stopped after {} model turns, without a report. {}", self.facts.turns, self.last_text);
        self.end(ExecutionEnd::MaxIterations, true, words.trim().to_owned())
    }

    /// Ends the execution because the agent's own budget is used up. Not a failure either.
    pub fn out_of_budget(&mut self, why: &str) -> AgentResult {
        let words = format!("Stopped: {why}. {}", self.last_text);
        self.result(ExecutionEnd::Budget, true, words.trim().to_owned())
    }

    /// Adds the usage of a call that gave no answer.
    pub fn consumed(&mut self, usage: Usage) {
        self.usage += usage;
    }

    fn end(&mut self, how: ExecutionEnd, success: bool, output: String) -> ExecutionStep {
        ExecutionStep::End(Box::new(self.result(how, success, output)))
    }

    fn result(&mut self, how: ExecutionEnd, success: bool, output: String) -> AgentResult {
        self.facts.ended = Some(how);
        AgentResult {
            success,
            output,
            plan_updates: self.plan.clone(),
            usage: Some(self.usage),
            error: None,
            facts: self.facts.clone(),
        }
    }
}
