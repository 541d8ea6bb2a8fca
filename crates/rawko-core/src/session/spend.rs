//! What model calls may consume and have consumed (`docs/spec/tools-and-permissions.md`, "Guards").
//!
//! Before a call, its prompt and its longest answer are reserved in every budget that pays for it: the run's, and that
//! of the agent it is made for. If only a shorter answer fits, a shorter one is asked for; if not even that fits, the
//! call is not made. When the call is answered, has failed or is abandoned, its consumption replaces the reservation.
//! So no budget is exceeded by more than the error of the prompt's estimate.

use std::collections::BTreeMap;

use super::agent_spend::AgentSpend;
use super::ledger::Ledger;
use super::{EffectId, LimitKind, Reaction};
use crate::cost::Price;
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::BudgetFacts;
use crate::note::Note;
use crate::request::{ModelRequest, Purpose};
use crate::setup::ModelChoice;
use crate::usage::Usage;

/// The shortest answer that is worth a call, in tokens.
const LEAST_ANSWER: u32 = 256;
/// What providers call the limit of an answer, where it is configured as one of their own fields.
const ANSWER_LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// What the session's own model calls have used, and what is reserved for those under way.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Spend {
    pub(super) own: CallTotal,
    reserved: BTreeMap<EffectId, Reservation>,
    pub(super) agents: BTreeMap<String, AgentSpend>,
    /// Time in which no process carried the run, in milliseconds.
    paused_ms: u64,
}

/// What model calls have used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct CallTotal {
    pub(super) usage: Usage,
    cost_usd: f64,
    /// A model without a known price was used: the sum would be too low.
    unpriced: bool,
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

/// Why a call is not made.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Refusal {
    /// The run's budget does not allow it.
    Run(ErrorInfo),
    /// The agent's own budget does not allow it: this is why.
    Agent(String),
}

impl Refusal {
    /// The refusal as an error, where it does not matter whose budget it was.
    pub(super) fn into_error(self) -> ErrorInfo {
        match self {
            Self::Run(error) => error,
            Self::Agent(why) => ErrorInfo::new(ErrorCode::BudgetExceeded, why),
        }
    }
}

/// One budget, and how much of it is used or reserved.
pub(super) struct Budget<'a> {
    pub(super) max_tokens: Option<u64>,
    pub(super) max_cost_usd: Option<f64>,
    pub(super) tokens: u64,
    pub(super) cost_usd: f64,
    /// The owner, for messages: empty for the run's.
    pub(super) of: &'a str,
    /// Where it is configured.
    pub(super) section: &'a str,
}

/// What does not fit into a budget.
struct Shortage {
    kind: LimitKind,
    message: String,
}

impl CallTotal {
    pub(super) fn cost_usd(&self) -> Option<f64> {
        (!self.unpriced).then_some(self.cost_usd)
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
    pub(super) fn hold(&mut self, effect: EffectId, reservation: Reservation) {
        self.reserved.insert(effect, reservation);
    }

    /// Keeps the answer to `effect` within what was reserved for it.
    pub(super) fn limit_answer(&self, effect: EffectId, request: &mut ModelRequest) {
        let Some(held) = self.reserved.get(&effect) else { return };
        request.max_tokens = held.answer_tokens;
        for name in ANSWER_LIMITS {
            if let Some(limit) = request.extra.get_mut(name) {
                *limit = held.answer_tokens.into();
            }
        }
    }

    /// Most tokens of the answer to `effect`, while it is open.
    pub(super) fn answer_limit(&self, effect: EffectId) -> Option<u32> {
        self.reserved.get(&effect).map(|held| held.answer_tokens)
    }

    /// Tokens and dollars reserved for the calls that `counts` picks.
    pub(super) fn reserved(&self, counts: impl Fn(&Purpose) -> bool) -> (u64, f64) {
        self.reserved.values().filter(|held| counts(&held.purpose)).fold((0, 0.0), |(tokens, cost), held| {
            let call = held.prompt_tokens.saturating_add(u64::from(held.answer_tokens));
            (tokens.saturating_add(call), cost + held.cost_usd)
        })
    }

    /// No process carried the run for so long.
    pub(super) fn paused(&mut self, ms: u64) {
        self.paused_ms = self.paused_ms.saturating_add(ms);
        self.agents_paused(ms);
    }

    /// How long no process carried the run, in milliseconds.
    pub(super) fn paused_ms(&self) -> u64 {
        self.paused_ms
    }

    /// The agents did not work for so long.
    pub(super) fn agents_paused(&mut self, ms: u64) {
        for spend in self.agents.values_mut() {
            spend.paused(ms);
        }
    }

    /// Drops the reservation of a call for which no model was asked, or that went with its process and is made again.
    /// Whether the provider bills the lost one is unknown; a run that was killed has the figures of one that was not.
    pub(super) fn release(&mut self, effect: EffectId) {
        self.reserved.remove(&effect);
    }
}

impl Ledger {
    /// What the call may consume, to be reserved once it has an effect; refused if a budget has no room for it.
    pub(super) fn reserve(
        &mut self,
        purpose: &Purpose,
        choice: &ModelChoice,
        prompt_tokens: u64,
    ) -> Result<Reservation, Refusal> {
        let price = self.prices.price(&choice.model);
        let search = choice.search.as_ref().filter(|_| !purpose.is_aside());
        let web_searches = search.map_or(0, |search| search.max_uses.into());
        let call = Call { choice, prompt_tokens, web_searches, price };
        let of_run = match call.fit(&self.run_budget()) {
            Ok(tokens) => tokens,
            Err(Shortage { kind, message }) => {
                self.limit = Some(kind);
                return Err(Refusal::Run(ErrorInfo::new(ErrorCode::BudgetExceeded, message)));
            }
        };
        let of_agent = match payer(purpose).and_then(|agent| self.agent_budget(agent)) {
            Some(budget) => call.fit(&budget).map_err(|short| Refusal::Agent(short.message))?,
            None => u32::MAX,
        };
        let answer_tokens = of_run.min(of_agent);
        Ok(Reservation {
            purpose: purpose.clone(),
            model: choice.model.clone(),
            prompt_tokens,
            answer_tokens,
            cost_usd: call.cost(answer_tokens),
        })
    }

    /// The longest answer of `choice` that the run's budget pays for after a prompt of so many tokens; 0 if it pays for
    /// none.
    pub(super) fn affordable_answer(&self, choice: &ModelChoice, prompt_tokens: u64) -> u32 {
        let price = self.prices.price(&choice.model);
        let call = Call { choice, prompt_tokens, web_searches: 0, price };
        call.fit(&self.run_budget()).unwrap_or(0)
    }

    /// Tokens of all model calls of the run, those of a shared beginning included.
    pub(super) fn run_tokens(&self) -> u64 {
        self.shared.used.usage.total_tokens().saturating_add(self.spend.own.usage.total_tokens())
    }

    fn run_budget(&self) -> Budget<'static> {
        let limits = &self.setup.limits;
        let (tokens, cost_usd) = self.spend.reserved(|_| true);
        Budget {
            max_tokens: limits.max_tokens,
            max_cost_usd: limits.max_cost_usd,
            tokens: self.run_tokens().saturating_add(tokens),
            cost_usd: self.shared.used.cost_usd + self.spend.own.cost_usd + cost_usd,
            of: "",
            section: "constraints",
        }
    }

    /// What is reserved for an open call, in US dollars, if the price of its model is known.
    pub(super) fn reserved_cost(&self, effect: EffectId) -> Option<f64> {
        let Reservation { model, cost_usd, .. } = self.spend.reserved.get(&effect)?;
        self.prices.price(model).map(|_| *cost_usd)
    }

    /// What an open call costs that used so much; 0 if the price is not known.
    pub(super) fn call_cost(&self, effect: EffectId, usage: &Usage) -> Option<f64> {
        let model = &self.spend.reserved.get(&effect)?.model;
        Some(self.prices.price(model).map_or(0.0, |price| price.cost(usage)))
    }

    /// Settles a call that was answered, and reports it.
    pub(super) fn settle(&mut self, effect: EffectId, usage: Usage, reaction: &mut Reaction) {
        let Some(Reservation { purpose, model, .. }) = self.spend.reserved.remove(&effect) else { return };
        let cost = self.spend.own.add(&usage, self.prices.price(&model));
        if let Some(agent) = payer(&purpose) {
            self.spend.agents.entry(agent.to_owned()).or_default().charge(&usage, cost);
        }
        let (total, cost_usd) = (self.spend.own.usage, self.spend.own.cost_usd());
        reaction.notes.push(Note::TokensUsed { effect, agent: purpose.to_string(), usage, total, cost_usd });
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
            self.spend.release(effect);
            return None;
        };
        let reservation = self.spend.reserved.get(&effect)?;
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
        let reservation = self.spend.reserved.get(&effect)?;
        let is_agents = payer(&reservation.purpose).is_some();
        let usage = Usage { input_tokens: reservation.prompt_tokens, estimated: true, ..Usage::default() };
        self.settle(effect, usage, reaction);
        is_agents.then_some(usage)
    }

    /// What is left of the run's budgets.
    pub(super) fn remaining(&self) -> BudgetFacts {
        let budget = self.run_budget();
        let limits = &self.setup.limits;
        BudgetFacts {
            tokens_left: limits.max_tokens.map(|max| max.saturating_sub(budget.tokens)),
            cost_usd_left: limits.max_cost_usd.map(|max| (max - budget.cost_usd).max(0.0)),
            time_left_ms: limits.max_duration_ms.map(|max| max.saturating_sub(self.elapsed_ms())),
        }
    }

    /// The same without what nobody chose, until half of it is used: it would only make each question another one.
    pub(super) fn remaining_worth_telling(&self) -> BudgetFacts {
        let left = self.remaining();
        let limits = &self.setup.limits;
        let cost_matters =
            |left: &f64| !limits.cost_is_default || limits.max_cost_usd.is_some_and(|max| *left < max / 2.0);
        let time_matters = |left: &u64| {
            !limits.duration_is_default || limits.max_duration_ms.is_some_and(|max| *left < max / 2)
        };
        BudgetFacts {
            cost_usd_left: left.cost_usd_left.filter(cost_matters),
            time_left_ms: left.time_left_ms.filter(time_matters),
            ..left
        }
    }

    /// How long processes carried the run, in milliseconds, without the pauses between them.
    pub(super) fn elapsed_ms(&self) -> u64 {
        let begun = self.machine.context().started_at.unwrap_or(self.now);
        self.now.since(begun).saturating_sub(self.spend.paused_ms)
    }
}

/// Whose own budget pays for a call, besides the run's.
fn payer(purpose: &Purpose) -> Option<&str> {
    match purpose {
        Purpose::Select | Purpose::Evaluate | Purpose::Remember { .. } => None,
        Purpose::Agent { name } | Purpose::Summarize { agent: name } => Some(name),
    }
}

/// A call that is to be made.
struct Call<'a> {
    choice: &'a ModelChoice,
    prompt_tokens: u64,
    /// The most searches of the web that the provider may run for it.
    web_searches: u64,
    price: Option<Price>,
}

impl Call<'_> {
    /// The longest answer that `budget` has room for.
    fn fit(&self, budget: &Budget<'_>) -> Result<u32, Shortage> {
        let (wanted, least) = (self.wanted(), self.least());
        let mut fits = wanted;
        if let Some(max) = budget.max_tokens {
            let left = max.saturating_sub(budget.tokens).saturating_sub(self.prompt_tokens);
            fits = fits.min(u32::try_from(left).unwrap_or(u32::MAX));
            if fits < least {
                let (of, section, used) = (budget.of, budget.section, budget.tokens);
                let needs = self.prompt_tokens.saturating_add(u64::from(least));
                let message = format!(
                    "the token budget{of} is used up: {used} of {max} used, and the next call needs about {needs} ({section}.maxTokens)"
                );
                return Err(Shortage { kind: LimitKind::Tokens, message });
            }
        }
        if let Some(max) = budget.max_cost_usd {
            fits = fits.min(self.affordable(max - budget.cost_usd));
            if fits < least {
                let (of, section, used) = (budget.of, budget.section, budget.cost_usd);
                let needs = self.cost(least);
                let message = format!(
                    "the cost budget{of} is used up: ${used:.4} of ${max:.4} spent, and the next call costs about ${needs:.4} ({section}.maxCostUsd)"
                );
                return Err(Shortage { kind: LimitKind::Cost, message });
            }
        }
        Ok(fits)
    }

    /// The longest answer that is wanted.
    fn wanted(&self) -> u32 {
        let configured = ANSWER_LIMITS.iter().filter_map(|name| self.choice.extra.get(*name)?.as_u64()).max();
        let configured = configured.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
        match (configured, self.choice.max_output) {
            (Some(limit), Some(most)) => limit.min(most),
            (Some(limit), None) => limit,
            (None, _) => self.choice.answer_tokens(),
        }
    }

    /// The shortest answer that is worth the call. Thinking counts as part of the answer, and
    /// a request that leaves nothing beside it is refused.
    fn least(&self) -> u32 {
        let thinking = self.choice.extra.get("thinking").and_then(|thinking| thinking.get("budget_tokens"));
        let thinking = thinking.and_then(serde_json::Value::as_u64).unwrap_or(0);
        let thinking = u32::try_from(thinking).unwrap_or(u32::MAX);
        LEAST_ANSWER.saturating_add(thinking).min(self.wanted())
    }

    /// Tokens of an answer that so many dollars buy after the prompt.
    // A share of a price that is too large or negative is cut to the range of the integer, which is what is meant.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn affordable(&self, dollars: f64) -> u32 {
        let left = dollars - self.cost(0);
        let token = (self.cost(1_000_000) - self.cost(0)) / 1_000_000.0;
        if left < 0.0 {
            0
        } else if token > 0.0 {
            (left / token).floor() as u32
        } else {
            u32::MAX
        }
    }

    /// What the call costs at most with an answer of so many tokens: how much of the prompt comes from the provider's
    /// cache is not known yet, so the highest price counts.
    fn cost(&self, answer_tokens: u32) -> f64 {
        let Some(price) = self.price else { return 0.0 };
        let (output_tokens, web_searches) = (answer_tokens.into(), self.web_searches);
        let answer = Usage { output_tokens, web_searches, ..Usage::default() };
        let prompts = [
            Usage { input_tokens: self.prompt_tokens, ..answer },
            Usage { cache_read_tokens: self.prompt_tokens, ..answer },
            Usage { cache_write_tokens: self.prompt_tokens, ..answer },
        ];
        prompts.iter().map(|usage| price.cost(usage)).fold(0.0, f64::max)
    }
}
