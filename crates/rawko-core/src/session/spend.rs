//! Counts what model calls have consumed, and what is reserved for those under way (`docs/tools.md#guards`).
//!
//! Before a call, its prompt and its longest answer are reserved in every budget that pays for it: the run's, and that
//! of the agent it is made for. If only a shorter answer fits, a shorter one is asked for; if not even that fits, the
//! call is not made. When the call is answered, has failed or is abandoned, its consumption replaces the reservation.
//! So no budget is exceeded by more than the error of the prompt's estimate.

mod agent;
mod budget;
mod shared;

pub(super) use budget::BudgetRefusal;
pub use shared::{SharedSpend, SoFar};

use std::collections::BTreeMap;

use super::reaction::Reaction;
use crate::cost::{Price, PriceTable};
use crate::effect_id::EffectId;
use crate::note::Note;
use crate::request::{ModelRequest, Purpose};
use crate::setup::Setup;
use crate::usage::Usage;
use agent::AgentSpend;
use shared::SharedPart;

/// What providers call the limit of an answer, where it is configured as one of their own fields.
const ANSWER_LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// What the session's own model calls have used, and what is reserved for those under way.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spend {
    prices: PriceTable,
    own: CallTotal,
    shared: SharedPart,
    reserved: BTreeMap<EffectId, Reservation>,
    agents: BTreeMap<String, AgentSpend>,
    /// Tokens that the extractor of memories has used.
    extractor_tokens: u64,
    /// Time in which no process carried the run, in milliseconds.
    paused_ms: u64,
    /// How long the execution waited for models, in milliseconds, as far as its deadline has not been moved by it.
    waited_ms: u64,
}

/// What model calls have used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CallTotal {
    pub(super) usage: Usage,
    cost_usd: f64,
    /// A model without a known price was used: the sum would be too low.
    unpriced: bool,
    /// How many executions of outside agents have not said what they cost.
    unknown: u32,
}

/// What one call may consume at most.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reservation {
    purpose: Purpose,
    model: String,
    prompt_tokens: u64,
    answer_tokens: u32,
    cost_usd: f64,
}

impl Reservation {
    /// Keeps the answer to `request` within what is reserved for it.
    pub(super) fn limit(&self, request: &mut ModelRequest) {
        request.max_tokens = self.answer_tokens;
        for name in ANSWER_LIMITS {
            if let Some(limit) = request.extra.get_mut(name) {
                *limit = self.answer_tokens.into();
            }
        }
    }
}

impl CallTotal {
    pub(super) fn cost_usd(&self) -> Option<f64> {
        (!self.unpriced && self.unknown == 0).then_some(self.cost_usd)
    }

    /// Adds a call, and returns its cost; 0 if the price is not known.
    fn add(&mut self, usage: &Usage, price: Option<Price>) -> f64 {
        let cost = price.map_or(0.0, |price| price.cost(usage));
        self.unpriced |= price.is_none_or(|price| !price.covers(usage));
        self.usage += *usage;
        self.cost_usd += cost;
        cost
    }
}

impl Spend {
    /// Of a task that begins, whose first `shared_events` are those of another session.
    pub(super) fn new(setup: &Setup, shared_events: u64) -> Self {
        Self {
            prices: PriceTable::with_overrides(setup.prices.clone()),
            own: CallTotal::default(),
            shared: SharedPart::of(shared_events),
            reserved: BTreeMap::new(),
            agents: BTreeMap::new(),
            extractor_tokens: 0,
            paused_ms: 0,
            waited_ms: 0,
        }
    }

    pub(super) fn hold(&mut self, effect: EffectId, reservation: Reservation) {
        self.reserved.insert(effect, reservation);
    }

    /// Most tokens of the answer to `effect`, while it is open.
    pub(super) fn answer_limit(&self, effect: EffectId) -> Option<u32> {
        self.reserved.get(&effect).map(|held| held.answer_tokens)
    }

    /// Tokens and dollars reserved for the calls that `counts` picks.
    fn reserved(&self, counts: impl Fn(&Purpose) -> bool) -> (u64, f64) {
        self.reserved.values().filter(|held| counts(&held.purpose)).fold((0, 0.0), |(tokens, cost), held| {
            let call = held.prompt_tokens.saturating_add(u64::from(held.answer_tokens));
            (tokens.saturating_add(call), cost + held.cost_usd)
        })
    }

    /// How long no process carried the run, in milliseconds.
    pub(super) fn paused_ms(&self) -> u64 {
        self.paused_ms
    }

    /// Tokens that the extractor of memories has used.
    pub(super) fn extractor_tokens(&self) -> u64 {
        self.extractor_tokens
    }

    /// The extractor of memories was answered.
    pub(super) fn extractor_used(&mut self, usage: Usage) {
        self.extractor_tokens = self.extractor_tokens.saturating_add(usage.total_tokens());
    }

    /// Drops the reservation of a call for which no model was asked, or that went with its process and is made again.
    /// Whether the provider bills the lost one is unknown; a run that was killed has the figures of one that was not.
    pub(super) fn release(&mut self, effect: EffectId) {
        self.reserved.remove(&effect);
    }

    /// Tokens of all model calls of the run, those of a shared beginning included.
    pub(super) fn run_tokens(&self) -> u64 {
        self.shared.used.usage.total_tokens().saturating_add(self.own.usage.total_tokens())
    }

    /// What is reserved for an open call, in US dollars, if the price of its model is known.
    pub(super) fn reserved_cost(&self, effect: EffectId) -> Option<f64> {
        let Reservation { model, cost_usd, .. } = self.reserved.get(&effect)?;
        self.prices.price(model).map(|_| *cost_usd)
    }

    /// What an open call costs that used so much; 0 if the price is not known.
    pub(super) fn call_cost(&self, effect: EffectId, usage: &Usage) -> Option<f64> {
        let model = &self.reserved.get(&effect)?.model;
        Some(self.prices.price(model).map_or(0.0, |price| price.cost(usage)))
    }

    /// Settles a call that was answered, and reports it.
    pub(super) fn settle(&mut self, effect: EffectId, usage: Usage, reaction: &mut Reaction) {
        let Some(Reservation { purpose, model, .. }) = self.reserved.remove(&effect) else { return };
        let cost = self.own.add(&usage, self.prices.price(&model));
        if let Some(agent) = payer(&purpose) {
            self.agents.entry(agent.to_owned()).or_default().charge(&usage, cost);
        }
        let (total, cost_usd) = (self.own.usage, self.own.cost_usd());
        reaction.notes.push(Note::TokensUsed { effect, agent: purpose.to_string(), usage, total, cost_usd });
    }

    /// An outside agent begins to work. What it costs is unknown until it says so.
    pub(super) fn outside_begins(&mut self) {
        self.own.unknown = self.own.unknown.saturating_add(1);
    }

    /// An outside agent says what it has used; where it says nothing, the cost stays unknown.
    pub(super) fn settle_outside(
        &mut self,
        effect: EffectId,
        agent: &str,
        (usage, cost_usd): (Option<Usage>, Option<f64>),
        reaction: &mut Reaction,
    ) {
        let cost_usd = cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0);
        if cost_usd.is_some() {
            self.own.unknown = self.own.unknown.saturating_sub(1);
        }
        if usage.is_none() && cost_usd.is_none() {
            return;
        }
        let (usage, cost) = (usage.unwrap_or_default(), cost_usd.unwrap_or_default());
        self.own.usage += usage;
        self.own.cost_usd += cost;
        self.agents.entry(agent.to_owned()).or_default().charge(&usage, cost);
        let (total, cost_usd) = (self.own.usage, self.own.cost_usd());
        let agent = agent.to_owned();
        reaction.notes.push(Note::TokensUsed { effect, agent, usage, total, cost_usd });
    }

    /// Settles a call that was not answered with what it consumed, if the provider had begun to answer. If the provider
    /// had not counted the prompt yet, the estimate is used. Returns what the call consumed.
    pub(super) fn settle_failed(
        &mut self,
        effect: EffectId,
        used: Option<Usage>,
        reaction: &mut Reaction,
    ) -> Option<Usage> {
        let Some(mut usage) = used else {
            self.release(effect);
            return None;
        };
        let reservation = self.reserved.get(&effect)?;
        if usage.prompt_tokens() == 0 {
            usage.input_tokens = reservation.prompt_tokens;
            usage.estimated = true;
        }
        self.settle(effect, usage, reaction);
        Some(usage)
    }

    /// Settles a call that was abandoned: its prompt is paid for, and nothing is known of its answer. Returns what the
    /// call consumed, if an agent's own model was called.
    pub(super) fn settle_abandoned(&mut self, effect: EffectId, reaction: &mut Reaction) -> Option<Usage> {
        let reservation = self.reserved.get(&effect)?;
        let is_agents = payer(&reservation.purpose).is_some();
        let usage = Usage { input_tokens: reservation.prompt_tokens, estimated: true, ..Usage::default() };
        self.settle(effect, usage, reaction);
        is_agents.then_some(usage)
    }
}

/// Whose own budget pays for a call, besides the run's.
fn payer(purpose: &Purpose) -> Option<&str> {
    match purpose {
        Purpose::Select | Purpose::Evaluate | Purpose::Remember { .. } => None,
        Purpose::Agent { name } | Purpose::Summarize { agent: name } => Some(name),
    }
}
