//! Budgets, and what one more call may consume.

use super::{ANSWER_LIMITS, Reservation, payer};
use crate::cost::Price;
use crate::error::{ErrorCode, ErrorInfo};
use crate::facts::BudgetFacts;
use crate::request::Purpose;
use crate::session::LimitKind;
use crate::session::ledger::Ledger;
use crate::setup::ModelChoice;
use crate::usage::Usage;

/// The shortest answer that is worth a call, in tokens.
const LEAST_ANSWER: u32 = 256;

/// Why a call is not made.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::session) enum BudgetRefusal {
    /// The run's budget does not allow it.
    Run(ErrorInfo),
    /// The agent's own budget does not allow it: this is why.
    Agent(String),
}

impl BudgetRefusal {
    /// The refusal as an error, where it does not matter whose budget it was.
    pub(in crate::session) fn into_error(self) -> ErrorInfo {
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
struct BudgetShortfall {
    kind: LimitKind,
    message: String,
}

impl Ledger {
    /// What the call may consume, to be reserved once it has an effect; refused if a budget has no room for it.
    pub(in crate::session) fn reserve(
        &mut self,
        purpose: &Purpose,
        choice: &ModelChoice,
        prompt_tokens: u64,
    ) -> Result<Reservation, BudgetRefusal> {
        let price = self.spend.prices.price(&choice.model);
        let search = choice.search.as_ref().filter(|_| !purpose.is_aside());
        let web_searches = search.map_or(0, |search| search.max_uses.into());
        let call = PricedCall { choice, prompt_tokens, web_searches, price };
        let of_run = match call.fit(&self.run_budget()) {
            Ok(tokens) => tokens,
            Err(BudgetShortfall { kind, message }) => {
                self.task.limit = Some(kind);
                return Err(BudgetRefusal::Run(ErrorInfo::new(ErrorCode::BudgetExceeded, message)));
            }
        };
        let of_agent = match payer(purpose).and_then(|agent| self.agent_budget(agent)) {
            Some(budget) => call.fit(&budget).map_err(|short| BudgetRefusal::Agent(short.message))?,
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
    pub(in crate::session) fn affordable_answer(&self, choice: &ModelChoice, prompt_tokens: u64) -> u32 {
        let price = self.spend.prices.price(&choice.model);
        let call = PricedCall { choice, prompt_tokens, web_searches: 0, price };
        call.fit(&self.run_budget()).unwrap_or(0)
    }

    /// Whether the run's budgets have room for an outside agent. How much it will use is not known.
    pub(in crate::session) fn has_budget_for_outside(&mut self) -> Result<(), ErrorInfo> {
        let Budget { max_tokens, max_cost_usd, tokens, cost_usd, .. } = self.run_budget();
        let (kind, what) = if max_tokens.is_some_and(|max| tokens >= max) {
            (LimitKind::Tokens, "the token budget is used up (constraints.maxTokens)")
        } else if max_cost_usd.is_some_and(|max| cost_usd >= max) {
            (LimitKind::Cost, "the cost budget is used up (constraints.maxCostUsd)")
        } else {
            return Ok(());
        };
        self.task.limit = Some(kind);
        Err(ErrorInfo::new(ErrorCode::BudgetExceeded, what))
    }

    fn run_budget(&self) -> Budget<'static> {
        let limits = &self.setup.limits;
        let (tokens, cost_usd) = self.spend.reserved(|_| true);
        Budget {
            max_tokens: limits.max_tokens,
            max_cost_usd: limits.max_cost_usd,
            tokens: self.spend.run_tokens().saturating_add(tokens),
            cost_usd: self.spend.shared.used.cost_usd + self.spend.own.cost_usd + cost_usd,
            of: "",
            section: "constraints",
        }
    }

    /// What is left of the run's budgets.
    pub(in crate::session) fn remaining(&self) -> BudgetFacts {
        let budget = self.run_budget();
        let limits = &self.setup.limits;
        BudgetFacts {
            tokens_left: limits.max_tokens.map(|max| max.saturating_sub(budget.tokens)),
            cost_usd_left: limits.max_cost_usd.map(|max| (max - budget.cost_usd).max(0.0)),
            time_left_ms: limits.max_duration_ms.map(|max| max.saturating_sub(self.elapsed_ms())),
        }
    }

    /// The same without default limits, until half of a limit is used: otherwise each question would only be a new one.
    pub(in crate::session) fn remaining_worth_telling(&self) -> BudgetFacts {
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
    pub(in crate::session) fn elapsed_ms(&self) -> u64 {
        let begun = self.task.context().started_at.unwrap_or(self.now);
        self.now.since(begun).saturating_sub(self.spend.paused_ms)
    }
}

/// A call that is to be made.
struct PricedCall<'a> {
    choice: &'a ModelChoice,
    prompt_tokens: u64,
    /// The most searches of the web that the provider may run for it.
    web_searches: u64,
    price: Option<Price>,
}

impl PricedCall<'_> {
    /// The longest answer that `budget` has room for.
    fn fit(&self, budget: &Budget<'_>) -> Result<u32, BudgetShortfall> {
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
                return Err(BudgetShortfall { kind: LimitKind::Tokens, message });
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
                return Err(BudgetShortfall { kind: LimitKind::Cost, message });
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
