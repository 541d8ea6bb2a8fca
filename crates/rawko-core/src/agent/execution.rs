//! The agent loop: model turn, tool calls, results, next turn, until the end of the turn, a `Report` or a limit.
//!
//! Pure like everything here: each method takes what happened and returns the next step. The session owns ids, timers
//! and budgets.

mod calls;
mod hearing;
mod recording;
mod trouble;
mod unapproved;
mod window;

use std::collections::BTreeSet;

use super::control::{Report, ReportOutcome};
use super::prompt;
use super::verdict::{Verdict, VerdictReport};
use crate::conversation::ConversationLog;
use crate::error::{ErrorCode, ErrorInfo};
use crate::machine::{AgentResult, ExecutionEnd, ExecutionFacts, Plan, PlanUpdates};
use crate::memory::{Recalled, RecalledMemory, UseRule};
use crate::message::{Content, Message, Role, StopReason, ToolCall};
use crate::note::Note;
use crate::request::{ModelRequest, Purpose, ToolChoice};
use crate::setup::{AgentSetup, Edition, ModelChoice};
use crate::tool::{Refusal, ToolAccess, ToolOutcome};
use crate::usage::Usage;
use calls::{CallSlot, SlotState, answered};
pub use unapproved::Unapproved;
pub(crate) use unapproved::has_run;
use window::Window;
pub(crate) use window::{PendingSummary, Shortened, Shortening};

/// Bytes of an agent's text after which older messages are not read.
const WORDS_BYTES: usize = 64 * 1024;

/// One execution of an agent, from its first model turn to its end; kept afterwards in case the agent continues.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The rules by which commands are recorded.
    edition: Edition,
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
    trouble: Option<ErrorInfo>,
    /// Whether its report carries a verdict.
    judges: bool,
    report: Option<Reported>,
    plan: Option<PlanUpdates>,
    facts: ExecutionFacts,
    files: BTreeSet<String>,
    usage: Usage,
    last_text: String,
    was_silent: bool,
    /// The memories that its system prompt ends with, and the rule by which their use is judged.
    memories: Vec<RecalledMemory>,
    use_rule: UseRule,
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
    ) -> Self {
        conversation.push(Message::user(opening));
        Self {
            edition: Edition::First,
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
            trouble: None,
            judges: agent.config.judges(),
            report: None,
            plan: None,
            facts: ExecutionFacts::default(),
            files: BTreeSet::new(),
            usage: Usage::default(),
            last_text: String::new(),
            was_silent: false,
            memories: Vec::new(),
            use_rule: UseRule::default(),
        }
    }

    /// The same under the rules of an edition; the first is the default.
    #[must_use]
    pub fn under(self, edition: Edition) -> Self {
        Self { edition, ..self }
    }

    /// The same with the memories that its system prompt ends with.
    #[must_use]
    pub fn with_memories(self, recalled: &Recalled) -> Self {
        Self { memories: recalled.memories.clone(), use_rule: recalled.use_rule, ..self }
    }

    /// Its memories, and the rule by which their use is judged.
    #[must_use]
    pub fn memories(&self) -> (&[RecalledMemory], UseRule) {
        (&self.memories, self.use_rule)
    }

    /// Continues the same conversation with `continuation`. Facts and usage start from zero.
    pub fn resume(&mut self, max_turns: u32, continuation: String) {
        let mut content = std::mem::take(&mut self.pending);
        content.extend(self.take_news());
        content.push(Content::text(continuation));
        self.conversation.push(Message { role: Role::User, content });
        self.window.turn_is_new();
        self.max_turns = max_turns;
        self.calls.clear();
        self.trouble = None;
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

    fn turn_without_calls(&mut self, stop_reason: StopReason) -> ExecutionStep {
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
    fn turn_is_over(&mut self, notes: &mut Vec<Note>) -> ExecutionStep {
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

    /// Adds a text for the agent after the results of the turn.
    pub fn remark(&mut self, words: String) {
        self.remarks.push(words);
    }

    /// Tells the agent at the next opportunity what happened while no process carried the run.
    pub fn tell(&mut self, words: String) {
        self.news.push(words);
    }

    fn take_news(&mut self) -> impl Iterator<Item = Content> + use<> {
        std::mem::take(&mut self.news).into_iter().map(Content::text)
    }

    /// The answer to this turn was lost. Without news it is asked for again as it was.
    pub fn hear_after_loss(&mut self) {
        if self.news.is_empty() {
            return;
        }
        let words = "(This turn was not answered: rawko was interrupted here.)";
        self.conversation.push(Message { role: Role::Assistant, content: vec![Content::text(words)] });
        let content = self.take_news().collect();
        self.conversation.push(Message { role: Role::User, content });
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

/// The result of a mutating call whose outcome is unknown.
#[must_use]
pub fn unknown_outcome() -> ToolOutcome {
    ToolOutcome::error(
        ErrorCode::Unknown,
        "Outcome unknown: rawko was interrupted while this ran. It may have been done, in part or not at all. Verify before you do it again.",
    )
}
