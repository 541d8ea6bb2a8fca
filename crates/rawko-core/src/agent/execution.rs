//! The agent loop: model turn, tool calls, results, next turn, until the end of the turn, a `Report` or a limit.
//!
//! Pure like everything here: each method takes what happened and says what is to be done next. Ids, timers and
//! budgets are the session's.

mod window;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::control::{REPORT, Report, ReportOutcome, UPDATE_PLAN, UpdatePlan};
use super::prompt;
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::is_check;
use crate::machine::{AgentResult, CommandFact, ExecutionEnd, ExecutionFacts, Plan, PlanUpdates};
use crate::message::{Content, Message, Role, StopReason, ToolCall};
use crate::policy::{BASH, is_control_tool};
use crate::request::{ModelRequest, Purpose, ToolChoice};
use crate::session::{ConversationLog, Note};
use crate::setup::{AgentSetup, ModelChoice};
use crate::text::truncate;
use crate::tool::{ToolAccess, ToolOutcome};
use crate::usage::Usage;
use window::Window;
pub(crate) use window::{Shortened, Shortening};

/// Commands remembered as facts.
const COMMANDS_KEPT: usize = 5;
/// Files remembered as accessed.
const FILES_KEPT: usize = 50;
/// Characters of a remembered command.
const COMMAND_CHARS: usize = 200;

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

/// One tool call of the current turn.
#[derive(Debug, Clone, PartialEq)]
struct Slot {
    call: ToolCall,
    state: SlotState,
}

#[derive(Debug, Clone, PartialEq)]
enum SlotState {
    Waiting { access: ToolAccess, rule: String },
    Running { access: ToolAccess, rule: String },
    Done(ToolOutcome),
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

    /// Decides what can be decided at once: broken input, control tools, denials.
    fn slot(
        &mut self,
        call: ToolCall,
        plan: Option<&Plan>,
        judge: &mut impl FnMut(&ToolCall) -> Judgement,
        notes: &mut Vec<Note>,
    ) -> Slot {
        let (rule, verdict) = if let Some(raw) = &call.invalid_input {
            ("input".to_owned(), Err(invalid_input(raw)))
        } else if is_control_tool(&call.name) {
            ("control".to_owned(), Err(self.control(&call, plan, notes)))
        } else {
            match judge(&call) {
                Judgement::Allowed { rule, access } => (rule, Ok(access)),
                Judgement::Denied { rule, message, code } => {
                    if !self.facts.denied_tools.contains(&call.name) {
                        self.facts.denied_tools.push(truncate(&call.name, COMMAND_CHARS));
                    }
                    (rule, Err(ToolOutcome::error(code, message)))
                }
            }
        };
        let allowed = verdict.is_ok() || (is_control_tool(&call.name) && call.invalid_input.is_none());
        notes.push(Note::ToolCalled {
            agent: self.agent.clone(),
            call: call.clone(),
            allowed,
            rule: rule.clone(),
        });
        let state = match verdict {
            Ok(access) => SlotState::Waiting { access, rule },
            Err(outcome) => {
                // Whether a report counts is known when the other calls of its turn are answered.
                if call.name != REPORT || outcome.is_error {
                    notes.push(answered(&self.agent, &call, &outcome));
                }
                if outcome.is_error {
                    self.refused.push((call.clone(), outcome.clone()));
                }
                SlotState::Done(outcome)
            }
        };
        Slot { call, state }
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
            if let Some(draft) = &self.plan {
                merged.merge(draft.clone());
            }
            let (updates, words) = match update.to_updates(Some(&merged), &self.agent) {
                Ok(made) => made,
                Err(problem) => {
                    return ToolOutcome::error(ErrorCode::ValidationError, format!("UpdatePlan: {problem}"));
                }
            };
            merged.merge(updates.clone());
            let told = format!("{words}The plan as it is now. {}", prompt::plan(&merged));
            notes.push(Note::PlanUpdated { agent: self.agent.clone(), plan: merged });
            self.plan = Some(updates);
            return ToolOutcome::ok(told);
        }
        debug_assert_eq!(call.name, REPORT);
        match serde_json::from_value::<Report>(call.input.clone()) {
            Ok(report) => {
                self.report = Some(report);
                ToolOutcome::ok("Reported.")
            }
            Err(error) => wrong(error),
        }
    }

    /// Runs what may run now: the reads at the front side by side, a call that may change something alone.
    fn advance(&mut self, notes: &mut Vec<Note>) -> Step {
        if self.calls.iter().any(|slot| matches!(slot.state, SlotState::Running { .. })) {
            return Step::Wait;
        }
        let mut batch = Vec::new();
        for (number, slot) in self.calls.iter_mut().enumerate() {
            let SlotState::Waiting { access, rule } = &slot.state else { continue };
            let (access, rule) = (*access, rule.clone());
            if access == ToolAccess::Mutating && !batch.is_empty() {
                break;
            }
            slot.state = SlotState::Running { access, rule: rule.clone() };
            batch.push((number, slot.call.clone(), access, rule));
            if access == ToolAccess::Mutating {
                break;
            }
        }
        if batch.is_empty() { self.turn_is_over(notes) } else { Step::Run(batch) }
    }

    /// A report of success was written before its agent could see what became of the calls beside it. Where one of
    /// them failed it does not count, and the agent is told to look.
    fn weigh_report(&mut self, notes: &mut Vec<Note>) {
        let failed: Vec<String> = self.calls.iter().filter_map(Slot::failure).collect();
        let claims = self.report.as_ref().is_some_and(|report| report.outcome == ReportOutcome::Success);
        let counts = failed.is_empty() || !claims;
        for slot in &mut self.calls {
            let SlotState::Done(outcome) = &mut slot.state else { continue };
            if slot.call.name != REPORT || outcome.is_error {
                continue;
            }
            if !counts {
                *outcome = ToolOutcome::error(ErrorCode::ValidationError, prompt::report_too_early(&failed));
            }
            notes.push(answered(&self.agent, &slot.call, outcome));
        }
        if !counts {
            self.report = None;
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

    /// Facts are what the tools recorded.
    fn record(&mut self, call: &ToolCall, outcome: &ToolOutcome) {
        for file in &outcome.files_modified {
            if self.files.insert(file.clone()) {
                self.facts.files_modified.push(file.clone());
            }
        }
        if outcome.error_code == Some(ErrorCode::PermissionError)
            && !self.facts.denied_tools.contains(&call.name)
        {
            self.facts.denied_tools.push(call.name.clone());
        }
        let seen = outcome.files_seen.iter().map(|file| &file.path);
        for file in seen.chain(&outcome.files_modified) {
            if self.facts.files_accessed.len() < FILES_KEPT && !self.facts.files_accessed.contains(file) {
                self.facts.files_accessed.push(file.clone());
            }
        }
        if !outcome.files_modified.is_empty() {
            for fact in &mut self.facts.commands {
                fact.before_last_write = true;
            }
        }
        let command = call.input.get("command").filter(|_| call.name == BASH);
        if let Some(command) = command.and_then(serde_json::Value::as_str) {
            if self.facts.commands.len() == COMMANDS_KEPT {
                self.facts.commands.remove(0);
            }
            self.facts.commands.push(CommandFact {
                is_check: is_check(command),
                command: truncate(command, COMMAND_CHARS),
                exit_code: outcome.exit_code,
                before_last_write: false,
            });
        }
    }
}

impl Slot {
    /// What went wrong with it, in a few words, if it is a call for work.
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

fn answered(agent: &str, call: &ToolCall, outcome: &ToolOutcome) -> Note {
    Note::ToolAnswered {
        agent: agent.to_owned(),
        call_id: call.id.clone(),
        tool: call.name.clone(),
        outcome: outcome.clone(),
    }
}

fn invalid_input(raw: &str) -> ToolOutcome {
    let message = format!(
        "The arguments were not valid JSON, so the tool was not run. Call it again with valid JSON. What arrived: {}",
        truncate(raw, 300)
    );
    ToolOutcome::error(ErrorCode::ValidationError, message)
}

/// What an agent is told about a mutating call whose outcome nobody knows.
#[must_use]
pub fn unknown_outcome() -> ToolOutcome {
    ToolOutcome::error(
        ErrorCode::Unknown,
        "Outcome unknown: rawko was interrupted while this ran. It may have been done, in part or not at all. Verify before you do it again.",
    )
}
