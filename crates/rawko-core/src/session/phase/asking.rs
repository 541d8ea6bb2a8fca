//! The arbiter's part of a run: a question to a model, one repair, then the rules (`docs/arbiter.md`).
//!
//! While the arbiter's provider does not answer, the rules decide. Each later question is put to it again, in one request.

use serde_json::Value;

use super::retrying::may_pass;
use super::verifying::{Verifying, decided};
use super::{FollowUp, ModelCompletion, RunPhase};
use crate::arbiter::{ArbiterQuestion, Ruling, cache_key, evaluate_input, select_input};
use crate::attachment::for_arbiter;
use crate::effect_id::EffectId;
use crate::error::{ErrorCode, ErrorInfo};
use crate::machine::{Decision, MachineEvent};
use crate::message::StopReason;
use crate::model_chain::ModelChain;
use crate::note::{DecisionPoint, DecisionRecord, DecisionSource, Note};
use crate::request::Purpose;
use crate::session::exchange::{ArbiterExchange, CheckedAnswer, more_room};
use crate::session::guard::{GUARD_RULE, Guarded};
use crate::session::ledger::Ledger;
use crate::session::reaction::Reaction;
use crate::setup::{ArbiterMode, ModelChoice};
use crate::time::Timestamp;
use crate::usage::Usage;

/// A question to the arbiter that is not decided yet.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) struct PendingDecision {
    point: DecisionPoint,
    models: ModelChain,
    question: ArbiterQuestion,
    exchange: ArbiterExchange,
    asked_at: Timestamp,
    /// The question's name in the arbiter's cache; absent if it may not be answered from there.
    cache_key: Option<String>,
    calls: Vec<EffectId>,
    usage: Usage,
    /// It was asked again with more room than the configuration gives it.
    has_more_room: bool,
}

/// Asks which agent works next.
pub(in crate::session) fn select(ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
    ledger.gather_facts();
    PendingDecision::start(ledger.selection_question(), ledger, reaction)
}

/// Finds out what follows an execution: the checks run first, where they are due.
pub(super) fn evaluate(ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
    if ledger.checks_are_due() {
        return Verifying::first(ledger, reaction);
    }
    judge(ledger, reaction)
}

/// Asks what follows an execution.
pub(super) fn judge(ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
    ledger.gather_facts();
    match ledger.evaluation_question() {
        Some(question) => PendingDecision::start(question, ledger, reaction),
        None => {
            let error = ErrorInfo::new(ErrorCode::Unknown, "there is no execution to judge");
            FollowUp::Machine(MachineEvent::ArbiterError { error })
        }
    }
}

impl Ledger {
    /// The question which agent works next, with the facts as they were gathered last.
    pub(in crate::session) fn selection_question(&self) -> ArbiterQuestion {
        let agents = self.setup.agents.values().map(|agent| &agent.config);
        let mut input = select_input(self.sources(), agents);
        input.task.push_str(&for_arbiter(&self.setup.attachments));
        ArbiterQuestion::Select(Box::new(input))
    }

    /// The question what follows the last execution; `None` if there was none yet.
    pub(in crate::session) fn evaluation_question(&self) -> Option<ArbiterQuestion> {
        let mut input = evaluate_input(self.sources())?;
        input.task.push_str(&for_arbiter(&self.setup.attachments));
        let agents = self.setup.agents.values().map(|agent| &agent.config);
        let agents = select_input(self.sources(), agents).available_agents;
        Some(ArbiterQuestion::Evaluate { input: Box::new(input), agents })
    }

    fn rule_or_fallback(&self, question: &ArbiterQuestion) -> Option<Ruling> {
        question.rule_or_fallback(self.setup.default_agent.as_deref())
    }

    fn arbiter_cache_key(&self, question: &ArbiterQuestion) -> Option<String> {
        let arbiter = &self.setup.arbiter;
        let is_used = match question {
            ArbiterQuestion::Select(_) => arbiter.cache.select,
            ArbiterQuestion::Evaluate { .. } => arbiter.cache.evaluate,
        };
        is_used.then(|| cache_key(question, &arbiter.model, &arbiter.templates))
    }
}

impl PendingDecision {
    fn start(question: ArbiterQuestion, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        let ruling = match ledger.setup.arbiter.mode {
            ArbiterMode::Llm => None,
            ArbiterMode::Hybrid => question.rule().filter(|ruling| ruling.certain),
            ArbiterMode::Rules => {
                let ruling = ledger.rule_or_fallback(&question);
                let asking = Box::new(Self::new(question, ArbiterExchange::unasked(), ledger));
                return match ruling {
                    Some(ruling) => asking.ruled(ruling, DecisionSource::Rule, ledger, reaction),
                    None => asking.failed(no_agents(), ledger, reaction),
                };
            }
        };
        if let Some(ruling) = ruling {
            let asking = Box::new(Self::new(question, ArbiterExchange::unasked(), ledger));
            return asking.ruled(ruling, DecisionSource::Rule, ledger, reaction);
        }
        let prompt = question.prompt(&ledger.setup.arbiter.templates);
        let exchange = ArbiterExchange::new(ledger.carried.new_conversation(), prompt);
        let cache_key = ledger.arbiter_cache_key(&question);
        let asking = Self { cache_key, ..Self::new(question, exchange, ledger) };
        Box::new(asking).ask(ledger, reaction)
    }

    /// Puts the question anew, with the facts as they are now, where its answer was lost.
    pub(in crate::session) fn ask_anew(&mut self, ledger: &mut Ledger) {
        ledger.gather_facts();
        let question = match self.point {
            DecisionPoint::Select => Some(ledger.selection_question()),
            DecisionPoint::Evaluate => ledger.evaluation_question(),
        };
        let Some(question) = question else { return };
        let prompt = question.prompt(&ledger.setup.arbiter.templates);
        self.exchange = ArbiterExchange::new(ledger.carried.new_conversation(), prompt);
        self.cache_key = ledger.arbiter_cache_key(&question);
        self.question = question;
    }

    fn new(question: ArbiterQuestion, exchange: ArbiterExchange, ledger: &Ledger) -> Self {
        let model = &ledger.setup.arbiter.model;
        Self {
            point: match question {
                ArbiterQuestion::Select(_) => DecisionPoint::Select,
                ArbiterQuestion::Evaluate { .. } => DecisionPoint::Evaluate,
            },
            models: ModelChain::new(model.clone(), ledger.setup.alternatives(model)),
            question,
            exchange,
            asked_at: ledger.now,
            cache_key: None,
            calls: Vec::new(),
            usage: Usage::default(),
            has_more_room: false,
        }
    }

    fn purpose(&self) -> Purpose {
        match self.point {
            DecisionPoint::Select => Purpose::Select,
            DecisionPoint::Evaluate => Purpose::Evaluate,
        }
    }

    /// Adds tokens that were used for the question without an answer.
    pub(super) fn consumed(&mut self, usage: Usage) {
        self.usage += usage;
    }

    /// Asks the question, or asks it again.
    pub(super) fn ask(mut self: Box<Self>, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        let (model, cache_key) = (&self.models.current, self.cache_key.clone());
        let request = self.exchange.request(self.purpose(), model);
        match ledger.call_model(model, self.exchange.conversation(), request, cache_key, reaction) {
            Ok(id) => {
                self.calls.push(id);
                FollowUp::Phase(RunPhase::Asking(self))
            }
            Err(refusal) => self.failed(refusal.into_error(), ledger, reaction),
        }
    }

    pub(super) fn replied(
        mut self: Box<Self>,
        reply: &ModelCompletion<'_>,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        self.usage += reply.usage;
        let agents = &ledger.task.limits().agents;
        let some_agent_ran = !ledger.task.context().current_mode.is_empty();
        let is_cut = reply.stop_reason == StopReason::MaxTokens && !reply.cached;
        // A session that began without a limit for this continues without one.
        let most_tokens = ledger.setup.arbiter.most_tokens;
        let cut_off = most_tokens.zip(reply.limit.filter(|_| is_cut));
        let message = reply.message.clone();
        match self.exchange.receive(message, cut_off.map(|(_, limit)| limit), agents, some_agent_ran) {
            CheckedAnswer::Decision(decision) => {
                let source = if reply.cached { DecisionSource::Cache } else { DecisionSource::Llm };
                self.decided(decision, source, None, ledger, reaction)
            }
            CheckedAnswer::Rejected => {
                // From here on it is another question than the one that the key names.
                self.cache_key = None;
                self.ask(ledger, reaction)
            }
            CheckedAnswer::CutOff => {
                let (most, limit) = cut_off.unwrap_or_default();
                self.ask_with_more_room(limit, most, ledger, reaction)
            }
            CheckedAnswer::Exhausted => self.fall_back(ledger, reaction),
        }
    }

    /// Asks again after an answer was cut off by `limit`, with as much more room as `most` and the budget allow.
    fn ask_with_more_room(
        mut self: Box<Self>,
        limit: u32,
        most: u32,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        let wanted = more_room(limit, most).unwrap_or(limit);
        let model = ModelChoice { max_tokens: wanted, ..self.models.current.clone() };
        let room = ledger.affordable_answer(&model, self.exchange.conversation().estimated_tokens());
        if room <= limit {
            return self.fall_back(ledger, reaction);
        }
        reaction.warn(format!(
            "the arbiter's answer was cut off by its token limit of {limit} (arbiter.maxTokens, and room for thinking); \
             asking again with {room}"
        ));
        self.models.current = model;
        self.has_more_room = true;
        self.ask(ledger, reaction)
    }

    pub(super) fn failed(
        mut self: Box<Self>,
        error: ErrorInfo,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        if error.code.is_of_provider()
            && let Some(model) = self.models.switch()
        {
            reaction.switched_model(&error, model);
            self.has_more_room = false;
            self.cache_key = None;
            return self.ask(ledger, reaction);
        }
        if self.has_more_room && is_about_the_request(error.code) {
            // The server may refuse a limit that it was only asked for because of a cut.
            return self.fall_back(ledger, reaction);
        }
        if may_pass(error.code) {
            return self.unanswered(&error, ledger, reaction);
        }
        self.broken(error)
    }

    /// The provider does not answer, and no other is left: the rules decide. The agents may have another provider, or
    /// another model of this one.
    fn unanswered(
        mut self: Box<Self>,
        error: &ErrorInfo,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        let provider = &self.models.current.provider;
        let why = format!("{}: {}", error.code, error.message);
        if ledger.failing.arbiter_failed() {
            reaction.warn(format!(
                "the arbiter's provider {provider} does not answer ({why}); the rules decide until it does"
            ));
        }
        self.exchange.unanswered(format!("{provider} did not answer ({why})"));
        match ledger.rule_or_fallback(&self.question) {
            Some(ruling) => self.ruled(ruling, DecisionSource::Fallback, ledger, reaction),
            None => self.broken(no_agents()),
        }
    }

    fn broken(&self, error: ErrorInfo) -> FollowUp {
        FollowUp::Machine(match self.point {
            DecisionPoint::Select => MachineEvent::AgentSelectionFailed { error },
            DecisionPoint::Evaluate => MachineEvent::ArbiterError { error },
        })
    }

    fn fall_back(self: Box<Self>, ledger: &mut Ledger, reaction: &mut Reaction) -> FollowUp {
        let why = self.exchange.rejected().last().cloned().unwrap_or_default();
        reaction.warn(format!("the arbiter gave no usable answer ({why}); the rules decide"));
        match self.question.fallback(ledger.setup.default_agent.as_deref()) {
            Some(decision) => self.decided(decision, DecisionSource::Fallback, None, ledger, reaction),
            None => self.failed(no_agents(), ledger, reaction),
        }
    }

    fn ruled(
        self: Box<Self>,
        ruling: Ruling,
        source: DecisionSource,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        let Ruling { decision, rule, certain: _ } = ruling;
        self.decided(decision, source, Some(rule), ledger, reaction)
    }

    fn decided(
        self: Box<Self>,
        decision: Decision,
        source: DecisionSource,
        rule: Option<&'static str>,
        ledger: &mut Ledger,
        reaction: &mut Reaction,
    ) -> FollowUp {
        let (decision, instead_of) = match ledger.guarded(self.point, decision) {
            Guarded::Stands(decision) => (decision, None),
            Guarded::Replaced { by, instead_of } => (by, Some(instead_of)),
            Guarded::NoAgentLeft(error, limit) => {
                ledger.task.limit = Some(limit);
                return self.broken(error);
            }
        };
        let (source, rule) = match instead_of {
            Some(_) => (DecisionSource::Rule, Some(GUARD_RULE)),
            None => (source, rule),
        };
        let Self { point, question, exchange, asked_at, calls, cache_key, usage, .. } = *self;
        reaction.notes.push(Note::DecisionMade(Box::new(DecisionRecord {
            point,
            decision: decision.clone(),
            source,
            input: Some(input_of(&question)),
            calls,
            rejected: exchange.rejected().to_vec(),
            rule: rule.map(str::to_owned),
            instead_of,
            cache_key: cache_key.filter(|_| matches!(source, DecisionSource::Llm | DecisionSource::Cache)),
            latency_ms: ledger.now.since(asked_at),
            usage,
        })));
        match decision {
            Decision::Complete { .. } => Verifying::start(point, decision, ledger, reaction),
            Decision::SelectMode { .. }
            | Decision::Continue { .. }
            | Decision::Retry { .. }
            | Decision::Blocked { .. } => FollowUp::Machine(decided(point, decision)),
        }
    }
}

/// Whether another request might have been answered.
fn is_about_the_request(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::InvalidRequest | ErrorCode::ContextLengthExceeded)
}

fn no_agents() -> ErrorInfo {
    ErrorInfo::new(ErrorCode::ConfigError, "there is no agent to select: define one under .rawko/agents")
}

/// The inputs have string keys and finite numbers: encoding them cannot fail.
fn input_of(question: &ArbiterQuestion) -> Value {
    let encoded = match question {
        ArbiterQuestion::Select(input) => serde_json::to_value(input),
        ArbiterQuestion::Evaluate { input, agents: _ } => serde_json::to_value(input),
    };
    encoded.unwrap_or(Value::Null)
}
