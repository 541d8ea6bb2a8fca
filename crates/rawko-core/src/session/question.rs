//! The arbiter's part of a run: a question to a model, one repair, then the rules (`spec/arbiter.md`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::event::EffectId;
use super::guard::{GUARD_RULE, Guarded};
use super::note::{DecisionPoint, DecisionRecord, DecisionSource, Note};
use super::run::{Open, Run};
use super::{ConversationLog, LimitKind, Reaction};
use crate::agent::AgentConfig;
use crate::arbiter::{
    AnswerError, DECIDE, Prompt, Rules, decide_tool, evaluate_input, read_answer, select_input,
};
use crate::error::{ErrorCode, ErrorInfo};
use crate::machine::{Decision, MachineEvent};
use crate::message::{Content, Message, Role};
use crate::request::{ModelRequest, Purpose, ToolChoice};
use crate::setup::{ArbiterMode, ModelChoice};
use crate::time::Timestamp;
use crate::usage::Usage;

/// Attempts at a usable answer: the first and one repair.
const ATTEMPTS: usize = 2;

/// A question to the arbiter's model that is not answered yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    point: DecisionPoint,
    model: ModelChoice,
    alternatives: Vec<ModelChoice>,
    conversation: ConversationLog,
    input: Value,
    asked_at: Timestamp,
    calls: Vec<EffectId>,
    rejected: Vec<String>,
    usage: Usage,
}

impl Question {
    pub(super) fn purpose(&self) -> Purpose {
        match self.point {
            DecisionPoint::Select => Purpose::Select,
            DecisionPoint::Evaluate => Purpose::Evaluate,
        }
    }

    pub(super) fn model(&self) -> &ModelChoice {
        &self.model
    }

    pub(super) fn request(&self) -> ModelRequest {
        let choice = &self.model;
        ModelRequest {
            purpose: self.purpose(),
            model: choice.model.clone(),
            system: Arc::clone(&self.conversation.system),
            tools: Arc::clone(&self.conversation.tools),
            messages: self.conversation.messages.clone(),
            tool_choice: ToolChoice::Tool { name: DECIDE.to_owned() },
            max_tokens: choice.max_tokens,
            temperature: choice.temperature,
            extra: choice.extra.clone(),
        }
    }

    /// States what is wrong with `answer`, in the same conversation. Calls in it are answered, as providers demand.
    fn object(&mut self, answer: Message, error: &AnswerError) {
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

impl Run {
    pub(super) fn ask_select(&mut self, reaction: &mut Reaction) {
        self.gather_facts();
        let input = select_input(self.sources(), self.setup.agents.values().map(|agent| &agent.config));
        let value = to_value(&input);
        match self.setup.arbiter.mode {
            ArbiterMode::Rules => self.decide_by_rules(DecisionPoint::Select, value, reaction),
            ArbiterMode::Llm | ArbiterMode::Hybrid => {
                let prompt = self.setup.arbiter.templates.select(&input);
                self.put(DecisionPoint::Select, prompt, value, reaction);
            }
        }
    }

    pub(super) fn ask_evaluate(&mut self, reaction: &mut Reaction) {
        self.gather_facts();
        let Some(input) = evaluate_input(self.sources()) else {
            let message = "there is no execution to judge";
            let error = ErrorInfo::new(ErrorCode::Unknown, message);
            return self.feed(MachineEvent::ArbiterError { error }, reaction);
        };
        let value = to_value(&input);
        match self.setup.arbiter.mode {
            ArbiterMode::Rules => self.decide_by_rules(DecisionPoint::Evaluate, value, reaction),
            ArbiterMode::Llm | ArbiterMode::Hybrid => {
                let agents = self.setup.agents.values().map(|agent| &agent.config);
                let available = select_input(self.sources(), agents).available_agents;
                let prompt = self.setup.arbiter.templates.evaluate(&input, &available);
                self.put(DecisionPoint::Evaluate, prompt, value, reaction);
            }
        }
    }

    fn put(&mut self, point: DecisionPoint, prompt: Prompt, input: Value, reaction: &mut Reaction) {
        let id = self.new_conversation();
        let mut conversation = ConversationLog::new(id, prompt.system, [decide_tool()].into());
        conversation.push(Message::user(prompt.user));
        self.question = Some(self.question(point, conversation, input));
        self.ask(reaction);
    }

    fn question(&self, point: DecisionPoint, conversation: ConversationLog, input: Value) -> Question {
        let model = self.setup.arbiter.model.clone();
        Question {
            point,
            alternatives: self.setup.alternatives(&model),
            model,
            conversation,
            input,
            asked_at: self.now,
            calls: Vec::new(),
            rejected: Vec::new(),
            usage: Usage::default(),
        }
    }

    /// Puts the current question, or puts it again.
    pub(super) fn ask(&mut self, reaction: &mut Reaction) {
        let Some(mut question) = self.question.take() else { return };
        let asked = self.call_model(
            question.purpose(),
            &question.model,
            &question.conversation,
            Open::Question,
            reaction,
        );
        match asked {
            Ok(id) => {
                question.calls.push(id);
                self.question = Some(question);
            }
            Err(error) => {
                self.question = Some(question);
                self.question_failed(error, reaction);
            }
        }
    }

    pub(super) fn question_answered(
        &mut self,
        message: Message,
        usage: Usage,
        cached: bool,
        reaction: &mut Reaction,
    ) {
        let Some(mut question) = self.question.take() else { return };
        question.usage += usage;
        let agents = &self.machine.limits().agents;
        let some_agent_ran = !self.machine.context().current_mode.is_empty();
        match read_answer(&message, agents, some_agent_ran) {
            Ok(decision) => {
                let source = if cached { DecisionSource::Cache } else { DecisionSource::Llm };
                self.decided(question, decision, source, reaction);
            }
            Err(error) => {
                question.object(message.or_placeholder(), &error);
                if question.rejected.len() < ATTEMPTS {
                    self.question = Some(question);
                    self.ask(reaction);
                } else {
                    self.fall_back(question, reaction);
                }
            }
        }
    }

    pub(super) fn question_failed(&mut self, error: ErrorInfo, reaction: &mut Reaction) {
        let Some(mut question) = self.question.take() else { return };
        if error.code.is_of_provider() && !question.alternatives.is_empty() {
            question.model = question.alternatives.remove(0);
            reaction.notes.push(switched(&error, &question.model));
            self.question = Some(question);
            return self.ask(reaction);
        }
        self.question_broken(&question, error, reaction);
    }

    fn question_broken(&mut self, question: &Question, error: ErrorInfo, reaction: &mut Reaction) {
        let event = match question.point {
            DecisionPoint::Select => MachineEvent::AgentSelectionFailed { error },
            DecisionPoint::Evaluate => MachineEvent::ArbiterError { error },
        };
        self.feed(event, reaction);
    }

    fn fall_back(&mut self, question: Question, reaction: &mut Reaction) {
        let why = question.rejected.last().cloned().unwrap_or_default();
        let message = format!("the arbiter gave no usable answer ({why}); the rules decide");
        reaction.notes.push(Note::Warned { message });
        match self.by_rules(question.point) {
            Some(decision) => self.decided(question, decision, DecisionSource::Fallback, reaction),
            None => {
                self.question = Some(question);
                self.question_failed(no_agents(), reaction);
            }
        }
    }

    fn decide_by_rules(&mut self, point: DecisionPoint, input: Value, reaction: &mut Reaction) {
        let unasked = ConversationLog::new(0, String::new(), [].into());
        let question = self.question(point, unasked, input);
        match self.by_rules(point) {
            Some(decision) => self.decided(question, decision, DecisionSource::Rule, reaction),
            None => {
                self.question = Some(question);
                self.question_failed(no_agents(), reaction);
            }
        }
    }

    fn by_rules(&self, point: DecisionPoint) -> Option<Decision> {
        let agents: BTreeMap<String, &AgentConfig> =
            self.setup.agents.iter().map(|(name, agent)| (name.clone(), &agent.config)).collect();
        let rules = Rules { agents: &agents, default: self.setup.default_agent.as_deref() };
        match point {
            DecisionPoint::Select => rules.select(self.machine.context()),
            DecisionPoint::Evaluate => Some(rules.evaluate(self.machine.context())),
        }
    }

    fn decided(
        &mut self,
        question: Question,
        decision: Decision,
        source: DecisionSource,
        reaction: &mut Reaction,
    ) {
        let (decision, instead_of) = match self.guarded(question.point, decision) {
            Guarded::Stands(decision) => (decision, None),
            Guarded::Replaced { by, instead_of } => (by, Some(instead_of)),
            Guarded::Nobody(error) => {
                self.limit = Some(LimitKind::Stalled);
                return self.question_broken(&question, error, reaction);
            }
        };
        let (source, rule) = match instead_of {
            Some(_) => (DecisionSource::Rule, Some(GUARD_RULE.to_owned())),
            None => (source, None),
        };
        let Question { point, input, asked_at, calls, rejected, usage, .. } = question;
        reaction.notes.push(Note::Decided(Box::new(DecisionRecord {
            point,
            decision: decision.clone(),
            source,
            input: Some(input),
            calls,
            rejected,
            rule,
            instead_of,
            cache_key: None,
            latency_ms: self.now.since(asked_at),
            usage,
        })));
        match decision {
            Decision::Complete { .. } => self.completed(point, decision, reaction),
            Decision::SelectMode { .. } | Decision::Continue { .. } | Decision::Retry { .. } => {
                self.feed(super::verify::decided(point, decision), reaction);
            }
        }
    }
}

/// What is said when a conversation goes on with another provider.
pub(super) fn switched(error: &ErrorInfo, to: &ModelChoice) -> Note {
    let message = format!("{}: {}; going on with {} ({})", error.code, error.message, to.provider, to.model);
    Note::Warned { message }
}

fn no_agents() -> ErrorInfo {
    ErrorInfo::new(ErrorCode::ConfigError, "there is no agent to select: define one under .rawko/agents")
}

/// The inputs have string keys and finite numbers: encoding them cannot fail.
fn to_value<T: serde::Serialize>(input: &T) -> Value {
    serde_json::to_value(input).unwrap_or(Value::Null)
}
