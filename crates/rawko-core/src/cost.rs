//! What a model call costs: a price table and a multiplication.
//!
//! Owns list prices in US dollars per million tokens, by model name, and their overrides. It refuses to guess: a
//! model that is not in the table has no price, and the caller says so instead of showing 0. Prices are list prices
//! for the plain service tier with five-minute cache writes, as published in November 2026; discounts, batch and
//! priority tiers are an override away.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// Price of a model in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Price {
    /// Prompt tokens that neither came from nor went to the cache.
    pub input: f64,
    /// Produced tokens.
    pub output: f64,
    /// Prompt tokens read from the cache; the price of `input` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Prompt tokens written to the cache; the price of `input` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Other prices for calls with a long prompt, where the provider has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_prompt: Option<LongPrompt>,
}

/// What changes for a call whose prompt is long. The whole call is then charged so, not only the excess.
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
    /// The cost of one call in US dollars. Usage of several calls added up is only right where no
    /// [`LongPrompt`] applies, because that is judged by call.
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
        (prompt * on_input + usage.output_tokens as f64 * self.output * on_output) / 1_000_000.0
    }
}

/// Prices by model name: the built-in ones, and those that configuration puts over them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceTable {
    overrides: BTreeMap<String, Price>,
}

impl PriceTable {
    /// The built-in prices with `overrides` before them. A name in `overrides` stands for every model whose name
    /// begins with it; the longest one wins.
    #[must_use]
    pub fn with_overrides(overrides: BTreeMap<String, Price>) -> Self {
        Self { overrides }
    }

    /// The price of `model`, if it is known.
    ///
    /// A built-in name also stands for its dated releases (`claude-haiku-4-5-20251001`) and variants behind `:` or
    /// `@`, but not for other models that merely begin alike (`gpt-5` is not `gpt-5-mini`): a wrong price is worse
    /// than none.
    #[must_use]
    pub fn price(&self, model: &str) -> Option<Price> {
        let overridden = self
            .overrides
            .iter()
            .filter(|(name, _)| model.starts_with(name.as_str()))
            .max_by_key(|(n, _)| n.len());
        if let Some((_, price)) = overridden {
            return Some(*price);
        }
        let model = bare_name(model);
        BUILT_IN.iter().find(|(name, _)| is_release_of(&model, name)).map(|(_, price)| *price)
    }

    /// The cost of one call to `model` in US dollars, if its price is known.
    #[must_use]
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<f64> {
        self.price(model).map(|price| price.cost(usage))
    }
}

/// The name without a vendor in front (`anthropic/claude-…`), dots as dashes: gateways spell it either way.
fn bare_name(model: &str) -> String {
    let name = model.rsplit_once('/').map_or(model, |(_, name)| name);
    name.to_ascii_lowercase().replace('.', "-")
}

/// Whether `model` is `name`, or a dated or tagged release of it.
fn is_release_of(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else { return false };
    match rest.as_bytes().first() {
        None | Some(b':' | b'@') => true,
        Some(b'-') => {
            let tag = &rest[1..];
            let digits = tag.bytes().filter(u8::is_ascii_digit).count();
            tag == "latest" || (digits >= 4 && tag.bytes().all(|b| b.is_ascii_digit() || b == b'-'))
        }
        Some(_) => false,
    }
}

const fn price(input: f64, output: f64, cache_read: f64, cache_write: f64) -> Price {
    Price { input, output, cache_read: Some(cache_read), cache_write: Some(cache_write), long_prompt: None }
}

/// Without an extra charge for cache writes.
const fn plain(input: f64, output: f64, cache_read: f64) -> Price {
    price(input, output, cache_read, input)
}

const fn long(price: Price, above_tokens: u64, input_factor: f64, output_factor: f64) -> Price {
    Price { long_prompt: Some(LongPrompt { above_tokens, input_factor, output_factor }), ..price }
}

/// Prompts from here on cost more at OpenAI.
const OPENAI_LONG: u64 = 272_000;

/// Names in lower case with dashes for dots, as [`bare_name`] makes them.
const BUILT_IN: &[(&str, Price)] = &[
    // https://platform.claude.com/docs/en/about-claude/pricing
    ("claude-fable-5-2", Price { cache_read: None, ..price(8.0, 40.0, 0.0, 10.0) }),
    ("claude-fable-5-1", price(10.0, 50.0, 1.0, 12.5)),
    ("claude-fable-5", price(10.0, 50.0, 1.0, 12.5)),
    ("claude-opus-5-5", price(4.0, 20.0, 0.2, 5.0)),
    ("claude-opus-5", price(5.0, 25.0, 0.5, 6.25)),
    ("claude-opus-4-8", price(5.0, 25.0, 0.5, 6.25)),
    ("claude-opus-4-7", price(5.0, 25.0, 0.5, 6.25)),
    ("claude-opus-4-6", price(5.0, 25.0, 0.5, 6.25)),
    ("claude-opus-4-5", price(5.0, 25.0, 0.5, 6.25)),
    ("claude-opus-4-1", price(15.0, 75.0, 1.5, 18.75)),
    ("claude-opus-4", price(15.0, 75.0, 1.5, 18.75)),
    ("claude-sonnet-5-5", price(2.0, 10.0, 0.2, 2.5)),
    ("claude-sonnet-5", price(2.0, 10.0, 0.2, 2.5)),
    ("claude-sonnet-4-6", price(3.0, 15.0, 0.3, 3.75)),
    ("claude-sonnet-4-5", price(3.0, 15.0, 0.3, 3.75)),
    ("claude-sonnet-4", price(3.0, 15.0, 0.3, 3.75)),
    ("claude-haiku-5-5", long(price(0.1, 0.5, 0.01, 0.125), 100_000, 5.0, 5.0)),
    ("claude-haiku-4-5", price(1.0, 5.0, 0.1, 1.25)),
    // https://developers.openai.com/api/docs/pricing
    ("gpt-6-astra", long(plain(10.0, 50.0, 1.0), OPENAI_LONG, 2.0, 1.5)),
    ("gpt-6-sol", long(price(2.0, 10.0, 0.2, 2.5), OPENAI_LONG, 2.0, 1.5)),
    ("gpt-6-luna", long(price(0.1, 0.5, 0.01, 0.125), OPENAI_LONG, 2.0, 1.5)),
    ("gpt-6-1-terra", long(price(1.0, 5.0, 0.05, 1.25), OPENAI_LONG, 2.0, 1.5)),
    ("gpt-5-6-terra", long(price(2.0, 12.0, 0.2, 2.5), OPENAI_LONG, 2.0, 1.5)),
    ("gpt-5-6-luna", long(price(0.2, 1.2, 0.02, 0.25), OPENAI_LONG, 2.0, 1.5)),
    ("gpt-5-5", long(plain(5.0, 30.0, 0.5), OPENAI_LONG, 2.0, 1.5)),
    ("gpt-5-4", long(plain(2.5, 15.0, 0.25), OPENAI_LONG, 2.0, 1.5)),
    ("gpt-5-4-mini", plain(0.75, 4.5, 0.075)),
    ("gpt-5-4-nano", plain(0.2, 1.25, 0.02)),
    ("gpt-5-3-codex", plain(1.75, 14.0, 0.175)),
    ("gpt-5-2", plain(1.75, 14.0, 0.175)),
    ("gpt-5", plain(1.25, 10.0, 0.125)),
    ("gpt-5-mini", plain(0.25, 2.0, 0.025)),
    ("gpt-4-1", plain(2.0, 8.0, 0.5)),
    ("gpt-4-1-mini", plain(0.4, 1.6, 0.1)),
    ("gpt-4-1-nano", plain(0.1, 0.4, 0.025)),
    ("gpt-4o", plain(2.5, 10.0, 1.25)),
    ("gpt-4o-mini", plain(0.15, 0.6, 0.075)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(model: &str, input: Option<f64>) {
        assert_eq!(PriceTable::default().price(model).map(|p| p.input), input, "{model}");
    }

    #[test]
    fn releases_are_found_and_look_alikes_are_not() {
        check("claude-sonnet-5-5", Some(2.0));
        check("claude-sonnet-4-5-20250929", Some(3.0));
        check("claude-sonnet-4-20250514", Some(3.0));
        check("claude-opus-4-1-20250805", Some(15.0));
        check("anthropic/claude-opus-5.5", Some(4.0));
        check("gpt-5.4-mini-2026-03-17", Some(0.75));
        check("gpt-4o:extended", Some(2.5));
        check("gpt-4.1", Some(2.0));
        check("claude-sonnet-4-9", None);
        check("claude-opus-5-7", None);
        check("gpt-5-pro", None);
        check("gpt-5.9", None);
        check("llama3.2:latest", None);
        check("", None);
    }

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
        };
        check_cost("claude-sonnet-5-5", usage, 2.0 + 1.0 + 0.4 + 1.0);
        check_cost("claude-haiku-5-5", usage, 5.0 * (0.1 + 0.05 + 0.02 + 0.05));
        check_cost("claude-haiku-5-5", Usage { input_tokens: 100_000, ..Usage::default() }, 0.01);
        check_cost("claude-haiku-5-5", Usage { input_tokens: 100_001, ..Usage::default() }, 0.050_000_5);
    }

    #[test]
    fn overrides_win_by_the_longest_name() {
        let flat =
            |input| Price { input, output: 1.0, cache_read: None, cache_write: None, long_prompt: None };
        let table = PriceTable::with_overrides(BTreeMap::from([
            ("gpt-5".to_owned(), flat(7.0)),
            ("gpt-5-mini".to_owned(), flat(8.0)),
        ]));
        assert_eq!(table.price("gpt-5-mini-2025").map(|p| p.input), Some(8.0));
        assert_eq!(table.price("gpt-5.4").map(|p| p.input), Some(7.0));
        assert_eq!(table.price("gpt-4.1").map(|p| p.input), Some(2.0));
        let read = Usage { cache_read_tokens: 1_000_000, ..Usage::default() };
        assert_eq!(
            table.cost("gpt-5", &read),
            Some(7.0),
            "a cache read costs as input where nothing else is said"
        );
    }

    #[test]
    fn built_in_names_are_normal_and_unique() {
        for (i, (name, _)) in BUILT_IN.iter().enumerate() {
            assert_eq!(&bare_name(name), name);
            assert!(!BUILT_IN[..i].iter().any(|(other, _)| is_release_of(name, other)), "{name} is shadowed");
        }
    }
}
