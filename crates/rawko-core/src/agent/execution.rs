//! The agent loop: model turn, tool calls, results, next turn, until the end of the turn, a `Report` or a limit.
//!
//! Pure like everything here: each method takes what happened and says what is to be done next. Ids, timers and
//! budgets are the session's.

mod calls;
mod window;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::control::{Report, ReportOutcome};
use super::prompt;
use crate::error::{ErrorCode, ErrorInfo};
use crate::machine::{AgentResult, ExecutionEnd, ExecutionFacts, Plan, PlanUpdates};
use crate::message::{Content, Message, Role, StopReason, ToolCall};
use crate::request::{ModelRequest, Purpose, ToolChoice};
use crate::session::{ConversationLog, Note};
use crate::setup::{AgentSetup, ModelChoice};
use crate::tool::{ToolAccess, ToolOutcome};
use crate::usage::Usage;
use calls::{Slot, SlotState, answered};
use window::Window;
pub(crate) use window::{Shortened, Shortening};

/// Bytes of an agent's words behind which no older ones are looked at.
const SAID_BYTES: usize = 64 * 1024;

/// One agent at work, from its first model turn to its end; kept afterwards, in case it goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    agent: String,
    model: ModelChoice,
    /// Where it goes on when the model's provider fails for good.
    alternatives: Vec<ModelChoice>,
    conversation: ConversationLog,
    window: Window,
    max_turns: u32,
    calls: Vec<Slot>,
    /// Content that waits for the next user message: results of calls behind which the agent stopped.
    unsaid: Vec<Content>,
    /// Calls of the last turn that were refused, until somebody takes notice of them.
    refused: Vec<(ToolCall, ToolOutcome)>,
    /// Said behind the results of the turn.
    remarks: Vec<String>,
    report: Option<Report>,
    plan: Option<PlanUpdates>,
    facts: ExecutionFacts,
    files: BTreeSet<String>,
    usage: Usage,
    last_text: String,
    was_silent: bool,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask the model with the conversation as it is now.
    Ask,
    /// Run these tool calls side by side; the numbers name them when they are answered.
    Run(Vec<(usize, ToolCall, ToolAccess, String)>),
    /// Calls are still running.
    Wait,
    /// It is over.
    End(Box<AgentResult>),
    /// The turn came to nothing, because the conversation fills the model's window.
    TooLong(ErrorInfo),
}

/// What the session decides about a call before it may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It may run.
    Allowed {
        /// The rule that says so.
        rule: String,
        /// What the tool may do.
        access: ToolAccess,
    },
    /// It may not.
    Denied {
        /// The rule that says so.
        rule: String,
        /// What the model is told.
        message: String,
        /// Kind of refusal.
        code: ErrorCode,
    },
}

impl Execution {
    /// An agent that begins a new conversation with `opening`.
    #[must_use]
    pub fn start(
        agent: &AgentSetup,
        alternatives: Vec<ModelChoice>,
        mut conversation: ConversationLog,
        opening: String,
    ) -> Self {
        conversation.push(Message::user(opening));
        Self {
            agent: agent.config.name.clone(),
            model: agent.model.clone(),
            alternatives,
            conversation,
            window: Window::default(),
            max_turns: agent.config.max_turns(),
            calls: Vec::new(),
            unsaid: Vec::new(),
            refused: Vec::new(),
            remarks: Vec::new(),
            report: None,
            plan: None,
            facts: ExecutionFacts::default(),
            files: BTreeSet::new(),
            usage: Usage::default(),
            last_text: String::new(),
            was_silent: false,
        }
    }

    /// The same conversation goes on with `continuation`; the figures begin anew.
    pub fn resume(&mut self, max_turns: u32, continuation: String) {
        let mut content = std::mem::take(&mut self.unsaid);
        content.push(Content::text(continuation));
        self.conversation.push(Message { role: Role::User, content });
        self.window.let_go();
        self.max_turns = max_turns;
        self.calls.clear();
        self.report = None;
        self.plan = None;
        self.facts = ExecutionFacts::default();
        self.files.clear();
        self.usage = Usage::default();
        self.last_text.clear();
        self.was_silent = false;
    }

    /// Whether the conversation can go on: its last turn was answered whole.
    #[must_use]
    pub fn can_resume(&self) -> bool {
        let last_is_assistant = self.conversation.messages.last().is_some_and(|m| m.role == Role::Assistant);
        let open_calls = self.conversation.messages.last().is_some_and(|m| m.tool_calls().next().is_some());
        last_is_assistant && (!open_calls || !self.unsaid.is_empty())
    }

    /// The agent's name.
    #[must_use]
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// The model that works.
    #[must_use]
    pub fn model(&self) -> &ModelChoice {
        &self.model
    }

    /// Goes on with the next alternative. Says which; `None` where there is none left.
    pub fn switch_model(&mut self) -> Option<&ModelChoice> {
        if self.alternatives.is_empty() {
            return None;
        }
        self.model = self.alternatives.remove(0);
        self.window.forget_limits();
        Some(&self.model)
    }

    /// The request that asks for the next turn.
    #[must_use]
    pub fn request(&self) -> ModelRequest {
        ModelRequest {
            purpose: Purpose::Agent { name: self.agent.clone() },
            model: self.model.model.clone(),
            system: Arc::clone(&self.conversation.system),
            stable: self.conversation.stable,
            tools: Arc::clone(&self.conversation.tools),
            messages: self.conversation.messages.clone(),
            tool_choice: ToolChoice::Auto,
            max_tokens: self.model.answer_tokens(),
            temperature: self.model.temperature,
            extra: self.model.extra.clone(),
        }
    }

    /// The conversation so far.
    #[must_use]
    pub fn conversation(&self) -> &ConversationLog {
        &self.conversation
    }

    /// What the agent has said in this conversation, the end of it where it is long.
    #[must_use]
    pub fn said(&self) -> String {
        let spoken = self.conversation.messages.iter().filter(|message| message.role == Role::Assistant);
        let mut text = String::new();
        for message in spoken.rev() {
            if text.len() > SAID_BYTES {
                break;
            }
            text.push_str(&message.text());
            text.push('\n');
        }
        text
    }

    /// What was seen until now, for an execution that ends before its time.
    #[must_use]
    pub fn facts_so_far(&self) -> (ExecutionFacts, Usage) {
        (self.facts.clone(), self.usage)
    }

    /// How the plan was changed until now.
    #[must_use]
    pub fn plan_so_far(&self) -> Option<&PlanUpdates> {
        self.plan.as_ref()
    }

    /// The model answered. `judge` says of each call whether it may run.
    pub fn replied(
        &mut self,
        message: Message,
        usage: Usage,
        stop_reason: StopReason,
        plan: Option<&Plan>,
        mut judge: impl FnMut(&ToolCall) -> Judgement,
        notes: &mut Vec<Note>,
    ) -> Step {
        self.usage += usage;
        if stop_reason == StopReason::ContextWindow && message.tool_calls().next().is_none() {
            // A sentence that broke off is not kept: the turn is put again, in a shorter conversation.
            return Step::TooLong(ErrorInfo::new(
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
        self.calls = calls.into_iter().map(|call| self.slot(call, plan, &mut judge, notes)).collect();
        self.advance(notes)
    }

    /// A tool call was answered.
    pub fn tool_finished(&mut self, slot: usize, outcome: ToolOutcome, notes: &mut Vec<Note>) -> Step {
        let Some(entry) = self.calls.get_mut(slot) else { return Step::Wait };
        if !matches!(entry.state, SlotState::Running { .. }) {
            return Step::Wait;
        }
        notes.push(answered(&self.agent, &entry.call, &outcome));
        let call = entry.call.clone();
        self.record(&call, &outcome);
        if let Some(entry) = self.calls.get_mut(slot) {
            entry.state = SlotState::Done(outcome);
        }
        self.advance(notes)
    }

    /// A tool call is to be made again: its answer was lost, and it only reads.
    #[must_use]
    pub fn running(&self, slot: usize) -> Option<(ToolCall, ToolAccess, String)> {
        let entry = self.calls.get(slot)?;
        match &entry.state {
            SlotState::Running { access, rule } => Some((entry.call.clone(), *access, rule.clone())),
            SlotState::Waiting { .. } | SlotState::Done(_) => None,
        }
    }

    fn turn_without_calls(&mut self, stop_reason: StopReason) -> Step {
        let silent = self.last_text.trim().is_empty();
        let nudge = match stop_reason {
            StopReason::MaxTokens => Some(prompt::CUT_OFF),
            _ if silent && !self.was_silent => Some(prompt::SAID_NOTHING),
            _ => None,
        };
        match nudge {
            Some(words) if self.facts.turns < self.max_turns => {
                self.was_silent = silent;
                self.conversation.push(Message::user(words));
                Step::Ask
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

    /// All calls of the turn are answered.
    fn turn_is_over(&mut self, notes: &mut Vec<Note>) -> Step {
        self.weigh_report(notes);
        let results = std::mem::take(&mut self.calls).into_iter().filter_map(|slot| match slot.state {
            SlotState::Done(outcome) => Some(Content::ToolResult {
                tool_use_id: slot.call.id,
                content: outcome.content,
                is_error: outcome.is_error,
                images: outcome.images,
            }),
            SlotState::Waiting { .. } | SlotState::Running { .. } => None,
        });
        let mut content: Vec<Content> = results.collect();
        if let Some(report) = &self.report {
            let (success, words) = (report.outcome == ReportOutcome::Success, report.summary.clone());
            self.unsaid = content;
            return self.end(ExecutionEnd::Reported, success, words);
        }
        if self.facts.turns >= self.max_turns {
            self.unsaid = content;
            return self.out_of_turns();
        }
        content.extend(std::mem::take(&mut self.remarks).into_iter().map(Content::text));
        content.extend(prompt::turns_left(self.max_turns - self.facts.turns).map(Content::text));
        self.conversation.push(Message { role: Role::User, content });
        Step::Ask
    }

    /// Says this to the agent, behind the results of the turn.
    pub fn remark(&mut self, words: String) {
        self.remarks.push(words);
    }

    /// The calls that were refused since this was last asked.
    pub fn take_refused(&mut self) -> Vec<(ToolCall, ToolOutcome)> {
        std::mem::take(&mut self.refused)
    }

    /// Ends it between two turns: somebody else decided so.
    pub fn stop(&mut self, how: ExecutionEnd, words: String) -> AgentResult {
        self.result(how, false, words)
    }

    /// Not a failure: the agent may have been making progress, and the arbiter is told how it ended.
    fn out_of_turns(&mut self) -> Step {
        let words =
            format!("Stopped after {} model turns, without a report. {}", self.facts.turns, self.last_text);
        self.end(ExecutionEnd::MaxIterations, true, words.trim().to_owned())
    }

    /// Not a failure either: the agent was at work, and its own budget is used up.
    pub fn out_of_budget(&mut self, why: &str) -> AgentResult {
        let words = format!("Stopped: {why}. {}", self.last_text);
        self.result(ExecutionEnd::Budget, true, words.trim().to_owned())
    }

    /// Tokens were used for it that brought no answer.
    pub fn consumed(&mut self, usage: Usage) {
        self.usage += usage;
    }

    fn end(&mut self, how: ExecutionEnd, success: bool, output: String) -> Step {
        Step::End(Box::new(self.result(how, success, output)))
    }

    fn result(&mut self, how: ExecutionEnd, success: bool, output: String) -> AgentResult {
        self.facts.ended = Some(how);
        AgentResult {
            success,
            output,
            plan_updates: self.plan.clone(),
            usage: Some(self.usage),
            facts: self.facts.clone(),
        }
    }
}

/// What an agent is told about a mutating call whose outcome nobody knows.
#[must_use]
pub fn unknown_outcome() -> ToolOutcome {
    ToolOutcome::error(
        ErrorCode::Unknown,
        "Outcome unknown: rawko was interrupted while this ran. It may have been done, in part or not at all. Verify before you do it again.",
    )
}
