//! Explains a run (`docs/sessions.md`): each decision with the arbiter's input, its answer, where the decision came
//! from, what it cost, and the alternatives.
//!
//! All of it is derived by folding the journal once more. Requests are not stored, so they are built again, byte for byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use rawko_core::cost::PriceTable;
use rawko_core::machine::{Decision, State};
use rawko_core::message::{Message, StopReason};
use rawko_core::request::{ModelRequest, Purpose};
use rawko_core::session::{
    DecisionPoint, DecisionRecord, DecisionSource, EffectAnswer, EffectId, Event, Note, Session,
};
use rawko_core::timeline::{Fact, ModelReply, Timeline, TimelineEntry};
use rawko_core::{ErrorInfo, Timestamp, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::Journal;

/// One decision of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Number of the decision in the run, from 1.
    pub number: usize,
    /// Sequence number of the event that led to it.
    pub record: u64,
    /// When it was made.
    pub at: Timestamp,
    /// State of the machine in which it was made.
    pub state: State,
    /// Executions begun before it.
    pub iteration: u32,
    /// Which question it answers.
    pub point: DecisionPoint,
    /// The decision.
    pub decision: Decision,
    /// Where it came from.
    pub source: DecisionSource,
    /// The arbiter's input (`docs/arbiter.md`); absent for a person's decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The model calls that led to it, in order.
    pub calls: Vec<ExplainedCall>,
    /// Why the model's answers could not be used, one entry for each, and one more if its provider did not answer in the end.
    pub rejected: Vec<String>,
    /// The rule that decided, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The decision that a guard replaced with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<Decision>,
    /// From question to decision, in milliseconds.
    pub latency_ms: u64,
    /// Tokens of the model calls.
    pub usage: Usage,
    /// Cost of the model calls in US dollars; absent where a price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The decisions that were also possible.
    pub alternatives: Alternatives,
}

/// A question to the arbiter's model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedCall {
    /// The effect.
    pub effect: EffectId,
    /// The provider that was asked.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The system prompt.
    pub system: Arc<str>,
    /// The messages.
    pub messages: Vec<Arc<Message>>,
    /// The model's answer.
    pub answer: CallAnswer,
    /// Why the answer could not be used, if it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
}

/// How a model call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum CallAnswer {
    /// The model answered.
    Replied {
        /// The answer as it came.
        message: Message,
        /// Why it ended.
        stop_reason: StopReason,
        /// What it consumed.
        usage: Usage,
        /// From question to whole answer, in milliseconds.
        duration_ms: u64,
    },
    /// The call failed.
    Failed {
        /// What failed, and why.
        error: ErrorInfo,
        /// From question to failure, in milliseconds.
        duration_ms: u64,
    },
    /// Unknown: the process ended before the answer was recorded.
    Lost,
    /// The run stopped waiting for the answer.
    Dropped,
}

/// The decisions that were also possible.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alternatives {
    /// Agents that were not chosen.
    pub agents: Vec<AlternativeAgent>,
    /// Other kinds of decision that would have been accepted.
    pub kinds: Vec<String>,
    /// What the rules would have decided without a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Decision>,
}

/// An agent that was not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AlternativeAgent {
    /// Its name.
    pub name: String,
    /// When to choose it, from its configuration.
    pub when_to_use: String,
}

/// All decisions of a session, in order.
#[must_use]
pub fn explain(journal: &Journal) -> Vec<Explanation> {
    let mut timeline = Timeline::default();
    let mut calls = BTreeMap::new();
    let mut explained: Vec<Explanation> = Vec::new();
    for (seq, stamped) in journal.events() {
        let session = timeline.session();
        let before = settles(&stamped.event, &calls).then(|| RulesBefore::of(session));
        let mut walk = session.state();
        for TimelineEntry { at, fact, .. } in timeline.apply(seq, stamped) {
            match fact {
                Fact::Note(Note::StateChanged { to, .. }) => walk = to,
                Fact::Note(Note::DecisionMade(record)) => {
                    let site = DecisionSite { number: explained.len() + 1, record: seq, at, state: walk };
                    let session = timeline.session();
                    explained.push(site.explain(*record, before.as_ref(), session, &mut calls));
                }
                fact => note_call(fact, &mut calls),
            }
        }
    }
    explained
}

/// A call that is not part of a decision yet.
struct UndecidedCall {
    provider: String,
    request: ModelRequest,
    answer: CallAnswer,
}

type PendingCalls = BTreeMap<EffectId, UndecidedCall>;

/// Keeps a call to the arbiter's model, or adds its answer.
fn note_call(fact: Fact, calls: &mut PendingCalls) {
    let (effect, answer) = match fact {
        Fact::ModelCalled { call, request: Some(request) }
            if matches!(call.purpose, Purpose::Select | Purpose::Evaluate) =>
        {
            let (provider, request, answer) = (call.provider, *request, CallAnswer::Dropped);
            calls.insert(call.effect, UndecidedCall { provider, request, answer });
            return;
        }
        Fact::ModelReplied(reply) => {
            let ModelReply { call, message, usage, stop_reason, duration_ms, cached: _ } = *reply;
            (call.effect, CallAnswer::Replied { message, stop_reason, usage, duration_ms })
        }
        Fact::ModelFailed { error, call, duration_ms, .. } => {
            (call.effect, CallAnswer::Failed { error, duration_ms })
        }
        Fact::WorkEnded { effect, answer: EffectAnswer::EffectLost } => (effect, CallAnswer::Lost),
        _ => return,
    };
    if let Some(call) = calls.get_mut(&effect) {
        call.answer = answer;
    }
}

/// Whether an event can lead to a decision. Its alternatives are then those of the state before the event.
fn settles(event: &Event, calls: &PendingCalls) -> bool {
    match event {
        // A resume ends a pause, and what was answered during it takes effect.
        Event::OverrideRequested { .. } | Event::SessionResumed { .. } => true,
        event => event.answers().is_some_and(|effect| calls.contains_key(&effect)),
    }
}

/// What the rules would have decided before an event changed the state.
struct RulesBefore {
    select: Option<Decision>,
    evaluate: Option<Decision>,
    some_agent_ran: bool,
    iteration: u32,
}

impl RulesBefore {
    fn of(session: &Session) -> Self {
        let (Some(setup), Some(context)) = (session.setup(), session.context()) else {
            return Self { select: None, evaluate: None, some_agent_ran: false, iteration: 0 };
        };
        let rules = |point| {
            let ruling = session.arbiter_question(point)?.rule_or_fallback(setup.default_agent.as_deref());
            ruling.map(|ruling| ruling.decision)
        };
        Self {
            select: rules(DecisionPoint::Select),
            evaluate: rules(DecisionPoint::Evaluate),
            some_agent_ran: !context.current_mode.is_empty(),
            iteration: context.iteration_count,
        }
    }
}

/// When and where a decision was made.
struct DecisionSite {
    number: usize,
    record: u64,
    at: Timestamp,
    state: State,
}

impl DecisionSite {
    fn explain(
        self,
        record: DecisionRecord,
        before: Option<&RulesBefore>,
        session: &Session,
        calls: &mut PendingCalls,
    ) -> Explanation {
        let DecisionRecord {
            point,
            decision,
            source,
            input,
            calls: ids,
            rejected,
            rule,
            instead_of,
            cache_key: _,
            latency_ms,
            usage,
        } = record;
        let mut reasons = rejected.iter();
        let calls: Vec<ExplainedCall> = ids
            .into_iter()
            .filter_map(|id| Some((id, calls.remove(&id)?)))
            .map(|(effect, call)| {
                let replied = matches!(call.answer, CallAnswer::Replied { .. });
                ExplainedCall {
                    effect,
                    provider: call.provider,
                    model: call.request.model,
                    system: call.request.system,
                    messages: call.request.messages.to_vec(),
                    answer: call.answer,
                    rejected: replied.then(|| reasons.next().cloned()).flatten(),
                }
            })
            .collect();
        let iteration_now = session.context().map_or(0, |context| context.iteration_count);
        Explanation {
            number: self.number,
            record: self.record,
            at: self.at,
            state: self.state,
            iteration: before.map_or(iteration_now, |before| before.iteration),
            point,
            cost_usd: cost(session, &calls),
            alternatives: alternatives(point, &decision, source, before, session),
            decision,
            source,
            input,
            calls,
            rejected,
            rule,
            instead_of,
            latency_ms,
            usage,
        }
    }
}

fn cost(session: &Session, calls: &[ExplainedCall]) -> Option<f64> {
    let prices = PriceTable::with_overrides(session.setup()?.prices.clone());
    calls.iter().try_fold(0.0, |sum, call| match &call.answer {
        CallAnswer::Replied { usage, .. } => Some(sum + prices.cost(&call.model, usage)?),
        CallAnswer::Failed { .. } | CallAnswer::Lost | CallAnswer::Dropped => Some(sum),
    })
}

fn alternatives(
    point: DecisionPoint,
    taken: &Decision,
    source: DecisionSource,
    before: Option<&RulesBefore>,
    session: &Session,
) -> Alternatives {
    let chosen = match taken {
        Decision::SelectMode { mode, .. } => Some(mode),
        Decision::Continue { .. }
        | Decision::Complete { .. }
        | Decision::Retry { .. }
        | Decision::Blocked { .. } => None,
    };
    let agents =
        session.setup().into_iter().flat_map(|setup| setup.agents.values()).map(|agent| &agent.config);
    let agents = agents
        .filter(|agent| Some(&agent.name) != chosen)
        .map(|agent| AlternativeAgent { name: agent.name.clone(), when_to_use: agent.when_to_use.joined() });
    // The rules decide in the same step, so there is nothing to ask them before it.
    let rules = match (source, before, point) {
        (DecisionSource::Rule | DecisionSource::Fallback, ..) => Some(taken.clone()),
        (_, None, _) => None,
        (_, Some(before), DecisionPoint::Select) => before.select.clone(),
        (_, Some(before), DecisionPoint::Evaluate) => before.evaluate.clone(),
    };
    let some_agent_ran = match before {
        Some(before) => before.some_agent_ran,
        None => point == DecisionPoint::Evaluate,
    };
    let kinds = ["SELECT_MODE", "CONTINUE", "RETRY", "COMPLETE", "BLOCKED"].into_iter();
    let kinds = kinds.filter(|kind| match *kind {
        "SELECT_MODE" | "BLOCKED" => true,
        "CONTINUE" => point == DecisionPoint::Evaluate,
        _ => some_agent_ran,
    });
    Alternatives {
        agents: agents.collect(),
        kinds: kinds.filter(|kind| *kind != taken.kind()).map(str::to_owned).collect(),
        rules,
    }
}
