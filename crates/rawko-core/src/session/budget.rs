//! What model calls may consume and have consumed (`spec/tools-and-permissions.md`, "Guards"): a call is refused
//! before it is made when its prompt alone would break the budget, and settled when it is answered.

use super::Reaction;
use super::event::EffectId;
use super::note::Note;
use super::run::Run;
use crate::error::{ErrorCode, ErrorInfo};
use crate::usage::Usage;

/// What the model calls have used up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Spent {
    pub(super) usage: Usage,
    cost_usd: f64,
    /// A model without a known price was used: the sum would be too low.
    unpriced: bool,
}

impl Spent {
    pub(super) fn cost_usd(&self) -> Option<f64> {
        (!self.unpriced).then_some(self.cost_usd)
    }
}

impl Run {
    /// Refuses a call whose prompt alone would break the budget, before it is made.
    pub(super) fn reserve(&self, model: &str, prompt_tokens: u64) -> Result<(), ErrorInfo> {
        let limits = &self.setup.limits;
        let used = self.spent.usage.total_tokens();
        if let Some(max) = limits.max_tokens
            && used.saturating_add(prompt_tokens) > max
        {
            let message = format!(
                "the token budget is used up: {used} of {max} used, and the next prompt alone has about {prompt_tokens} (constraints.maxTokens)"
            );
            return Err(ErrorInfo::new(ErrorCode::BudgetExceeded, message));
        }
        if let Some(max) = limits.max_cost_usd {
            let prompt = Usage { input_tokens: prompt_tokens, ..Usage::default() };
            let next = self.prices.price(model).map_or(0.0, |price| price.cost(&prompt));
            let used = self.spent.cost_usd;
            if used + next > max {
                let message = format!(
                    "the cost budget is used up: ${used:.4} of ${max:.4} spent, and the next prompt alone costs about ${next:.4} (constraints.maxCostUsd)"
                );
                return Err(ErrorInfo::new(ErrorCode::BudgetExceeded, message));
            }
        }
        Ok(())
    }

    /// Settles an answered call, and tells.
    pub(super) fn account(&mut self, effect: EffectId, usage: Usage, reaction: &mut Reaction) {
        let (by, model) = match (&self.question, &self.execution) {
            (Some(question), _) => (question.purpose().to_string(), question.model().model.as_str()),
            (None, Some(execution)) => (execution.agent().to_owned(), execution.model().model.as_str()),
            (None, None) => (String::new(), ""),
        };
        self.spent.usage += usage;
        match self.prices.price(model) {
            Some(price) => self.spent.cost_usd += price.cost(&usage),
            None => self.spent.unpriced = true,
        }
        let (total, cost_usd) = (self.spent.usage, self.spent.cost_usd());
        reaction.notes.push(Note::Used { effect, by, usage, total, cost_usd });
    }
}
