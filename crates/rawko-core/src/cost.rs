//! The cost of model calls.
//!
//! The list prices are in [`crate::models`]; the configuration can override them, for example for discounts, batch or
//! priority tiers. Nothing is guessed: a model without a known price has none, and the caller shows that instead of 0.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::models;
use crate::usage::Usage;

/// Price of a model in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Price {
    /// Prompt tokens that were neither read from nor written to the cache.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Prompt tokens read from the cache; the price of `input` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Prompt tokens written to the cache; the price of `input` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Other prices for calls with a long prompt, if the provider has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_prompt: Option<LongPrompt>,
    /// A thousand searches of the web that the provider runs; the known price if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<f64>,
}

/// Price factors for a call with a long prompt. They apply to the whole call, not only to the excess.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct LongPrompt {
    /// A prompt of more tokens than this is long.
    pub above_tokens: u64,
    /// Factor on input, cache reads and cache writes.
    pub input_factor: f64,
    /// Factor on output.
    pub output_factor: f64,
}

impl Price {
    /// The cost of one call in US dollars. The sum of several calls' usage may only be passed if there is no
    /// [`LongPrompt`], because that depends on the single call.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn cost(&self, usage: &Usage) -> f64 {
        let (on_input, on_output) = match self.long_prompt {
            Some(long) if usage.prompt_tokens() > long.above_tokens => {
                (long.input_factor, long.output_factor)
            }
            _ => (1.0, 1.0),
        };
        let prompt = usage.input_tokens as f64 * self.input
            + usage.cache_read_tokens as f64 * self.cache_read.unwrap_or(self.input)
            + usage.cache_write_tokens as f64 * self.cache_write.unwrap_or(self.input);
        let searches = usage.web_searches as f64 * self.search.unwrap_or(0.0) / 1_000.0;
        (prompt * on_input + usage.output_tokens as f64 * self.output * on_output) / 1_000_000.0 + searches
    }

    /// Whether all that was used has a price.
    #[must_use]
    pub fn covers(&self, usage: &Usage) -> bool {
        usage.web_searches == 0 || self.search.is_some()
    }
}

/// Prices by model name: the built-in ones and the configuration's overrides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceTable {
    overrides: BTreeMap<String, Price>,
}

impl PriceTable {
    /// The built-in prices, overridden by `overrides`. A name in `overrides` applies to every model whose name begins
    /// with it; the longest match wins.
    #[must_use]
    pub fn with_overrides(overrides: BTreeMap<String, Price>) -> Self {
        Self { overrides }
    }

    /// The price of `model`, if it is known.
    ///
    /// [`models::find`] documents for which names a built-in price applies.
    #[must_use]
    pub fn price(&self, model: &str) -> Option<Price> {
        let overridden = self
            .overrides
            .iter()
            .filter(|(name, _)| model.starts_with(name.as_str()))
            .max_by_key(|(n, _)| n.len());
        let facts = models::find(model);
        let price = overridden.map(|(_, price)| *price).or(facts.price);
        price.map(|price| Price { search: price.search.or(facts.search_price), ..price })
    }

    /// The cost of one call to `model` in US dollars, if its price is known.
    #[must_use]
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        self.price(model).filter(|price| price.covers(usage)).map(|price| price.cost(usage))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_cost(model: &str, usage: Usage, expected: f64) {
        let cost = PriceTable::default().cost(model, &usage).expect("a known price");
        assert!((cost - expected).abs() < 1e-9, "{cost} is not {expected}");
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        let usage = Usage {
            input_tokens: 1_000_000,
            output_tokens: 100_000,
            cache_read_tokens: 2_000_000,
            cache_write_tokens: 400_000,
            web_searches: 0,
            estimated: false,
        };
        check_cost("claude-sonnet-5-5", usage, 2.0 + 1.0 + 0.4 + 1.0);
        check_cost("claude-haiku-5-5", usage, 5.0 * (0.1 + 0.05 + 0.02 + 0.05));
        check_cost("claude-haiku-5-5", Usage { input_tokens: 100_000, ..Usage::default() }, 0.01);
        check_cost("claude-haiku-5-5", Usage { input_tokens: 100_001, ..Usage::default() }, 0.050_000_5);
    }

    #[test]
    fn searches_are_paid_by_the_thousand_and_have_no_price_where_none_is_known() {
        let searched = Usage { web_searches: 5, ..Usage::default() };
        check_cost("claude-sonnet-5-5", searched, 0.05);
        assert_eq!(PriceTable::default().cost("gpt-4.1", &searched), None);
        let own = Price {
            input: 1.0,
            output: 1.0,
            cache_read: None,
            cache_write: None,
            long_prompt: None,
            search: None,
        };
        let table = |search| PriceTable::with_overrides([("m".to_owned(), Price { search, ..own })].into());
        assert_eq!(table(None).cost("m", &searched), None);
        assert_eq!(table(Some(2.0)).cost("m", &searched), Some(0.01));
    }

    #[test]
    fn overrides_win_by_the_longest_name() {
        let flat = |input| Price {
            input,
            output: 1.0,
            cache_read: None,
            cache_write: None,
            long_prompt: None,
            search: None,
        };
        let table = PriceTable::with_overrides(BTreeMap::from([
            ("gpt-5".to_owned(), flat(7.0)),
            ("gpt-5-mini".to_owned(), flat(8.0)),
        ]));
        assert_eq!(table.price("gpt-5-mini-2025").map(|p| p.input), Some(8.0));
        assert_eq!(table.price("gpt-5.4").map(|p| p.input), Some(7.0));
        assert_eq!(table.price("gpt-4.1").map(|p| p.input), Some(2.0));
        let read = Usage { cache_read_tokens: 1_000_000, ..Usage::default() };
        assert_eq!(table.cost("gpt-5", &read), Some(7.0), "a cache read costs as much as input by default");
    }
}
