//! The price of a model, and what a call costs by it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// Price of a model in US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
