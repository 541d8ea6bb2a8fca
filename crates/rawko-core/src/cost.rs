//! The cost of model calls.
//!
//! The list prices are in [`crate::models`]; the configuration can override them, for example for discounts, batch or
//! priority tiers. Nothing is guessed: a model without a known price has none, and the caller shows that instead of 0.

use std::collections::BTreeMap;

use crate::models;
pub use crate::models::{LongPrompt, Price};
use crate::usage::Usage;

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
